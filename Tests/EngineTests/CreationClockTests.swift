import NearshareBase
import Testing

@testable import NearshareEngine

@Suite struct CreationClockTests {
    private func times(_ readings: [Int64], count: Int = 1) -> [Int64] {
        var clock = CreationClock()
        return readings.flatMap { reading in
            (0..<count).map { _ in clock.next(at: WallTime(milliseconds: reading)).milliseconds }
        }
    }

    @Test func `each time is after the one before, also for thousands within one millisecond`() {
        let found = times([1_000_000, 1_000_001, 1_000_500, 1_200_000], count: 5_000)
        #expect(zip(found, found.dropFirst()).allSatisfy { $0 < $1 })
        #expect(found[15_000] == 1_200_000)
    }

    @Test func `the lead over the clock is bounded, and the order is kept at the bound`() {
        let found = times([1_000_000, 1_000_100], count: 61_000)
        #expect(zip(found, found.dropFirst()).allSatisfy { $0 <= $1 })
        #expect(found[60_999] == 1_000_000 + Int64(CreationClock.maximumLead))
        #expect(found.last == 1_000_100 + Int64(CreationClock.maximumLead))
    }

    @Test func `a clock that was set back is followed, one that was adjusted is not`() {
        #expect(times([1_000_000, 999_500, 5_000, 5_000]) == [1_000_000, 1_000_001, 5_000, 5_001])
        #expect(times([0, .max, .max, .min, .min]) == [1, .max, .max, .min, Int64.min + 1])
    }
}
