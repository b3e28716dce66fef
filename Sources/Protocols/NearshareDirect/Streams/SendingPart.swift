internal import NearshareBase

/// The sending part of a byte stream: bytes that wait for credit, and the end (cf. RFC 9000, section 3.1).
struct SendingPart: Sendable {
    private var queue = ByteQueue()
    private var sent: UInt64 = 0
    private var limit = StreamFrame.initialWindow
    /// Whether the program has finished the direction.
    private(set) var isFinishing = false
    /// Whether the finish frame was sent.
    private(set) var isFinished = false
    /// Whether the program waits for room.
    private var isProgramWaiting = false

    /// Whether there is a frame to send.
    var isReady: Bool { queue.isEmpty ? isFinishing && !isFinished : limit > sent }

    /// Whether bytes that the program has written are not sent. The end alone is none: the reader lacks nothing without it.
    var hasUnsentBytes: Bool { !queue.isEmpty }

    /// The bytes that fit into a buffer of this size.
    func availableByteCount(in buffer: Int) -> Int { max(0, buffer - queue.count) }

    /// Queues bytes as far as the buffer has room.
    /// - Returns: The number of bytes queued.
    mutating func write(_ bytes: ArraySlice<UInt8>, buffer: Int) throws(StreamError) -> Int {
        guard !isFinishing else { throw .notOpen }
        let count = min(bytes.count, availableByteCount(in: buffer))
        queue.append(bytes.prefix(count))
        if count < bytes.count { isProgramWaiting = true }
        return count
    }

    mutating func finish() { isFinishing = true }

    mutating func receiveCredit(upTo newLimit: UInt64) throws(MalformedInput) {
        guard newLimit >= limit else { throw MalformedInput("stream: credit was reduced") }
        limit = newLimit
    }

    enum Chunk {
        /// Data, and whether a waiting program has room again.
        case data(ArraySlice<UInt8>, isWritable: Bool)
        case finish
    }

    /// Returns the next data, or the end; nil when there is nothing to send, or no credit.
    mutating func next(maximumData: Int, buffer: Int) -> Chunk? {
        guard isReady else { return nil }
        guard !queue.isEmpty else {
            isFinished = true
            return .finish
        }
        let bytes = queue.popPrefix(min(maximumData, Int(clamping: limit.subtractingClamped(sent))))
        sent = sent.addingClamped(UInt64(bytes.count))
        let isWritable = isProgramWaiting && availableByteCount(in: buffer) >= buffer / 2
        if isWritable { isProgramWaiting = false }
        return .data(bytes, isWritable: isWritable)
    }
}
