import NearshareBase
import NearshareInterfaces
import Synchronization
import Testing

@Suite("state on which threads wait")
struct MonitorTests {
    /// Runs `body` on a thread, and returns once it waits on the monitor: `body` calls its argument when it looks at the state first.
    private func startWaiting(
        _ body: @escaping @Sendable (_ waits: @Sendable () -> Void) -> Void
    ) async throws -> BlockingThread {
        let waits = Latch()
        let thread = try BlockingThread.start { body { waits.open() } }
        await waits.wait()
        return thread
    }

    @Test("a change wakes the thread that has waited for it, with its result")
    func oneIsWoken() async throws {
        let monitor = Monitor(Set<Int>())
        let taken = Mutex<[Int]>([])
        var threads: [BlockingThread] = []
        for number in 0..<8 {
            threads.append(
                try await startWaiting { waits in
                    let result = monitor.wait { numbers in
                        waits()
                        return numbers.remove(number)
                    }
                    taken.withLock { $0.append(result) }
                })
        }
        for number in (0..<8).reversed() {
            monitor.update { _ = $0.insert(number) }
            await threads[number].join()
            let expected = Array((number..<8).reversed())
            #expect(taken.withLock { $0 } == expected)
        }
    }

    @Test("a thread that has its result wakes those that have waited for what it has changed")
    func chain() async throws {
        let monitor = Monitor(0)
        var threads: [BlockingThread] = []
        // The last one waits first.
        for number in (1...16).reversed() {
            threads.append(
                try await startWaiting { waits in
                    monitor.wait { count -> Void? in
                        waits()
                        guard count == number else { return nil }
                        count += 1
                    }
                })
        }
        monitor.update { $0 = 1 }
        for thread in threads { await thread.join() }
        #expect(monitor.withLock { $0 } == 17)
    }

    @Test("an update that is of no interest wakes no thread")
    func quietly() async throws {
        let monitor = Monitor(0)
        let evaluations = Atomic(0)
        let thread = try await startWaiting { waits in
            monitor.wait { count -> Void? in
                evaluations.add(1, ordering: .relaxed)
                waits()
                return count < 0 ? () : nil
            }
        }
        for number in 0..<100 {
            _ = monitor.updateQuietly {
                $0 = number
                return false
            }
        }
        #expect(evaluations.load(ordering: .relaxed) == 1)
        _ = monitor.updateQuietly {
            $0 = -1
            return true
        }
        await thread.join()
        #expect(evaluations.load(ordering: .relaxed) == 2)
    }

    @Test("a deadline can be moved by an update, earlier or later, and passes once")
    func deadlines() async throws {
        let now = { SystemClock.monotonic().nanoseconds }
        let far = now() + 3_600_000_000_000
        let monitor = Monitor(far)
        let timeouts = Atomic(0)
        let thread = try await startWaiting { waits in
            monitor.waitWithDeadlines { deadline, hasTimedOut -> MonitorWait<Void> in
                waits()
                if hasTimedOut { timeouts.add(1, ordering: .relaxed) }
                return hasTimedOut ? .ready(()) : .waiting(untilNanoseconds: deadline)
            }
        }
        // Later than the thread waits, then at once.
        monitor.update { $0 = far + 1 }
        monitor.update { $0 = now() }
        await thread.join()
        #expect(timeouts.load(ordering: .relaxed) == 1)
        let result: Void? = monitor.wait(untilNanoseconds: now()) { _ in nil }
        #expect(result == nil)
    }

    @Test("threads that take turns lose no change", arguments: [2, 8])
    func turns(threadCount: Int) async throws {
        let monitor = Monitor((turn: 0, count: 0))
        var threads: [BlockingThread] = []
        for number in 0..<threadCount {
            threads.append(
                try BlockingThread.start {
                    for _ in 0..<500 {
                        monitor.wait { state -> Void? in
                            guard state.turn == number else { return nil }
                            state = ((number + 1) % threadCount, state.count + 1)
                        }
                    }
                })
        }
        for thread in threads { await thread.join() }
        #expect(monitor.withLock { $0.count } == 500 * threadCount)
    }
}
