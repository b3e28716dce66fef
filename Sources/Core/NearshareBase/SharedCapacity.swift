/// The entries that share a limited capacity, grouped by their sources: by host, within a host by link, and so on.
///
/// Identities cost nothing, hosts and links do. So where the capacity is used up, the oldest entry of the group that holds most is
/// removed: a source that brings much displaces its own entries.
///
/// The entries are positions in an array whose first element is the oldest. They are counted once, and each removal adjusts the
/// totals of its groups. All functions are inlinable, so that they are compiled for the groups of the module that uses them: floods
/// make them run often.
@usableFromInline
package struct SharedCapacity<Group: Hashable> {
    @usableFromInline
    package enum Measure {
        case count
        case byteCount
    }

    @usableFromInline package internal(set) var count = 0
    @usableFromInline package internal(set) var byteCount = 0
    /// The entries of each group of the first level; empty where there are no further levels.
    @usableFromInline package internal(set) var groups: [Group: SharedCapacity] = [:]
    /// The position of the oldest entry; the largest number where there is none.
    @usableFromInline package internal(set) var oldest = Int.max
    /// All entries, the oldest first. Used until they are divided into ``groups``, and in groups that are not divided.
    @usableFromInline var entries: ArraySlice<Entry> = []
    @usableFromInline let levels: ArraySlice<(Int) -> Group>

    @usableFromInline
    struct Entry {
        @usableFromInline let position: Int
        @usableFromInline let byteCount: Int

        @inlinable
        init(position: Int, byteCount: Int) {
            self.position = position
            self.byteCount = byteCount
        }
    }

    /// - Parameters:
    ///   - count: number of entries, whose positions begin with 0.
    ///   - byteCount: the size of the entry at a position.
    ///   - levels: the group to which the entry at a position belongs: for all entries, then within its group, and so on.
    @inlinable
    package init(count: Int, byteCount: (Int) -> Int, levels: [(Int) -> Group]) {
        self.init(levels: levels[...])
        for position in 0..<count { append(Entry(position: position, byteCount: byteCount(position))) }
        divide()
    }

    @inlinable
    init(levels: ArraySlice<(Int) -> Group>) {
        self.levels = levels
    }

    /// The positions of the entries, the oldest first.
    @inlinable
    package var positions: [Int] {
        (entries.map(\.position) + groups.values.flatMap(\.positions)).sorted()
    }

    @inlinable
    package func held(_ measure: Measure) -> Int {
        switch measure {
        case .count: count
        case .byteCount: byteCount
        }
    }

    /// The entries of a group, divided by the next level; nil where it has none.
    @inlinable
    package func divided(_ group: Group) -> SharedCapacity? {
        var part = groups[group]
        part?.divide()
        return part
    }

    /// Removes the oldest entry of the group that holds most, on each level. Between equals, the group with the oldest entry is
    /// chosen.
    /// - Returns: its position; nil where there is no entry.
    @inlinable
    package mutating func removeOldest(by measure: Measure) -> Int? {
        removeOldest { _, groups in groups.largest(by: measure) }
    }

    /// Removes the oldest entry of the group that is chosen on each level.
    /// - Parameter choose: is called with the number of the level, from 0, and its groups.
    /// - Returns: the position of the entry; nil where no group was chosen, and where there is no entry.
    @inlinable
    package mutating func removeOldest(
        choosing choose: (_ level: Int, _ groups: [Group: SharedCapacity]) -> Group?
    ) -> Int? {
        removeOldest(level: 0, choose)?.position
    }

    @inlinable
    mutating func removeOldest(
        level: Int, _ choose: (_ level: Int, _ groups: [Group: SharedCapacity]) -> Group?
    ) -> Entry? {
        divide()
        let removed: Entry?
        if levels.isEmpty {
            removed = entries.popFirst()
        } else if let group = choose(level, groups) {
            removed = groups[group]?.removeOldest(level: level + 1, choose)
            if groups[group]?.count == 0 { groups[group] = nil }
        } else {
            removed = nil
        }
        if let removed { subtract(removed) }
        return removed
    }

    /// Removes the entry at a position.
    @inlinable
    package mutating func remove(at position: Int) { _ = removeEntry(at: position) }

    @inlinable
    mutating func removeEntry(at position: Int) -> Entry? {
        let removed: Entry?
        if let index = entries.firstIndex(where: { $0.position == position }) {
            removed = entries.remove(at: index)
        } else if let group = levels.first?(position) {
            removed = groups[group]?.removeEntry(at: position)
            if groups[group]?.count == 0 { groups[group] = nil }
        } else {
            removed = nil
        }
        if let removed { subtract(removed) }
        return removed
    }

    @inlinable
    mutating func append(_ entry: Entry) {
        entries.append(entry)
        count += 1
        byteCount += entry.byteCount
        oldest = min(oldest, entry.position)
    }

    @inlinable
    mutating func subtract(_ entry: Entry) {
        count -= 1
        byteCount -= entry.byteCount
        oldest = entries.first?.position ?? groups.values.lazy.map(\.oldest).min() ?? .max
    }

    /// Divides the entries into the groups of the first level. A group is only divided where an entry of it is to be removed.
    @inlinable
    mutating func divide() {
        guard let group = levels.first else { return }
        for entry in entries {
            groups[group(entry.position), default: SharedCapacity(levels: levels.dropFirst())].append(entry)
        }
        entries = []
    }
}

extension Dictionary {
    /// The group that holds most.
    /// - Parameter precedence: decides between equals: the group for which it is the largest.
    @inlinable
    package func largest(
        by measure: SharedCapacity<Key>.Measure, precedence: (Element) -> UInt64
    ) -> Key? where Value == SharedCapacity<Key> {
        self.max { ($0.value.held(measure), precedence($0)) < ($1.value.held(measure), precedence($1)) }?.key
    }

    /// The group that holds most; between equals, the one with the oldest entry.
    @inlinable
    package func largest(by measure: SharedCapacity<Key>.Measure) -> Key? where Value == SharedCapacity<Key> {
        largest(by: measure) { UInt64.max - UInt64($0.value.oldest) }
    }
}
