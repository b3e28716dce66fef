internal import CNearshareShims
internal import Glibc
package import NearshareBase
package import NearshareInterfaces

/// A stream of unknown length, such as standard input. It is read once, however many receive it: the slowest of them sets the
/// pace, and one that gives up is no longer waited for.
///
/// Each receiver has a seat, which is the source as it sees it. Nothing is forgotten while a seat is free, so that whoever
/// answers late gets the stream from its beginning.
package final class StreamSource: Sendable {
    fileprivate struct State {
        /// The bytes of the stream from `start` on that some reader has not had yet.
        var window: [UInt8] = []
        var start: UInt64 = 0
        var isAtEnd = false
        var failure: StorageError?
        var isReading = false
        /// Where each reader is, by the number of its seat.
        var readers: [Int: UInt64] = [:]
        /// Seats whose readers may still come.
        var free: Set<Int>

        /// Nobody else has to be served from what is read.
        var hasOneReader: Bool { free.isEmpty && readers.count == 1 }
    }

    private static let windowByteCount = 1 << 20
    private static let pieceByteCount = 64 << 10

    package let offer: Offer
    private let descriptor: Int32
    private let name: ClaimedFileName
    private let state: Monitor<State>
    /// Readable when a reader has left: whoever waits for the stream looks whether it was meant.
    private let wake: FileDescriptor
    private let seatNumbers: Range<Int>

    /// - Parameters:
    ///   - descriptor: stays the caller's.
    ///   - receivers: how many will read it.
    package init(descriptor: Int32, name: ClaimedFileName, receivers: Int) {
        self.descriptor = descriptor
        self.name = name
        state = Monitor(State(free: Set(0..<receivers)))
        seatNumbers = 0..<receivers
        // Without one, a cancelled reader ends when the stream next has something.
        wake = FileDescriptor(owning: nearshare_eventfd())
        let item = OfferedItem(kind: .file, name: name, size: nil, entryCount: 1, mediaType: .unknown)
        offer = Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: nil)
    }

    /// One for each receiver.
    package var readers: [Reader] { seatNumbers.map { Reader(stream: self, number: $0) } }

    /// The stream as one receiver sees it.
    package struct Reader: ResourceSource {
        let stream: StreamSource
        let number: Int

        package var offer: Offer { stream.offer }

        package func makeReader() throws(StorageError) -> any ResourceReader {
            let isTaken = stream.state.update { state in
                guard state.free.remove(number) != nil else { return false }
                state.readers[number] = 0
                return true
            }
            guard isTaken else { throw StorageError(.changed, "a stream can be sent once only; start the command again") }
            return StreamReader(stream, number, stream.name)
        }

        /// Nobody reads here any more: the receiver declined, could not be reached, or has got all.
        package func cancel() {
            stream.leave(number)
        }
    }

    private enum Turn {
        case took(Int)
        case failed(StorageError)
        /// Reads for all, into the window.
        case fetches
        /// Reads for itself alone.
        case readsAlone
    }

    /// Returns 0 at the end.
    fileprivate func read(_ number: Int, into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        while true {
            let turn: Turn = state.wait { state in
                guard let position = state.readers[number] else {
                    return .failed(StorageError(.failed, "reading the stream was cancelled"))
                }
                let offset = Int(position - state.start)
                let available = state.window.count - offset
                if available > 0 {
                    let count = min(available, buffer.count)
                    buffer.copyBytes(from: state.window[offset..<offset + count])
                    state.readers[number] = position + UInt64(count)
                    Self.forget(&state)
                    return .took(count)
                }
                if let failure = state.failure { return .failed(failure) }
                if state.isAtEnd { return .took(0) }
                guard !state.isReading else { return nil }
                if state.hasOneReader {
                    state.window.removeAll(keepingCapacity: false)
                    state.start = position
                    state.isReading = true
                    return .readsAlone
                }
                // A full window waits for the slowest, and for those who have yet to begin.
                guard state.window.count < Self.windowByteCount else { return nil }
                state.isReading = true
                return .fetches
            }
            switch turn {
            case .took(let count): return count
            case .failed(let failure): throw failure
            case .readsAlone:
                let got = next(into: buffer)
                state.update { state in
                    state.note(got)
                    // Gone meanwhile: then nobody is left to miss what was read.
                    guard let count = got.count, state.readers[number] != nil else { return }
                    state.start += UInt64(count)
                    state.readers[number] = state.start
                }
                if let count = got.count, count > 0 { return count }
            case .fetches:
                var got = Got.nothing
                let piece = [UInt8](unsafeUninitializedCapacity: Self.pieceByteCount) { buffer, count in
                    got = next(into: UnsafeMutableRawBufferPointer(buffer))
                    count = got.count ?? 0
                }
                state.update { state in
                    state.note(got)
                    state.window += piece
                    Self.forget(&state)
                }
            }
        }
    }

    fileprivate enum Got {
        case bytes(Int)
        case end
        case failure(StorageError)
        /// Woken for another reason.
        case nothing

        var count: Int? { if case .bytes(let count) = self { count } else { nil } }
    }

    private func next(into buffer: UnsafeMutableRawBufferPointer) -> Got {
        var waiting = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wake.number, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&waiting, 2, -1) > 0 else { return .nothing }
        if waiting[1].revents != 0 {
            var count: UInt64 = 0
            _ = Glibc.read(wake.number, &count, MemoryLayout<UInt64>.size)
            return .nothing
        }
        let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        return errno == EINTR || errno == EAGAIN ? .nothing : .failure(StorageError(errno, "can't read the stream"))
    }

    fileprivate func leave(_ number: Int) {
        state.update { state in
            state.free.remove(number)
            state.readers[number] = nil
            Self.forget(&state)
        }
        var one: UInt64 = 1
        _ = Glibc.write(wake.number, &one, MemoryLayout<UInt64>.size)
    }

    /// Drops what every reader has had.
    private static func forget(_ state: inout State) {
        guard state.free.isEmpty, let slowest = state.readers.values.min() else { return }
        let count = Int(slowest - state.start)
        // Moving the rest to the front for every few bytes would cost more than the memory.
        guard count >= windowByteCount / 4 || count == state.window.count else { return }
        state.window.removeFirst(count)
        state.start = slowest
    }
}

extension StreamSource.State {
    fileprivate mutating func note(_ got: StreamSource.Got) {
        isReading = false
        switch got {
        case .bytes, .nothing: break
        case .end: isAtEnd = true
        case .failure(let error): failure = error
        }
    }
}

private final class StreamReader: ResourceReader {
    private let source: StreamSource
    private let number: Int
    private let name: ClaimedFileName
    private var isBegun = false

    init(_ source: StreamSource, _ number: Int, _ name: ClaimedFileName) {
        self.source = source
        self.number = number
        self.name = name
    }

    deinit { source.leave(number) }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        guard !isBegun else { return nil }
        isBegun = true
        return EntryHeader(item: 0, kind: .file, path: [name], size: nil, modified: nil, permissions: nil)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        try source.read(number, into: buffer)
    }

    func seek(to offset: UInt64) throws(StorageError) {
        throw StorageError(.failed, "a stream can't be gone back in")
    }

    func cancel() { source.leave(number) }
}
