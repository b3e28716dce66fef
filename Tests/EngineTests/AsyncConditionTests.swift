import NearshareInterfaces
import Synchronization
import Testing

@Suite("a condition variable for tasks") struct AsyncConditionTests {
    /// A value that one task sets and another one waits for.
    private final class ObservedValue: Sendable {
        private let state = Mutex((value: Int?.none, readCount: 0))
        private let condition: AsyncCondition

        init(polls: Bool = false) {
            condition = AsyncCondition(polls: polls)
        }

        /// The number of times that a waiting task has checked the value.
        var readCount: Int { state.withLock { $0.readCount } }

        func set(_ value: Int) {
            state.withLock { $0.value = value }
            notify()
        }

        func notify() { condition.notifyAll() }

        /// Notifies until a waiting task has checked the value several times.
        func notifyRepeatedly() async {
            while readCount < 6 {
                notify()
                await Task.yield()
            }
        }

        func waitUntilSet() async -> Int? {
            await condition.wait { self.read() != nil }
            return state.withLock { $0.value }
        }

        func waitForValue() async -> Int? { await condition.waitForValue { self.read() } }

        func waitForNotification() async { await condition.waitForNotification { self.read() != nil } }

        private func read() -> Int? {
            state.withLock { state in
                state.readCount += 1
                return state.value
            }
        }
    }

    /// The questions and answers of two tasks so far.
    private final class Counts: Sendable {
        let state = Mutex((questions: 0, answers: 0))
    }

    @Test("a wait goes on after notifications for which its condition does not hold", arguments: [false, true])
    func repeatedNotifications(_ polls: Bool) async {
        let observed = ObservedValue(polls: polls)
        let waiting = Task { await observed.waitUntilSet() }
        await observed.notifyRepeatedly()
        observed.set(7)
        #expect(await waiting.value == 7)
    }

    @Test("a wait for a value returns it, after notifications without one") func value() async {
        let observed = ObservedValue()
        let waiting = Task { await observed.waitForValue() }
        await observed.notifyRepeatedly()
        observed.set(7)
        #expect(await waiting.value == 7)
        #expect(await observed.waitForValue() == 7, "it is there already")
    }

    @Test("a wait for one notification ends with it, though its condition does not hold") func oneNotification() async {
        let observed = ObservedValue()
        let waiting = Task { await observed.waitForNotification() }
        while observed.readCount == 0 { await Task.yield() }
        observed.notify()
        await waiting.value
        #expect(observed.readCount == 1)
    }

    @Test("a cancelled task waits no more") func cancellation() async {
        let observed = ObservedValue()
        let waiting = Task { await observed.waitUntilSet() }
        let awaitingValue = Task { await observed.waitForValue() }
        await observed.notifyRepeatedly()
        waiting.cancel()
        awaitingValue.cancel()
        #expect(await waiting.value == nil)
        #expect(await awaitingValue.value == nil)
    }

    @Test("two tasks that answer each other at once, and so poll, miss no change") func polling() async {
        let (questions, answers) = (AsyncCondition(polls: true), AsyncCondition(polls: true))
        let counts = Counts()
        let total = 500
        await withTaskGroup { group in
            group.addTask {
                for number in 1...total {
                    await questions.wait { counts.state.withLock { $0.questions == number } }
                    counts.state.withLock { $0.answers = number }
                    answers.notifyAll()
                }
            }
            for number in 1...total {
                counts.state.withLock { $0.questions = number }
                questions.notifyAll()
                await answers.wait { counts.state.withLock { $0.answers == number } }
            }
        }
        #expect(counts.state.withLock { $0.answers } == total)
    }
}
