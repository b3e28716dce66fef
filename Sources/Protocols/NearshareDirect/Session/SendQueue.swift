internal import NearshareBase

/// The sending part of a ``MessageChannel``: messages that wait for a link, the urgent ones first, and those that a link has
/// carried, which have numbers and are kept until they are acknowledged. An eighth of the receiver's window is kept for urgent
/// messages, which arrive while the others fill the rest unread.
///
///     append ──► waiting: urgent ─┬─► sent: numbered ──► acknowledged
///                         normal ─┘
///                    └─ expired ──► dropped
struct SendQueue: Sendable {
    struct Entry: Sendable {
        let message: SessionMessage
        /// The time at which it is dropped, unless a link has carried it before.
        fileprivate let expiry: MonotonicInstant?
        fileprivate let ticket: MessageChannel.Ticket
    }

    /// First in, first out, without moving the rest at each removal.
    private struct Entries: Sendable {
        private var elements: [Entry?] = []
        private var start = 0
        /// The bytes of all, as a window counts them.
        private(set) var byteCount = 0

        var count: Int { elements.count - start }
        var first: Entry? { count > 0 ? elements[start] : nil }
        /// Index 0 is the oldest.
        subscript(index: Int) -> Entry? { elements[start + index] }

        mutating func append(_ entry: Entry) {
            elements.append(entry)
            byteCount += entry.message.windowByteCount
        }

        mutating func removeFirst() -> Entry? {
            guard let first else { return nil }
            elements[start] = nil
            start += 1
            byteCount -= first.message.windowByteCount
            // Compacting rarely costs less than removing the messages one by one.
            if start == elements.count || start > 1024, start * 2 >= elements.count {
                elements.removeFirst(start)
                start = 0
            }
            return first
        }

        mutating func removeAll(where isRemoved: (Entry) -> Bool) -> [Entry] {
            let removed = elements.compactMap(\.self).filter(isRemoved)
            guard !removed.isEmpty else { return [] }
            elements = elements.compactMap(\.self).filter { !isRemoved($0) }
            start = 0
            byteCount -= removed.reduce(0) { $0 + $1.message.windowByteCount }
            return removed
        }

        var expiries: [MonotonicInstant] { elements.compactMap { $0?.expiry } }

        func hasRoom(_ limits: MessageChannel.Limits) -> Bool {
            count < limits.maximumUnacknowledgedCount && byteCount < limits.maximumUnacknowledgedByteCount
        }

        /// Whether a message with this many bytes leaves a part of the limits free.
        func hasRoom(_ limits: MessageChannel.Limits, for byteCount: Int, leaving reserve: MessageChannel.Limits) -> Bool {
            count < limits.maximumUnacknowledgedCount - reserve.maximumUnacknowledgedCount
                && self.byteCount + byteCount
                    <= limits.maximumUnacknowledgedByteCount - reserve.maximumUnacknowledgedByteCount
        }
    }

    /// The messages that no link has carried yet. Urgent ones go first.
    private var urgent = Entries()
    private var normal = Entries()
    /// The messages that a link has carried; the first of them has the number ``firstNumber``.
    private var sent = Entries()
    /// Waiting messages with an expiry.
    private var expiringCount = 0
    /// The number of the first unacknowledged message.
    private(set) var firstNumber: UInt64 = 0
    /// For each urgency, the number of messages that are acknowledged: the ticket's number of the next one.
    private(set) var acknowledged = MessageChannel.SequenceNumbers()
    private var appended = MessageChannel.SequenceNumbers()

    /// The number of unacknowledged messages, of those that wait as well.
    var count: Int { sent.count + urgent.count + normal.count }
    /// The bytes of unacknowledged messages, as a window counts them.
    var windowByteCount: Int { sent.byteCount + urgent.byteCount + normal.byteCount }
    /// The number of the next message that a link carries.
    var nextNumber: UInt64 { firstNumber.addingClamped(UInt64(sent.count)) }

