#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// State that several threads share, and on which they wait for each other: a lock and a condition in one.
///
/// For dedicated threads only. A task of Swift's own pool must not wait here; ``withLock(_:)`` alone is fine anywhere.
package final class Monitor<State: ~Copyable>: @unchecked Sendable {
    // Only touched between lock and unlock.
    private var state: State
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    package init(_ state: consuming State) {
        self.state = state
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        #if !canImport(Darwin)
            // Deadlines must not move when the wall clock is set.
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        #endif
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Changes the state; wakes all waiting threads.
    package func update<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return try body(&state)
    }

    /// Changes the state; wakes the waiting threads only if `body` returns true.
    package func updateQuietly(_ body: (inout State) -> Bool?) -> Bool? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        let isOfInterest = body(&state)
        if isOfInterest == true { pthread_cond_broadcast(condition) }
        return isOfInterest
    }

    /// Reads the state, or changes a part that no thread waits for.
    package func withLock<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state)
    }

    /// Waits until `body` returns a value other than nil. It is called at once, and again after each update.
    package func wait<Result>(_ body: (inout State) -> Result?) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state) {
                pthread_cond_broadcast(condition)
                return result
            }
            pthread_cond_wait(condition, mutex)
        }
    }

    /// Waits like ``waitWithDeadlines(_:)``, without deadlines. For results that may be nil; otherwise ``wait(_:)`` is shorter.
    package func waitUntilReady<Result>(_ body: (inout State) -> MonitorWait<Result>) -> Result {
        waitWithDeadlines { state, _ in body(&state) }
    }

    /// Waits like ``wait(_:)``, but no longer than until `deadline`, in nanoseconds of the monotonic clock.
    /// - Returns: nil when time ran out.
    package func wait<Result>(untilNanoseconds deadline: Int64, _ body: (inout State) -> Result?) -> Result? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state) {
                pthread_cond_broadcast(condition)
                return result
            }
            if isTimeOver(afterWaitingUntil: deadline) { return body(&state) }
        }
    }

    /// Waits until `body` returns a result, and lets it choose each time how long to wait. It is called at once, after each
    /// update, and when the time that it has named last is over.
    /// - Parameter body: may change the state; its second argument is true when its time is over.
    package func waitWithDeadlines<Result>(
        _ body: (inout State, _ isTimeOver: Bool) -> MonitorWait<Result>
    ) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        var isTimeOver = false
        while true {
            let next = body(&state, isTimeOver)
            // Another thread may wait for a change that `body` makes at a deadline.
            if isTimeOver { pthread_cond_broadcast(condition) }
            switch next {
            case .ready(let result):
                pthread_cond_broadcast(condition)
                return result
            case .waiting(nil):
                pthread_cond_wait(condition, mutex)
                isTimeOver = false
            case .waiting(let deadline?):
                isTimeOver = self.isTimeOver(afterWaitingUntil: deadline)
            }
        }
    }

    /// Waits for an update, with the lock held, no longer than until `deadline`, in nanoseconds of the monotonic clock.
    /// - Returns: whether time ran out.
    private func isTimeOver(afterWaitingUntil deadline: Int64) -> Bool {
        // The kernel rejects times before its clock's beginning, which a clock of a test may name.
        var nanoseconds = max(deadline, 0)
        #if canImport(Darwin)
            // Its condition variables know deadlines of the wall clock only, but durations as well.
            nanoseconds = max(nanoseconds - SystemClock.monotonic().nanoseconds, 0)
        #endif
        var time = timespec()
        time.tv_sec = Int(nanoseconds / 1_000_000_000)
        time.tv_nsec = Int(nanoseconds % 1_000_000_000)
        #if canImport(Darwin)
            return pthread_cond_timedwait_relative_np(condition, mutex, &time) == ETIMEDOUT
        #else
            return pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT
        #endif
    }
}

/// The next step of a thread that waits on a ``Monitor``.
package enum MonitorWait<Result> {
    /// Ends the wait.
    case ready(Result)
    /// Waits for the next update, at most until a time of the monotonic clock; nil for any time.
    case waiting(untilNanoseconds: Int64? = nil)
}
