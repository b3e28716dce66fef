internal import NearshareBase

/// The tickets of messages that were dropped, as ranges of numbers in bounded memory.
///
/// Beyond the limit, the two oldest ranges are merged: delivered messages between them then count as dropped, and never the
/// reverse. Messages that are not acknowledged yet lie between newer ranges, because fewer than the limit exist.
struct DroppedTickets: Sendable {
    /// Limit on the ranges of one urgency: one more than there can be gaps with messages that are not acknowledged.
    static let maximumRangeCount = MessageChannel.Limits().maximumUnacknowledgedCount + 1

    private var urgent = NumberRanges()
    private var others = NumberRanges()

    func contains(_ ticket: MessageChannel.Ticket) -> Bool {
        ticket.isUrgent ? urgent.contains(ticket.number) : others.contains(ticket.number)
    }

    mutating func insert(_ ticket: MessageChannel.Ticket) {
        if ticket.isUrgent { Self.insert(ticket.number, into: &urgent) } else { Self.insert(ticket.number, into: &others) }
    }

    private static func insert(_ number: UInt64, into numbers: inout NumberRanges) {
        numbers.insert(number)
        if numbers.rangeCount > maximumRangeCount { numbers.mergeFirst() }
    }
}
