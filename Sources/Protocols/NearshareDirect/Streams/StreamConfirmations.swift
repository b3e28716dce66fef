/// The programs' streams of one link of which bytes were sent that may not have arrived. A link keeps the order of its frames, so the
/// answer to a ping says that all frames before the ping have arrived.
///
///     sent ──ping──► awaited ──pong──► arrived
struct StreamConfirmations: Sendable {
    private struct Streams: Sendable {
        var open: Set<StreamID> = []
        /// Streams that have ended in both directions since their bytes were sent.
        var endedCount = 0

        var isEmpty: Bool { open.isEmpty && endedCount == 0 }
    }

    /// The streams of which bytes were sent since the latest ping.
    private var sent = Streams()
    /// The streams of which bytes were sent before the latest ping; nil while no answer is awaited.
    private var awaited: Streams?
    private var isRequested = false
    /// The token of the latest ping. Those of pings that keep the link alive are times, whose highest bit is 0.
    private var lastToken: UInt64 = 1 << 63
    /// The token of the latest ping that was answered.
    private var lastConfirmed: UInt64 = 1 << 63

    /// Open streams of which bytes may not have arrived.
    var open: Set<StreamID> { sent.open.union(awaited?.open ?? []) }

    /// The number of ended streams of which bytes may not have arrived.
    var endedCount: Int { sent.endedCount + (awaited?.endedCount ?? 0) }

    /// Whether a ping is to be sent now.
    var isDue: Bool { isRequested && awaited == nil }

    /// Whether the ping with this token, or a later one, was answered.
    func isConfirmed(_ token: UInt64) -> Bool { lastConfirmed >= token }

    /// Records that bytes of a stream were sent.
    mutating func recordBytes(of id: StreamID) { sent.open.insert(id) }

    /// Requests a ping after the bytes that were sent so far; one at a time is on its way.
    /// - Returns: The token of the ping whose answer confirms them; nil where all have arrived.
    @discardableResult
    mutating func request() -> UInt64? {
        guard !sent.isEmpty else { return awaited == nil ? nil : lastToken }
        isRequested = true
        // Bounded: as in `nextToken`.
        return lastToken + 1
    }

    /// Returns the token of the ping to send; nil for none.
    mutating func nextToken() -> UInt64? {
        guard isDue else { return nil }
        (awaited, sent, isRequested) = (sent, Streams(), false)
        // Bounded: one for each answer of the peer.
        lastToken += 1
        return lastToken
    }

    /// Processes an answer to a ping.
    /// - Returns: Whether it is the awaited one.
    mutating func receive(_ token: UInt64) -> Bool {
        guard awaited != nil, token == lastToken else { return false }
        awaited = nil
        lastConfirmed = token
        return true
    }

    /// Records that a stream has ended in both directions.
    mutating func recordEnd(of id: StreamID) {
        let wasAwaited = awaited?.open.remove(id) != nil
        // Bounded: counts streams of this node's program.
        if sent.open.remove(id) != nil {
            sent.endedCount += 1
        } else if wasAwaited {
            awaited?.endedCount += 1
        }
    }

    /// Records that a stream was reset, which both ends know, or will know.
    mutating func recordReset(of id: StreamID) {
        sent.open.remove(id)
        awaited?.open.remove(id)
    }
}
