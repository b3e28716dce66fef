import NearshareBase
import Testing

@Suite("shared capacity") struct SharedCapacityTests {
    private struct Entry {
        let host: String
        let link: String
        let byteCount: Int
    }

    private func capacity(_ entries: [Entry]) -> SharedCapacity<String> {
        SharedCapacity(
            count: entries.count, byteCount: { entries[$0].byteCount },
            levels: [{ entries[$0].host }, { entries[$0].link }])
    }

    private func removeAll(from capacity: SharedCapacity<String>, by measure: SharedCapacity<String>.Measure) -> [Int] {
        var capacity = capacity
        var positions: [Int] = []
        while let position = capacity.removeOldest(by: measure) { positions.append(position) }
        return positions
    }

    @Test("the oldest entry goes, of the link with most of the host with most") func levels() {
        let capacity = capacity([
            Entry(host: "a", link: "a1", byteCount: 1), Entry(host: "b", link: "b1", byteCount: 1),
            Entry(host: "b", link: "b2", byteCount: 1), Entry(host: "b", link: "b2", byteCount: 1),
        ])
        // Between equals, the group with the oldest entry is chosen.
        #expect(removeAll(from: capacity, by: .count) == [2, 1, 0, 3])
    }

    @Test("the number of entries and their bytes choose different groups") func measures() {
        let capacity = capacity([
            Entry(host: "a", link: "a", byteCount: 10), Entry(host: "a", link: "a", byteCount: 10),
            Entry(host: "b", link: "b", byteCount: 100),
        ])
        #expect(removeAll(from: capacity, by: .count).first == 0)
        #expect(removeAll(from: capacity, by: .byteCount).first == 2)
    }

    @Test("each removal adjusts the totals, and an empty group goes") func totals() {
        var capacity = capacity([
            Entry(host: "a", link: "a1", byteCount: 10), Entry(host: "b", link: "b1", byteCount: 20),
            Entry(host: "b", link: "b2", byteCount: 30),
        ])
        let removed = capacity.removeOldest(by: .byteCount)
        #expect(removed == 2)
        #expect(capacity.count == 2 && capacity.byteCount == 30 && capacity.groups["b"]?.byteCount == 20)
        #expect(capacity.divided("b")?.groups.keys.sorted() == ["b1"])
        capacity.remove(at: 1)
        #expect(capacity.count == 1 && capacity.byteCount == 10 && capacity.groups.keys.sorted() == ["a"])
        #expect(capacity.positions == [0] && capacity.oldest == 0)
        capacity.remove(at: 1)
        #expect(capacity.count == 1, "it was removed before")
    }

    @Test("the caller may choose the group of each level, or none") func chosen() {
        var capacity = capacity([
            Entry(host: "a", link: "a1", byteCount: 1), Entry(host: "a", link: "a2", byteCount: 1),
            Entry(host: "a", link: "a2", byteCount: 1), Entry(host: "b", link: "b1", byteCount: 1),
        ])
        let second = capacity.removeOldest { level, groups in level == 0 ? "a" : groups.keys.max() }
        let none = capacity.removeOldest { level, _ in level == 0 ? "a" : nil }
        let absent = capacity.removeOldest { _, _ in "c" }
        #expect(second == 1 && none == nil && absent == nil && capacity.positions == [0, 2, 3])
        let largest = capacity.groups.largest(by: .byteCount) { $0.key == "b" ? 1 : 0 }
        #expect(largest == "a", "it holds more")
        capacity.remove(at: 2)
        let equal = capacity.groups.largest(by: .byteCount) { $0.key == "b" ? 1 : 0 }
        #expect(equal == "b")
    }

    @Test("entries are counted once, however many are removed") func effort() {
        var calls = 0
        var capacity = SharedCapacity<Int>(
            count: 1_000, byteCount: { _ in 1 },
            levels: [
                { position in
                    calls += 1
                    return position % 2
                },
                { position in
                    calls += 1
                    return position % 10
                },
            ])
        for _ in 0..<500 { _ = capacity.removeOldest(by: .count) }
        #expect(capacity.count == 500 && calls == 2_000)
    }
}
