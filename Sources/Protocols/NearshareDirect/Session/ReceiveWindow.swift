internal import NearshareBase

/// The receiving part of a ``MessageChannel``: the order of messages, and the window of those that the program has not taken
/// yet.
struct ReceiveWindow: Sendable {
    /// The number of the next message to receive.
    private(set) var expected: UInt64 = 0
    /// The number of messages delivered to the program.
    private(set) var delivered: UInt64 = 0
    /// The window's cost of messages received and not delivered.
    private var pendingByteCount: Int
    /// Messages of earlier epochs that are not delivered yet. They precede all others, and are not acknowledged.
    private var staleCount: UInt64
    /// The window's cost of messages delivered and not acknowledged.
    private var owedByteCount = 0

    /// - Parameter stale: Messages that an earlier channel has received and not delivered.
    init(stale: [SessionMessage]) {
        staleCount = UInt64(stale.count)
        pendingByteCount = stale.reduce(0) { $0 + $1.windowByteCount }
    }

    /// Accepts the message of a number.
    /// - Returns: false for a message that was received before, over another link.
    mutating func receive(_ number: UInt64, _ window: MessageChannel.Limits) throws(MalformedInput) -> Bool {
        guard number <= expected else { throw MalformedInput("message: an earlier one is missing") }
        guard number == expected else { return false }
        guard undeliveredCount < UInt64(window.unacknowledgedCount),
            pendingByteCount < window.unacknowledgedByteCount
        else { throw MalformedInput("message: more than the window allows") }
        // Bounded: counts messages that were received.
        expected += 1
        return true
    }

    /// Adds a received message to the window.
    mutating func store(_ message: SessionMessage) { pendingByteCount += message.windowByteCount }

    /// Counts a message of an unknown kind as delivered.
    mutating func skip() { delivered = min(delivered.addingClamped(1), expected) }

    /// Records that the program has taken a message.
    mutating func recordDelivery(of message: SessionMessage) {
        if staleCount > 0 {
            staleCount = staleCount.subtractingClamped(1)
        } else if delivered < expected {
            delivered = delivered.addingClamped(1)
            owedByteCount += message.windowByteCount
        }
        pendingByteCount = max(0, pendingByteCount - message.windowByteCount)
    }

    /// Whether enough is unacknowledged for an acknowledgement of its own, long before the peer's window is exhausted.
    func owesMuch(acknowledged: UInt64, _ window: MessageChannel.Limits) -> Bool {
        delivered.subtractingClamped(acknowledged) >= Self.owedCount || owedByteCount >= window.unacknowledgedByteCount / 4
    }

    /// Records that everything delivered was acknowledged.
    mutating func recordAcknowledgement() { owedByteCount = 0 }

    /// Starts again at number 0; messages that are not delivered become stale.
    mutating func restart() {
        staleCount = undeliveredCount
        (expected, delivered, owedByteCount) = (0, 0, 0)
    }

    /// Messages that the program has not taken, of this epoch and of earlier ones.
    private var undeliveredCount: UInt64 { staleCount.addingClamped(expected.subtractingClamped(delivered)) }

    private static let owedCount: UInt64 = 64
}
