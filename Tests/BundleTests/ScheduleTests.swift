import NearshareBase
import NearshareTesting
import Testing

@Suite("What is due")
struct ScheduleTests {
    @Test("Everything comes once, in order, whatever is put in and taken out between", arguments: 1...5 as ClosedRange<UInt64>)
    func inOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var schedule = Schedule<Int>()
        var model: [(at: Int64, element: Int)] = []
        var added = 0
        for number in 0..<3_000 {
            // Floods, and times in which nearly all of it is taken.
            for _ in 0..<Int.random(in: 0..<(number / 300 % 2 == 0 ? 6 : 2), using: &random) {
                let at = Int64.random(in: 0..<1_000, using: &random)
                schedule.insert(added, at: MonotonicInstant(nanoseconds: at))
                model.append((at, added))
                added += 1
            }
            let now = Int64.random(in: 0..<1_000, using: &random)
            while let element = schedule.removeDue(MonotonicInstant(nanoseconds: now)) {
                let place = model.firstIndex { $0.element == element }
                let at = place.map { model.remove(at: $0).at }
                #expect(at.map { $0 <= now } == true, "seed \(seed)")
                #expect(model.allSatisfy { $0.at >= at ?? .max }, "seed \(seed)")
                guard random.once(in: 4) else { break }
            }
            #expect(schedule.count == model.count && schedule.next?.nanoseconds == model.map(\.at).min(), "seed \(seed)")
        }
    }

    @Test("R1: the memory that a flood took is given back")
    func givenBack() {
        var schedule = Schedule<[UInt8]>()
        for number in 0..<10_000 { schedule.insert([], at: MonotonicInstant(nanoseconds: Int64(number))) }
        let most = schedule.byteCount
        while schedule.count > 3 { _ = schedule.removeDue(MonotonicInstant(nanoseconds: .max)) }
        #expect(schedule.byteCount < most / 100)
    }
}
