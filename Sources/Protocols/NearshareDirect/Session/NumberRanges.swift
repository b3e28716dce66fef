internal import NearshareBase

/// A set of numbers, as ranges in ascending order that neither overlap nor touch.
///
/// Adding numbers that are contained already costs a binary search, however often a peer repeats them.
struct NumberRanges: Sendable, Hashable {
    private var ranges: [Range<UInt64>] = []

    var isEmpty: Bool { ranges.isEmpty }
    var rangeCount: Int { ranges.count }
    /// The count of numbers.
    var count: UInt64 { ranges.reduce(0) { $0.addingClamped($1.upperBound.subtractingClamped($1.lowerBound)) } }

    func contains(_ number: UInt64) -> Bool {
        let index = firstIndex { $0.upperBound > number }
        return index < ranges.count && ranges[index].contains(number)
    }

    /// The first number from this one on that is not contained.
    func firstMissing(from number: UInt64) -> UInt64 {
        let index = firstIndex { $0.upperBound > number }
        return index < ranges.count && ranges[index].contains(number) ? ranges[index].upperBound : number
    }

    /// Adds numbers.
    /// - Returns: those that were not contained.
    @discardableResult
    mutating func insert(_ range: Range<UInt64>) -> [Range<UInt64>] {
        let start = firstIndex { $0.upperBound >= range.lowerBound }
        var (end, position) = (start, range.lowerBound)
        var missing: [Range<UInt64>] = []
        while end < ranges.count, ranges[end].lowerBound <= range.upperBound {
            if position < ranges[end].lowerBound { missing.append(position..<ranges[end].lowerBound) }
            position = max(position, ranges[end].upperBound)
            end += 1
        }
        if position < range.upperBound { missing.append(position..<range.upperBound) }
        guard !missing.isEmpty else { return [] }
        let lowerBound = start < end ? min(range.lowerBound, ranges[start].lowerBound) : range.lowerBound
        ranges.replaceSubrange(start..<end, with: [lowerBound..<max(position, range.upperBound)])
        return missing
    }

    mutating func insert(_ number: UInt64) { insert(number..<number.addingClamped(1)) }

    /// Removes all numbers below this one.
    mutating func remove(below number: UInt64) {
        guard let first = ranges.first, first.lowerBound < number else { return }
        ranges.removeFirst(firstIndex { $0.upperBound > number })
        if let first = ranges.first, first.lowerBound < number { ranges[0] = number..<first.upperBound }
    }

    /// Removes the first ranges, at most this many.
    mutating func removeFirst(_ limit: Int) -> [Range<UInt64>] {
        let removed = Array(ranges.prefix(limit))
        ranges.removeFirst(removed.count)
        return removed
    }

    /// Adds the numbers between the first two ranges.
    mutating func mergeFirst() {
        guard ranges.count >= 2 else { return }
        ranges.replaceSubrange(0..<2, with: [ranges[0].lowerBound..<ranges[1].upperBound])
    }

    /// Binary search for the first range with a property that all after it have as well.
    private func firstIndex(where isMet: (Range<UInt64>) -> Bool) -> Int {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if isMet(ranges[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