    /// Whether fewer messages and bytes are unacknowledged than the limits allow.
    func hasRoom(_ limits: MessageChannel.Limits) -> Bool {
        count < limits.maximumUnacknowledgedCount && windowByteCount < limits.maximumUnacknowledgedByteCount
    }

    /// Whether the urgent messages that wait leave room in the reserve of the window, however many others wait.
    func hasRoomForUrgent(_ window: MessageChannel.Limits) -> Bool { urgent.hasRoom(window.reserve) }

    @discardableResult
    mutating func append(
        _ message: SessionMessage, isUrgent: Bool = false, expiry: MonotonicInstant? = nil
    ) -> MessageChannel.Ticket {
        let ticket = MessageChannel.Ticket(isUrgent: isUrgent, number: appended[isUrgent])
        // Bounded: counts messages.
        appended[isUrgent] += 1
        let entry = Entry(message: message, expiry: expiry, ticket: ticket)
        if isUrgent { urgent.append(entry) } else { normal.append(entry) }
        if expiry != nil { expiringCount += 1 }
        return ticket
    }

    /// The message of a number; for ``nextNumber`` the next one that waits.
    /// - Parameter window: the receiver's, beyond which no message gets a number.
    /// - Returns: nil when it is acknowledged, or there is none, or no room for it.
    func message(_ number: UInt64, within window: MessageChannel.Limits) -> Entry? {
        guard number >= firstNumber, number <= nextNumber else { return nil }
        guard number < nextNumber else { return nextWaiting(within: window) }
        // Bounded: the number is in the range of those that are kept.
        return sent[Int(number - firstNumber)]
    }

    /// The message that gets the next number; nil while the window has no room for it. An empty window has room
    /// for a message of any size.
    private func nextWaiting(within window: MessageChannel.Limits) -> Entry? {
        guard sent.hasRoom(window) else { return nil }
        if let entry = urgent.first { return entry }
        guard let entry = normal.first else { return nil }
        let hasRoom = sent.hasRoom(window, for: entry.message.windowByteCount, leaving: window.reserve)
        return hasRoom || sent.count == 0 ? entry : nil
    }

    /// Gives ``nextNumber`` to the next message that waits: a link carries it.
    mutating func assignNextNumber() {
        guard let entry = urgent.removeFirst() ?? normal.removeFirst() else { return }
        if entry.expiry != nil { expiringCount -= 1 }
        sent.append(entry)
    }

    // MARK: Expiry

    /// The earliest expiry among the messages that wait.
    var firstExpiry: MonotonicInstant? { expiringCount > 0 ? (urgent.expiries + normal.expiries).min() : nil }

    /// Drops the messages that have waited until their expiry.
    mutating func dropExpired(now: MonotonicInstant) -> [MessageChannel.Ticket] {
        guard expiringCount > 0 else { return [] }
        func isExpired(_ entry: Entry) -> Bool { entry.expiry.map { $0 <= now } ?? false }
        let dropped = urgent.removeAll(where: isExpired) + normal.removeAll(where: isExpired)
        expiringCount -= dropped.count
        return dropped.map(\.ticket)
    }

    /// Removes all messages below a number.
    mutating func acknowledge(below number: UInt64) throws(MalformedInput) {
        guard number <= nextNumber else { throw MalformedInput("message: an acknowledgement of a message that was never sent") }
        while firstNumber < number, let entry = sent.removeFirst() {
            // Bounded: both count messages that were appended.
            firstNumber += 1
            // Bounded: the place of the next message.
            acknowledged[entry.ticket.isUrgent] = entry.ticket.number + 1
        }
    }

    /// Removes all messages, of a channel that is not used any more: no frame may follow, because the next number goes back to that
    /// of the first removed message.
    mutating func discard() {
        (urgent, normal, sent) = (Entries(), Entries(), Entries())
        expiringCount = 0
    }

    /// Removes all messages, and numbers the following ones from 0.
    mutating func restart() { self = SendQueue() }
}
