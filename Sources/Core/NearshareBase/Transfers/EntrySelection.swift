/// A choice of entries by their numbers in the content stream, from 0.
package struct EntrySelection: Sendable, Hashable {
    /// Limit on the ranges: a frame with all of them has less than 64 KiB.
    package static let maximumRangeCount = 4095

    /// At least one; they ascend and do not touch.
    package let ranges: [ClosedRange<UInt64>]

    /// - Returns: nil for no range, for too many, and for ranges that do not ascend or that touch.
    package init?(ranges: [ClosedRange<UInt64>]) {
        guard (1...Self.maximumRangeCount).contains(ranges.count),
            zip(ranges, ranges.dropFirst()).allSatisfy({ $0.upperBound.addingClamped(1) < $1.lowerBound })
        else { return nil }
        self.ranges = ranges
    }

    /// Merges ranges in any order.
    package init?(merging ranges: some Collection<ClosedRange<UInt64>>) {
        var merged: [ClosedRange<UInt64>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = merged.last, range.lowerBound <= last.upperBound.addingClamped(1) {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                merged.append(range)
            }
        }
        self.init(ranges: merged)
    }

    /// The number of the last chosen entry.
    package var lastNumber: UInt64 { ranges.last?.upperBound ?? 0 }

    /// The number of chosen entries.
    package var entryCount: UInt64 { entryCount(in: 0...UInt64.max) }

    /// The number of chosen entries in a range.
    package func entryCount(in range: ClosedRange<UInt64>) -> UInt64 {
        ranges.reduce(0) { count, chosen in
            guard chosen.overlaps(range) else { return count }
            let common = chosen.clamped(to: range)
            return count.addingClamped(common.upperBound.subtractingClamped(common.lowerBound)).addingClamped(1)
        }
    }

    package func contains(_ number: UInt64) -> Bool {
        var rest = ranges[...]
        while !rest.isEmpty {
            let middle = rest.startIndex + rest.count / 2
            if rest[middle].contains(number) { return true }
            rest = number < rest[middle].lowerBound ? rest[..<middle] : rest[(middle + 1)...]
        }
        return false
    }
}
