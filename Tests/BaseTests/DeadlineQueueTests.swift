import NearshareBase
import NearshareTesting
import Testing

@Suite struct DeadlineQueueTests {
    @Test(
        "elements leave once, in the order of their deadlines, under random insertions", arguments: seeds(1...5)
    )
    func order(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = DeadlineQueue<Int>()
        var model: [(deadline: Int64, element: Int)] = []
        var insertedCount = 0
        for step in 0..<1_000 {
            // Bursts alternate with phases in which the queue nearly empties.
            for _ in 0..<Int.random(in: 0..<(step / 100 % 2 == 0 ? 6 : 2), using: &random) {
                let deadline = Int64.random(in: 0..<1_000, using: &random)
                queue.insert(insertedCount, at: MonotonicInstant(nanoseconds: deadline))
                model.append((deadline, insertedCount))
                insertedCount += 1
            }
            let now = Int64.random(in: 0..<1_000, using: &random)
            while let element = queue.popDue(MonotonicInstant(nanoseconds: now)) {
                let deadline = model.firstIndex { $0.element == element }.map { model.remove(at: $0).deadline }
                #expect(deadline.map { $0 <= now } == true, "seed \(seed)")
                #expect(model.allSatisfy { $0.deadline >= deadline ?? .max }, "seed \(seed)")
                guard random.once(in: 4) else { break }
            }
            #expect(queue.count == model.count, "seed \(seed)")
            #expect(queue.nextDeadline?.nanoseconds == model.map(\.deadline).min(), "seed \(seed)")
        }
    }

    @Test func `an element is not due before its deadline`() {
        var queue = DeadlineQueue<String>()
        queue.insert("late", at: MonotonicInstant(nanoseconds: 10))
        #expect(queue.popDue(MonotonicInstant(nanoseconds: 9)) == nil && queue.count == 1)
        #expect(queue.popDue(MonotonicInstant(nanoseconds: 10)) == "late" && queue.nextDeadline == nil)
    }

    @Test("R1: the memory of a burst is released")
    func release() {
        var queue = DeadlineQueue<[UInt8]>()
        for number in 0..<10_000 { queue.insert([], at: MonotonicInstant(nanoseconds: Int64(number))) }
        let peak = queue.byteCount
        while queue.count > 3 { _ = queue.popDue(MonotonicInstant(nanoseconds: .max)) }
        #expect(queue.byteCount < peak / 100)
    }
}
