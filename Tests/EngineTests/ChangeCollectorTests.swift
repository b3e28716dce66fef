import NearshareBase
import NearshareInterfaces
import Synchronization
import Testing

@Suite("change collector")
struct ChangeCollectorTests {
    @Test("M16: a flood of changes, each of which is costly to handle, is handled a few times, and none is lost")
    func collected() async {
        let now = Mutex(MonotonicInstant(nanoseconds: 0))
        let collector = ChangeCollector<Int>(clock: { now.withLock { $0 } })
        let handled = Mutex((calls: 0, changes: Set<Int>()))
        collector.insert(0)
        await collector.run { changes in
            let isFirst = handled.withLock { handled in
                handled.calls += 1
                handled.changes.formUnion(changes)
                return handled.calls == 1
            }
            // The flood comes while the first change is being handled.
            guard isFirst else { return }
            for number in 0..<1_000 { collector.insert(number) }
            collector.finish()
        }
        let (calls, changes) = handled.withLock { $0 }
        #expect(calls == 2 && changes == Set(0..<1_000))
    }

    @Test("R1: changes that nobody handles are bounded") func bounded() async {
        let collector = ChangeCollector<Int>(clock: { MonotonicInstant(nanoseconds: 0) })
        for number in 0..<100_000 { collector.insert(number) }
        collector.finish()
        await collector.run { #expect($0.count < 10_000) }
    }
}
