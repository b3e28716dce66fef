internal import NearshareBase

/// The receiving part of a byte stream: bytes that wait to be read, and the window (cf. RFC 9000, section 3.2).
struct ReceivingPart: Sendable {
    private var queue = ByteQueue()
    private var received: UInt64 = 0
    private var granted = StreamFrame.initialWindow
    /// Whether the peer has ended the direction: all its bytes have arrived.
    private(set) var hasEnded = false
    /// Whether the program has read the end.
    private(set) var isFinished = false
    /// Whether the program has abandoned the stream, so that data is discarded.
    var isDiscarding = false

    /// Whether there are bytes to read, or the end, which stays readable.
    var isReadable: Bool { !queue.isEmpty || hasEnded }

    /// - Returns: Whether the stream has become readable.
    mutating func receive(_ bytes: ArraySlice<UInt8>) throws(MalformedInput) -> Bool {
        guard !hasEnded else { throw MalformedInput("stream: data after its end") }
        let total = try received.adding(UInt64(bytes.count), named: "stream")
        guard total <= granted else { throw MalformedInput("stream: more data than was granted") }
        let wasEmpty = queue.isEmpty
        received = total
        queue.append(bytes)
        return wasEmpty
    }

    /// - Returns: Whether the stream has become readable.
    mutating func receiveFinish() throws(MalformedInput) -> Bool {
        guard !hasEnded else { throw MalformedInput("stream: it ended twice") }
        hasEnded = true
        return queue.isEmpty
    }

    mutating func read(upTo limit: Int) -> ByteStreams.ReadResult {
        guard queue.isEmpty else { return .bytes(Array(queue.popPrefix(limit))) }
        guard hasEnded else { return .nothing }
        isFinished = true
        return .end
    }

    /// Returns a new limit when enough was read to be worth a credit frame.
    mutating func nextCredit(window: UInt64) -> UInt64? {
        guard !hasEnded else { return nil }
        let limit = received.subtractingClamped(UInt64(queue.count)).addingClamped(window)
        guard limit >= granted.addingClamped(window / 2) else { return nil }
        granted = limit
        return limit
    }
}
