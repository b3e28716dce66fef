internal import Glibc
package import NearshareBase
package import NearshareInterfaces

/// A stream of unknown length, such as standard input. It is read once for any number of receivers, at the speed of the slowest
/// one; a receiver that cancels, or takes nothing for 30 seconds, no longer holds up the others.
///
/// Each receiver has a ``Reader``. Bytes are kept while a reader has not started, so that a receiver that accepts late gets the
/// whole stream.
package final class StreamSource: Sendable {
    /// The name of standard input at the receiver, unless the user gives another one.
    package static let defaultName = "stdin"

    private static let blockByteCount = 64 << 10

    package let offer: Offer
    private let descriptor: Int32
    private let name: ClaimedFileName
    private let clock: @Sendable () -> MonotonicInstant
    private let state: Monitor<FanOutBuffer>
    /// The actions of readers that are removed.
    private let failureActions = Monitor<[Int: @Sendable (StorageError) -> Void]>([:])
    /// Wakes the thread that waits for the stream after a reader was cancelled. Without a descriptor left, a cancelled reader
    /// ends with the stream's next bytes.
    private let wake = EventFD()
    private let readerNumbers: Range<Int>

    /// - Parameters:
    ///   - descriptor: stays owned by the caller.
    ///   - receivers: the number of readers.
    package init(
        descriptor: Int32, name: ClaimedFileName, receivers: Int, clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        self.clock = clock
        self.descriptor = descriptor
        self.name = name
        state = Monitor(FanOutBuffer(readerCount: receivers))
        readerNumbers = 0..<receivers
        let item = OfferedItem(kind: .file, name: name, size: nil, entryCount: 1, mediaType: .unknown)
        offer = Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: nil)
    }

    /// One reader for each receiver.
    package var readers: [Reader] { readerNumbers.map { Reader(stream: self, number: $0) } }

    /// The stream as one receiver's source.
    package struct Reader: ResourceSource {
        let stream: StreamSource
        let number: Int

        package var offer: Offer { stream.offer }

        package func makeReader() throws(StorageError) -> any ResourceReader {
            guard stream.state.update({ $0.start(number) }) else {
                throw StorageError(.changed, "a stream can be sent only once; start the command again")
            }
            return StreamResourceReader(stream, number: number, name: stream.name)
        }

        package func cancel() { stream.cancel(number) }
    }

    /// Returns 0 at the end of the stream.
    fileprivate func read(_ number: Int, into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        while true {
            var stalled: [Int] = []
            let next = state.waitWithDeadlines { state, _ -> MonitorWait<FanOutBuffer.Step?> in
                let now = clock()
                stalled = state.removeStalled(now: now)
                guard stalled.isEmpty else { return .ready(nil) }
                if let step = state.next(for: number, into: buffer, now: now) { return .ready(step) }
                return .waiting(untilNanoseconds: state.stallDeadline?.nanoseconds)
            }
            switch next {
            case nil: for reader in stalled { failureActions.withLock { $0.removeValue(forKey: reader) }?(Self.stalled) }
            case .copied(let count): return count
            case .failed(let error): throw error
            case .readDirectly:
                let result = readStream(into: buffer)
                state.update { $0.finishDirectRead(result, by: number) }
                if let count = result.count, count > 0 { return count }
            case .fill:
                var result = FanOutBuffer.ReadResult.interrupted
                let block = [UInt8](unsafeUninitializedCapacity: Self.blockByteCount) { block, count in
                    result = readStream(into: UnsafeMutableRawBufferPointer(block))
                    count = result.count ?? 0
                }
                state.update { $0.finishFilling(result, appending: block) }
            }
        }
    }

    private static let stalled = StorageError(
        .failed, "nothing was received for 30 seconds while other receivers waited; send it to this receiver alone")

    fileprivate func onFailure(of number: Int, _ action: @escaping @Sendable (StorageError) -> Void) {
        failureActions.withLock { $0[number] = action }
    }

    private func readStream(into buffer: UnsafeMutableRawBufferPointer) -> FanOutBuffer.ReadResult {
        var waiting = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: wake.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&waiting, 2, -1) > 0 else { return .interrupted }
        if waiting[1].revents != 0 {
            wake.reset()
            return .interrupted
        }
        let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        return errno == EINTR || errno == EAGAIN ? .interrupted : .failure(StorageError(errno, "could not read the stream"))
    }

    fileprivate func cancel(_ number: Int) {
        state.update { $0.remove(number) }
        failureActions.withLock { $0[number] = nil }
        wake.signal()
    }
}

private final class StreamResourceReader: ResourceReader {
    private let source: StreamSource
    private let number: Int
    private let name: ClaimedFileName
    private var hasStarted = false

    init(_ source: StreamSource, number: Int, name: ClaimedFileName) {
        self.source = source
        self.number = number
        self.name = name
    }

    deinit { source.cancel(number) }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        guard !hasStarted else { return nil }
        hasStarted = true
        return EntryHeader(item: 0, kind: .file, path: [name], size: nil, modified: nil, permissions: nil)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        try source.read(number, into: buffer)
    }

    func seek(to offset: UInt64) throws(StorageError) {
        throw StorageError(.failed, "a stream cannot seek")
    }

    func cancel() { source.cancel(number) }

    func onFailure(_ action: @escaping @Sendable (StorageError) -> Void) { source.onFailure(of: number, action) }
}
