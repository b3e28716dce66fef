internal import Synchronization

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// The threads that a task, its child tasks and these threads start with ``BlockingThread``: counted, and limited in number.
///
/// A group limits one part of a program as the kernel limits a user, and shows whether all its threads have ended. For tests of
/// leaks, and of machines that refuse threads; a program has no group.
package final class ThreadGroup: Sendable {
    private struct State {
        var count = 0
        var limit: Int
    }

    /// The group of the running task; nil for none.
    @TaskLocal package static var current: ThreadGroup?

    private let state: Mutex<State>
    private let change = AsyncCondition()

    /// - Parameter limit: number of threads beyond which more are refused.
    package init(limit: Int = .max) {
        state = Mutex(State(limit: limit))
    }

    /// The number of threads that run.
    package var count: Int { state.withLock { $0.count } }

    /// Changes the limit. Threads beyond it run on.
    package func setLimit(_ limit: Int) { state.withLock { $0.limit = limit } }

    /// Waits until no thread runs any more, or the task is cancelled.
    package func waitUntilEmpty() async {
        await change.wait { self.count == 0 }
    }

    func addThread() throws(ThreadError) {
        let isAdmitted = state.withLock { state in
            guard state.count < state.limit else { return false }
            state.count += 1
            return true
        }
        guard isAdmitted else { throw ThreadError(code: EAGAIN) }
    }

    func removeThread() {
        state.withLock { $0.count -= 1 }
        change.notifyAll()
    }
}
