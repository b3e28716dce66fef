internal import NearshareBase
internal import NearshareInterfaces

/// The shared buffer of a stream that several readers consume at their own speed. A value; ``StreamSource`` does the reading.
///
/// The buffer holds the bytes that at least one reader has not consumed, from the beginning of the stream as long as a reader
/// has not started.
struct FanOutBuffer {
    /// The next action of a reader.
    enum Step: Equatable {
        /// This many bytes were copied; 0 at the end of the stream.
        case copied(Int)
        case failed(StorageError)
        /// Read the stream into a block for ``complete(_:appending:)``.
        case fill
        /// Read the stream into the reader's own buffer, for ``complete(_:by:)``: no other reader needs the bytes.
        case readDirectly

        static func == (left: Step, right: Step) -> Bool {
            switch (left, right) {
            case (.copied(let one), .copied(let other)): one == other
            case (.failed(let one), .failed(let other)): one.code == other.code
            case (.fill, .fill), (.readDirectly, .readDirectly): true
            default: false
            }
        }
    }

    /// The result of reading the stream.
    enum ReadResult {
        case bytes(Int)
        case end
        case failure(StorageError)
        /// Interrupted before any bytes were read.
        case interrupted

        var count: Int? { if case .bytes(let count) = self { count } else { nil } }
    }

    private enum Stream {
        case idle
        /// One reader reads from it.
        case reading
        case ended
        case failed(StorageError)
    }

    private var window: [UInt8] = []
    /// The stream offset of the first byte in `window`.
    private var start: UInt64 = 0
    private var stream = Stream.idle
    private struct Position {
        /// The reader's offset in the stream.
        var offset: UInt64 = 0
        var lastRead: MonotonicInstant?
    }

    /// The active readers.
    private var positions: [Int: Position] = [:]
    /// The time since which a reader waits for another one; nil while none does.
    private var fullSince: MonotonicInstant?
    /// Readers that have not started.
    private var unstarted: Set<Int>

    /// Limit on the buffered bytes; a full buffer waits for the slowest reader.
    static let capacity = 1 << 20
    /// Time after which a reader that reads nothing no longer holds up the others.
    static let stallTimeout = Duration.seconds(30)

    init(readerCount: Int) {
        unstarted = Set(0..<readerCount)
    }

    /// - Returns: false when the reader has started before, or was removed.
    mutating func start(_ reader: Int) -> Bool {
        guard unstarted.remove(reader) != nil else { return false }
        positions[reader] = Position()
        return true
    }

    /// Removes a reader: the others no longer wait for it.
    mutating func remove(_ reader: Int) {
        unstarted.remove(reader)
        positions[reader] = nil
        dropConsumed()
    }

    /// Removes the readers that have read nothing for ``stallTimeout`` while another one waited for them.
    mutating func removeStalled(now: MonotonicInstant) -> [Int] {
        let stalled = positions.keys.filter { stallDeadline(of: $0).map { $0 <= now } ?? false }
        for reader in stalled { remove(reader) }
        return stalled
    }

    /// The time of the next ``removeStalled(now:)``.
    var stallDeadline: MonotonicInstant? { positions.keys.compactMap(stallDeadline(of:)).min() }

    private func stallDeadline(of reader: Int) -> MonotonicInstant? {
        guard let fullSince, let position = positions[reader], Int(position.offset - start) < window.count else { return nil }
        return max(fullSince, position.lastRead ?? fullSince) + Self.stallTimeout
    }

    /// - Returns: nil while the reader has to wait.
    mutating func next(
        for reader: Int, into buffer: UnsafeMutableRawBufferPointer, now: MonotonicInstant
    ) -> Step? {
        guard let position = positions[reader]?.offset else {
            return .failed(StorageError(.failed, "reading the stream was cancelled"))
        }
        let offset = Int(position - start)
        if offset < window.count {
            let count = min(window.count - offset, buffer.count)
            buffer.copyBytes(from: window[offset..<offset + count])
            positions[reader] = Position(offset: position + UInt64(count), lastRead: now)
            dropConsumed()
            return .copied(count)
        }
        switch stream {
        case .failed(let error): return .failed(error)
        case .ended: return .copied(0)
        case .reading: return nil
        case .idle: break
        }
        if unstarted.isEmpty, positions.count == 1 {
            window.removeAll(keepingCapacity: false)
            start = position
            stream = .reading
            return .readDirectly
        }
        guard window.count < Self.capacity else {
            // A reader that has not started may still be asked, which its offer's timeout ends.
            if unstarted.isEmpty, fullSince == nil { fullSince = now }
            return nil
        }
        stream = .reading
        return .fill
    }

    /// Ends a ``Step/readDirectly``.
    mutating func finishDirectRead(_ result: ReadResult, by reader: Int) {
        finishReading(result)
        // A reader that was removed in the meantime was the last one: no reader needs the bytes.
        guard let count = result.count, positions[reader] != nil else { return }
        start += UInt64(count)
        positions[reader]?.offset = start
    }

    /// Ends a ``Step/fill``.
    mutating func finishFilling(_ result: ReadResult, appending bytes: [UInt8]) {
        finishReading(result)
        window += bytes
        dropConsumed()
    }

    private mutating func finishReading(_ result: ReadResult) {
        stream =
            switch result {
            case .bytes, .interrupted: .idle
            case .end: .ended
            case .failure(let error): .failed(error)
            }
    }

    /// Drops the bytes that all readers have consumed.
    private mutating func dropConsumed() {
        guard unstarted.isEmpty, let slowest = positions.values.map(\.offset).min() else { return }
        let count = Int(slowest - start)
        // Moving the rest to the front for every few bytes would cost more than the memory.
        guard count >= Self.capacity / 4 || count == window.count else { return }
        window.removeFirst(count)
        start = slowest
        fullSince = nil
    }
}
