internal import NearshareBase

/// The receiving part of a ``MessageChannel``: the order of messages, and the window of those that are not delivered yet.
struct ReceiveWindow: Sendable {
    /// The number of the next message to receive.
    private(set) var expected: UInt64 = 0
    /// The number of the first message that was not delivered to the program.
    private(set) var firstUndelivered: UInt64 = 0
    /// Later messages that were delivered before it: the program reads each channel of values on its own.
    private(set) var early = NumberRanges()
    /// The part of ``early`` that the link of the latest selective acknowledgement has not carried.
    private(set) var unreported = NumberRanges()
    /// The window's cost of messages of this epoch, received and not delivered.
    private var pendingByteCount = 0
    /// Messages of earlier epochs that are not delivered yet. They precede all others, are not acknowledged, and take no room from
    /// this epoch: the peer cannot know of them.
    private var staleCount: UInt64
    /// The window's cost of these.
    private var staleByteCount: Int
    /// The window's cost of messages delivered and not acknowledged, and their number.
    private var owedByteCount = 0
    private var owedCount: UInt64 = 0

    /// - Parameter stale: Messages that an earlier channel has received and not delivered.
    init(stale: [SessionMessage]) {
        staleCount = UInt64(stale.count)
        staleByteCount = stale.reduce(0) { $0 + $1.windowByteCount }
    }

    /// Accepts the message of a number.
    /// - Returns: false for a message that was received before, over another link.
    mutating func receive(_ number: UInt64, _ window: MessageChannel.Limits) throws(MalformedInput) -> Bool {
        guard number <= expected else { throw MalformedInput("message: an earlier one is missing") }
        guard number == expected else { return false }
        guard expected.subtractingClamped(firstUndelivered) < UInt64(window.maximumUnacknowledgedCount),
            pendingByteCount < window.maximumUnacknowledgedByteCount, hasStale(below: Self.maximumStaleWindowCount, window)
        else { throw MalformedInput("message: more than the window allows") }
        // Bounded: counts messages that were received.
        expected += 1
        return true
    }

    /// Adds a received message to the window.
    mutating func store(_ message: SessionMessage) { pendingByteCount += message.windowByteCount }

    /// Counts the message received last, whose kind is unknown, as delivered.
    mutating func skip() { recordDelivery(of: expected.subtractingClamped(1)) }

    /// Records the delivery of the first message that waits.
    mutating func recordDelivery(of message: SessionMessage) {
        if staleCount > 0 { recordStaleDelivery(of: message) } else { recordDelivery(of: message, number: firstUndelivered) }
    }

    /// Records the delivery of a message of this epoch.
    mutating func recordDelivery(of message: SessionMessage, number: UInt64) {
        pendingByteCount = max(0, pendingByteCount - message.windowByteCount)
        guard recordDelivery(of: number) else { return }
        owedByteCount += message.windowByteCount
        owedCount = owedCount.addingClamped(1)
    }

    /// Records the delivery of a message of an earlier epoch.
    mutating func recordStaleDelivery(of message: SessionMessage) {
        staleByteCount = max(0, staleByteCount - message.windowByteCount)
        staleCount = staleCount.subtractingClamped(1)
    }

    /// - Returns: false for a message that was not received, or delivered before.
    @discardableResult
    private mutating func recordDelivery(of number: UInt64) -> Bool {
        guard number >= firstUndelivered, number < expected, !early.contains(number) else { return false }
        guard number == firstUndelivered else {
            early.insert(number)
            unreported.insert(number)
            return true
        }
        firstUndelivered = early.firstMissing(from: number.addingClamped(1))
        early.remove(below: firstUndelivered)
        unreported.remove(below: firstUndelivered)
        return true
    }

    /// Whether so much is unacknowledged that an acknowledgement is sent without waiting for a message to carry it.
    func isAcknowledgementDue(acknowledged: UInt64, _ window: MessageChannel.Limits) -> Bool {
        firstUndelivered.subtractingClamped(acknowledged) >= Self.maximumUnacknowledgedDeliveryCount
            || owesBytes(window)
    }

    /// Whether so much is unacknowledged that a selective acknowledgement is sent at once.
    func isSelectiveAcknowledgementDue(_ window: MessageChannel.Limits) -> Bool {
        owedCount >= Self.maximumUnacknowledgedDeliveryCount || owesBytes(window)
    }

    private func owesBytes(_ window: MessageChannel.Limits) -> Bool {
        owedByteCount >= window.maximumUnacknowledgedByteCount / 4
    }

    /// Records that an acknowledgement was sent.
    mutating func recordAcknowledgement() { (owedByteCount, owedCount) = (0, 0) }

    /// Removes the first ranges of ``unreported``, which a link is to carry.
    mutating func removeUnreported(upTo limit: Int) -> [Range<UInt64>] { unreported.removeFirst(limit) }

    /// Adds all of ``early`` to ``unreported``, for another link.
    mutating func repeatEarly() { unreported = early }

    /// Starts again at number 0; messages that are not delivered become stale.
    mutating func restart() {
        staleCount = staleCount.addingClamped(
            expected.subtractingClamped(firstUndelivered).subtractingClamped(early.count))
        staleByteCount += pendingByteCount
        (expected, firstUndelivered, pendingByteCount, owedByteCount, owedCount) = (0, 0, 0, 0, 0)
        (early, unreported) = (NumberRanges(), NumberRanges())
    }

    /// Whether a new link may resume: a restarted peer then fills another window.
    func hasRoomForEpoch(_ window: MessageChannel.Limits) -> Bool { hasStale(below: 1, window) }

    /// Whether the messages of earlier epochs are fewer than so many windows hold.
    private func hasStale(below windowCount: Int, _ window: MessageChannel.Limits) -> Bool {
        staleCount < UInt64(windowCount * window.maximumUnacknowledgedCount)
            && staleByteCount < windowCount * window.maximumUnacknowledgedByteCount
    }

    /// Limit on the messages of earlier epochs, in windows. Less than one window is unread when a link resumes, and the epoch
    /// before it may have another one, which its last message may exceed. More comes from peers that do not wait for the resume
    /// frame, or that restart on several links (R7).
    private static let maximumStaleWindowCount = 3
    private static let maximumUnacknowledgedDeliveryCount: UInt64 = 64
}
