import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct NumberRangesTests {
    @Test("ranges contain what a set of the same numbers does", arguments: seeds(1...20)) func sets(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var ranges = NumberRanges()
        var numbers: Set<UInt64> = []
        for _ in 0..<200 {
            let first = UInt64.random(in: 0..<60, using: &random)
            if random.once(in: 8) {
                ranges.remove(below: first)
                numbers = numbers.filter { $0 >= first }
            } else if random.once(in: 8) {
                for range in ranges.removeFirst(2) { numbers.subtract(range) }
            } else {
                let range = first..<first + UInt64.random(in: 0..<6, using: &random)
                let added = ranges.insert(range)
                #expect(added.flatMap { Array($0) } == range.filter { !numbers.contains($0) }, "seed \(seed)")
                numbers.formUnion(range)
            }
            #expect((0..<70).filter(ranges.contains) == numbers.sorted(), "seed \(seed)")
            #expect(ranges.count == UInt64(numbers.count) && ranges.isEmpty == numbers.isEmpty, "seed \(seed)")
            #expect(ranges.rangeCount == numbers.count { !numbers.contains($0 + 1) }, "seed \(seed)")
            let missing = (first..<80).first { !numbers.contains($0) }
            #expect(ranges.firstMissing(from: first) == missing, "seed \(seed)")
        }
    }

    @Test func `the last number cannot be added, and the first two ranges become one`() {
        var ranges = NumberRanges()
        ranges.insert(.max)
        #expect(ranges.isEmpty)
        for number in [1, 5, 9] as [UInt64] { ranges.insert(number) }
        ranges.mergeFirst()
        #expect(ranges.rangeCount == 2 && ranges.count == 6 && ranges.contains(3) && !ranges.contains(7))
    }
}
