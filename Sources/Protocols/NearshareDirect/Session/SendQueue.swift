internal import NearshareBase

/// The sending part of a ``MessageChannel``: messages that wait for a link, the urgent ones first, and those that a link has
/// carried, which have numbers and are kept until they are acknowledged. An eighth of the receiver's window is kept for urgent
/// messages, which arrive while the others fill the rest unread.
///
///     append ──► waiting: urgent ─┬─► sent: numbered ──► acknowledged, also before an earlier one
///                         normal ─┘
///                    └─ expired ──► dropped
struct SendQueue: Sendable {
    private struct Entry: Sendable {
        /// nil once it is acknowledged, before an earlier one.
        var message: SessionMessage?
        /// The time at which it is dropped, unless a link has carried it before.
        let expiry: MonotonicInstant?
        let ticket: MessageChannel.Ticket

        var windowByteCount: Int { message?.windowByteCount ?? 0 }
    }

    /// First in, first out, without moving the rest at each removal.
    private struct Entries: Sendable {
        private var elements: [Entry?] = []
        private var start = 0
        private var acknowledgedCount = 0
        /// The bytes of the unacknowledged ones, as a window counts them.
        private(set) var byteCount = 0

        var count: Int { elements.count - start }
        var unacknowledgedCount: Int { count - acknowledgedCount }
        var first: Entry? { count > 0 ? elements[start] : nil }
        /// Index 0 is the oldest.
        subscript(index: Int) -> Entry? { elements[start + index] }

        mutating func append(_ entry: Entry) {
            elements.append(entry)
            byteCount += entry.windowByteCount
        }

        /// Removes the message of an entry, which keeps its place.
        /// - Returns: the ticket; nil when it was removed before.
        mutating func removeMessage(at index: Int) -> MessageChannel.Ticket? {
            guard var entry = elements[start + index], entry.message != nil else { return nil }
            byteCount -= entry.windowByteCount
            acknowledgedCount += 1
            entry.message = nil
            elements[start + index] = entry
            return entry.ticket
        }

        mutating func removeFirst() -> Entry? {
            guard let first else { return nil }
            elements[start] = nil
            start += 1
            byteCount -= first.windowByteCount
            if first.message == nil { acknowledgedCount -= 1 }
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
            byteCount -= removed.reduce(0) { $0 + $1.windowByteCount }
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
    /// The numbers of acknowledged messages after the first unacknowledged one.
    private var early = NumberRanges()
    private(set) var acknowledged = AcknowledgedTickets()
    private var appended = MessageChannel.SequenceNumbers()

    /// The number of unacknowledged messages, of those that wait as well.
    var count: Int { sent.unacknowledgedCount + urgent.count + normal.count }
    /// The bytes of unacknowledged messages, as a window counts them.
    var windowByteCount: Int { sent.byteCount + waitingByteCount }
    /// The bytes of messages that no link has carried, as a window counts them.
    var waitingByteCount: Int { urgent.byteCount + normal.byteCount }
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
    func message(_ number: UInt64, within window: MessageChannel.Limits) -> SessionMessage? {
        guard number >= firstNumber, number <= nextNumber else { return nil }
        guard number < nextNumber else { return nextWaiting(within: window)?.message }
        // Bounded: the number is in the range of those that are kept.
        return sent[Int(number - firstNumber)]?.message
    }

    /// The number of the first message from this one on that is not acknowledged; ``nextNumber`` where all are.
    func firstUnacknowledged(from number: UInt64) -> UInt64 { early.firstMissing(from: max(number, firstNumber)) }

    /// The message that gets the next number; nil while the window has no room for it. An empty window has room
    /// for a message of any size.
    private func nextWaiting(within window: MessageChannel.Limits) -> Entry? {
        guard sent.hasRoom(window) else { return nil }
        if let entry = urgent.first { return entry }
        guard let entry = normal.first else { return nil }
        let hasRoom = sent.hasRoom(window, for: entry.windowByteCount, leaving: window.reserve)
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

    // MARK: Acknowledgements

    /// Removes all messages below a number, and later ones that the peer's program has taken before an earlier one: the places of
    /// those stay in the window, which counts numbers.
    mutating func acknowledge(below number: UInt64, early ranges: [Range<UInt64>] = []) throws(MalformedInput) {
        guard number <= nextNumber, ranges.allSatisfy({ $0.upperBound <= nextNumber }) else {
            throw MalformedInput("message: an acknowledgement of a message that was never sent")
        }
        removeAcknowledged(below: number)
        for range in ranges where range.upperBound > firstNumber {
            for number in early.insert(max(range.lowerBound, firstNumber)..<range.upperBound).joined() {
                // Bounded: the number is in the range of those that are kept.
                guard let ticket = sent.removeMessage(at: Int(number - firstNumber)) else { continue }
                acknowledged.insertEarly(ticket)
            }
        }
        // The first one is among them where the peer contradicts itself.
        removeAcknowledged(below: firstNumber)
    }

    /// Removes the messages below a number, and those after them that are acknowledged already.
    private mutating func removeAcknowledged(below number: UInt64) {
        let end = firstUnacknowledged(from: number)
        while firstNumber < end, let entry = sent.removeFirst() {
            // Bounded: counts messages that were appended.
            firstNumber += 1
            acknowledged.advance(past: entry.ticket)
        }
        early.remove(below: firstNumber)
    }

    /// Removes all messages, of a channel that is not used any more: no frame may follow, because the next number goes back to that
    /// of the first removed message.
    mutating func discard() {
        (urgent, normal, sent, early) = (Entries(), Entries(), Entries(), NumberRanges())
        expiringCount = 0
    }

    /// Removes all messages, and numbers the following ones from 0.
    mutating func restart() { self = SendQueue() }
}
