internal import NearshareBase

/// The tickets of messages that were dropped, as ranges of numbers in bounded memory.
///
/// Beyond the limit, the two oldest ranges are merged: delivered messages between them then count as dropped, and never the
/// reverse. Messages that are not acknowledged yet lie between newer ranges, because fewer than the limit exist.
struct DroppedTickets: Sendable {
    /// Limit on the ranges of one urgency: one more than there can be gaps with messages that are not acknowledged.
    static let maximumRangeCount = MessageChannel.Limits().maximumUnacknowledgedCount + 1

    /// In ascending order, and not adjacent.
    private var urgent: [Range<UInt64>] = []
    private var others: [Range<UInt64>] = []

    func contains(_ ticket: MessageChannel.Ticket) -> Bool {
        let ranges = ticket.isUrgent ? urgent : others
        let index = Self.firstIndex(in: ranges, endingAfter: ticket.number)
        return index < ranges.count && ranges[index].contains(ticket.number)
    }

    mutating func insert(_ ticket: MessageChannel.Ticket) {
        if ticket.isUrgent { Self.insert(ticket.number, into: &urgent) } else { Self.insert(ticket.number, into: &others) }
    }

    private static func insert(_ number: UInt64, into ranges: inout [Range<UInt64>]) {
        let index = firstIndex(in: ranges, endingAfter: number)
        let next = index < ranges.count ? ranges[index] : nil
        if let next, next.contains(number) { return }
        let end = number.addingClamped(1)
        let continuesPrevious = index > 0 && ranges[index - 1].upperBound == number
        let precedesNext = next?.lowerBound == end
        let merged =
            (continuesPrevious ? ranges[index - 1].lowerBound : number)..<(precedesNext ? next?.upperBound ?? end : end)
        ranges.replaceSubrange((continuesPrevious ? index - 1 : index)..<(precedesNext ? index + 1 : index), with: [merged])
        if ranges.count > maximumRangeCount {
            ranges.replaceSubrange(0..<2, with: [ranges[0].lowerBound..<ranges[1].upperBound])
        }
    }

    /// Binary search for the first range that ends after a number.
    private static func firstIndex(in ranges: [Range<UInt64>], endingAfter number: UInt64) -> Int {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound > number { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
