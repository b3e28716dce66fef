import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareDBus

/// A loop that waits for its wake-up descriptor and one pipe.
private final class PipeLoop: EventLoop {
    let handle: EventLoopHandle<PipeLoop>
    let events: Monitor<[String]>
    var deadline: MonotonicInstant?
    var ticks = 0

    init(_ handle: EventLoopHandle<PipeLoop>, events: Monitor<[String]>) {
        self.handle = handle
        self.events = events
    }

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? { deadline }

    func tick(at now: MonotonicInstant) {
        ticks += 1
        guard let due = deadline, now >= due else { return }
        deadline = nil
        events.update { $0.append("deadline") }
    }

    func wait(timeout: Duration?) {
        _ = DescriptorPoll.wait(for: handle.wakeup.descriptor, .readable, timeout: timeout)
    }

    func close() { events.update { $0.append("closed") } }
}

@Suite("a thread for an event loop", .timeLimit(.minutes(1)))
struct EventLoopThreadTests {
    private func thread(_ events: Monitor<[String]>) throws -> EventLoopThread<PipeLoop> {
        try EventLoopThread(
            clock: { SystemClock.monotonic() },
            make: { handle throws(DiscoveryError) in PipeLoop(handle, events: events) })
    }

    @Test("jobs run on the thread in order, and their results come back")
    func jobs() throws {
        let events = Monitor<[String]>([])
        let thread = try thread(events)
        for number in 0..<100 { thread.post { $0.events.update { $0.append("\(number)") } } }
        #expect(try thread.run { $0.events.withLock { $0.count } } == 100)
        thread.close()
        #expect(events.withLock { $0 } == (0..<100).map { "\($0)" } + ["closed"])
    }

    @Test("errors of jobs come back, and a closed thread accepts none")
    func errors() throws {
        let thread = try thread(Monitor([]))
        #expect(throws: DiscoveryError.self) {
            try thread.run { _ throws(DiscoveryError) -> Int in throw DiscoveryError("no") }
        }
        thread.close()
        thread.close()
        #expect(throws: DiscoveryError.self) { try thread.run { $0.ticks } }
        thread.post { $0.events.update { $0.append("never") } }
    }

    @Test("a loop that cannot be made is the caller's error")
    func notMade() {
        do throws(EventLoopStartError<DiscoveryError>) {
            _ = try EventLoopThread<PipeLoop>(
                clock: { SystemClock.monotonic() },
                make: { _ throws(DiscoveryError) in throw DiscoveryError("no bus") })
            Issue.record("made")
        } catch {
            guard case .notMade(let reason) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(reason.description == "no bus")
            #expect(error.discoveryError.description == "no bus")
        }
        #expect(EventLoopStartError<DiscoveryError>.noThread("x").discoveryError.description.contains("x"))
    }

    @Test("a deadline wakes the loop, and no deadline leaves it asleep")
    func deadline() throws {
        let events = Monitor<[String]>([])
        let thread = try thread(events)
        try thread.run { $0.deadline = SystemClock.monotonic() + .milliseconds(20) }
        events.wait { $0.contains("deadline") ? () : nil }
        let before = try thread.run { $0.ticks }
        #expect(try thread.run { $0.ticks } <= before + 1, "only jobs wake it now")
        thread.close()
    }

    @Test("jobs can be posted from the thread itself, and after its end they are dropped")
    func handle() throws {
        let events = Monitor<[String]>([])
        let thread = try thread(events)
        let handle = try thread.run { $0.handle }
        handle.post { loop in
            loop.handle.post { $0.events.update { $0.append("nested") } }
        }
        events.wait { $0.contains("nested") ? () : nil }
        thread.close()
        handle.post { $0.events.update { $0.append("late") } }
        #expect(events.withLock { $0 } == ["nested", "closed"])
    }
}
