internal import NearshareBase
internal import Synchronization

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// A condition variable for tasks.
///
/// The awaited state must be changed before ``notifyAll()`` is called. Neither method may be called with a lock held that the
/// predicate takes: the lock order is condition before predicate.
package final class AsyncCondition: Sendable {
    private struct State {
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var last: UInt64 = 0
        var polling = AdaptivePolling()
    }

    private let state = Mutex(State())
    private let polls: Bool

    /// - Parameter polls: whether ``wait(until:)`` polls before it sleeps, where this makes it quicker. Only for what a thread
    ///   outside Swift's pool of threads changes: a polling task keeps others from their thread for up to ``AdaptivePolling/limit``.
    package init(polls: Bool = false) {
        self.polls = polls
    }

    /// Waits until `isReady` is true, which is checked at each notification, or the task is cancelled.
    package func wait(until isReady: @Sendable () -> Bool) async {
        while !Task.isCancelled, !isReady() {
            if polls {
                await pollOrSleep(until: isReady)
            } else {
                await waitForNotification(unless: isReady)
            }
        }
    }

    private func pollOrSleep(until isReady: @Sendable () -> Bool) async {
        let start = SystemClock.monotonic()
        guard state.withLock({ $0.polling.isDue }) else {
            await waitForNotification(unless: isReady)
            return state.withLock { $0.polling.recordSleep(SystemClock.monotonic() - start) }
        }
        let isFound = poll(until: isReady, start + AdaptivePolling.limit)
        state.withLock { $0.polling.recordPoll(SystemClock.monotonic() - start) }
        if !isFound { await waitForNotification(unless: isReady) }
    }

    /// Checks a condition until it is true or a time has come, and lets other threads run in between.
    private func poll(until isReady: () -> Bool, _ end: MonotonicInstant) -> Bool {
        repeat {
            sched_yield()
            if isReady() { return true }
        } while SystemClock.monotonic() < end
        return false
    }

    /// Waits until `value` returns a value, which is checked at each notification.
    /// - Returns: nil when the task is cancelled before there is a value.
    package func waitForValue<Value: Sendable>(_ value: @Sendable () -> Value?) async -> Value? {
        while true {
            if let value = value() { return value }
            if Task.isCancelled { return nil }
            await waitForNotification(unless: { value() != nil })
        }
    }

    /// Waits for one notification, unless `isReady` is true already, for callers that act before they wait again. A cancelled task is
    /// resumed at once.
    package func waitForNotification(unless isReady: @Sendable () -> Bool) async {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let resumes = state.withLock { state in
                    if Task.isCancelled || isReady() { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if resumes { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }

    /// Resumes all waiting tasks, which check their predicates again.
    package func notifyAll() {
        let waiters = state.withLock { state in
            guard !state.waiters.isEmpty else { return [UInt64: CheckedContinuation<Void, Never>]() }
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume() }
    }
}
