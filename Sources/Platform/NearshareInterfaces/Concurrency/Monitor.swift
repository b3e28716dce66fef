#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// State that several threads share, and on which they wait for each other: a lock and a condition in one.
///
/// The thread that changes the state evaluates what the others wait for, in the order in which they began to wait. It wakes only
/// those for which there is something to do, and each finds its result without taking the lock again.
///
/// For dedicated threads only. A task of Swift's own pool must not wait here; ``withLock(_:)`` alone is fine anywhere.
package final class Monitor<State: ~Copyable>: @unchecked Sendable {
    // Both are only touched between lock and unlock.
    private var state: State
    private var waiters: [Waiter] = []
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>

    package init(_ state: consuming State) {
        self.state = state
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Changes the state; wakes the threads whose wait this ends.
    package func update<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { evaluateAndUnlock() }
        return try body(&state)
    }

    /// Changes the state; evaluates what the other threads wait for only if `body` returns true.
    /// - Returns: the result of `body`, in which nil has a meaning for the caller alone.
    package func updateQuietly(_ body: (inout State) -> Bool?) -> Bool? {
        pthread_mutex_lock(mutex)
        let mayEndWaits = body(&state)
        if mayEndWaits == true { evaluateAndUnlock() } else { pthread_mutex_unlock(mutex) }
        return mayEndWaits
    }

    /// Reads the state, or changes a part that no thread waits for.
    package func withLock<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state)
    }

    /// Waits until `body` returns a value other than nil. It is called at once, and again after each update.
    package func wait<Result>(_ body: (inout State) -> Result?) -> Result {
        waitUntilReady { state in
            if let result = body(&state) { .ready(result) } else { .waiting() }
        }
    }

    /// Waits like ``waitWithDeadlines(_:)``, without deadlines. For results that may be nil; otherwise ``wait(_:)`` is shorter.
    package func waitUntilReady<Result>(_ body: (inout State) -> MonitorWait<Result>) -> Result {
        waitWithDeadlines { state, _ in body(&state) }
    }

    /// Waits like ``wait(_:)``, but no longer than until `deadline`, in nanoseconds of the monotonic clock.
    /// - Returns: nil when time ran out.
    package func wait<Result>(untilNanoseconds deadline: Int64, _ body: (inout State) -> Result?) -> Result? {
        waitWithDeadlines { state, hasTimedOut -> MonitorWait<Result?> in
            if let result = body(&state) { return .ready(result) }
            return hasTimedOut ? .ready(nil) : .waiting(untilNanoseconds: deadline)
        }
    }

    /// Waits until `body` returns a result. It is called at once, after each update, and at the deadline that it has returned
    /// last.
    /// - Parameter body: called on this thread, or on the one that updates. It may change the state; its second argument is true
    ///   when its deadline has passed.
    package func waitWithDeadlines<Result>(
        _ body: (inout State, _ hasTimedOut: Bool) -> MonitorWait<Result>
    ) -> Result {
        pthread_mutex_lock(mutex)
        switch body(&state, false) {
        case .ready(let result):
            evaluateAndUnlock()
            return result
        case .waiting(let deadline):
            var result: Result?
            withoutActuallyEscaping(body) { body in
                wait(
                    as: Waiter(until: deadline) { state, hasTimedOut in
                        switch body(&state, hasTimedOut) {
                        case .ready(let value):
                            result = value
                            return .ready(())
                        case .waiting(let deadline): return .waiting(untilNanoseconds: deadline)
                        }
                    })
            }
            // Safe: the wait ends when `body` has returned a result.
            return result!
        }
    }

    // MARK: Waiting threads

    /// A thread that waits. All but its signal is only touched between lock and unlock.
    private final class Waiter {
        let signal = ThreadSignal()
        /// In nanoseconds of the monotonic clock; nil for none.
        private(set) var deadline: Int64?
        private var body: ((inout State, _ hasTimedOut: Bool) -> MonitorWait<Void>)?

        init(until deadline: Int64?, _ body: @escaping (inout State, _ hasTimedOut: Bool) -> MonitorWait<Void>) {
            (self.deadline, self.body) = (deadline, body)
        }

        /// Whether the thread has its result.
        var isReady: Bool { body == nil }

        // Not inlined, so that no other thread holds the body when the wait has ended.
        @inline(never)
        func evaluate(_ state: inout State, hasTimedOut: Bool) {
            switch body?(&state, hasTimedOut) {
            case .waiting(let next): deadline = next
            case .ready, nil: body = nil
            }
        }
    }

    /// Waits with the lock held; returns without it.
    private func wait(as waiter: Waiter) {
        waiters.append(waiter)
        var deadline = waiter.deadline
        pthread_mutex_unlock(mutex)
        while true {
            let reason = waiter.signal.wait(untilNanoseconds: deadline)
            if reason == .ready { return }
            pthread_mutex_lock(mutex)
            // An update may have moved the deadline meanwhile.
            if !waiter.isReady, reason == nil, waiter.deadline == deadline {
                waiter.evaluate(&state, hasTimedOut: true)
                if waiter.isReady { waiters.removeAll { $0 === waiter } }
                deadline = waiter.deadline
                let isReady = waiter.isReady
                // Another thread may wait for what `body` has changed at the deadline.
                evaluateAndUnlock()
                if isReady { return }
            } else {
                deadline = waiter.deadline
                let isReady = waiter.isReady
                pthread_mutex_unlock(mutex)
                if isReady { return }
            }
        }
    }

    /// Evaluates what the threads wait for, releases the lock, and wakes those that have a result or an earlier deadline.
    private func evaluateAndUnlock() {
        var wakeUps: [(signal: ThreadSignal, reason: ThreadSignal.Reason)] = []
        var index = 0
        while index < waiters.count {
            let waiter = waiters[index]
            let deadline = waiter.deadline
            waiter.evaluate(&state, hasTimedOut: false)
            if waiter.isReady {
                waiters.remove(at: index)
                wakeUps.append((waiter.signal, .ready))
                // Another thread may wait for what this one has changed.
                index = 0
            } else {
                if let next = waiter.deadline, deadline.map({ next < $0 }) ?? true {
                    wakeUps.append((waiter.signal, .earlierDeadline))
                }
                index += 1
            }
        }
        pthread_mutex_unlock(mutex)
        for (signal, reason) in wakeUps { signal.send(reason) }
    }
}

/// Wakes one thread that waits.
private final class ThreadSignal: @unchecked Sendable {
    /// The reason to wake the thread.
    enum Reason {
        /// The thread has to wait for less time.
        case earlierDeadline
        /// The thread has its result.
        case ready
    }

    // Only touched between lock and unlock.
    private var reason: Reason?
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    init() {
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

    func send(_ reason: Reason) {
        pthread_mutex_lock(mutex)
        if self.reason != .ready { self.reason = reason }
        pthread_mutex_unlock(mutex)
        pthread_cond_signal(condition)
    }

    /// Waits for a signal.
    /// - Parameter deadline: in nanoseconds of the monotonic clock; nil for none.
    /// - Returns: nil when the deadline has passed.
    func wait(untilNanoseconds deadline: Int64?) -> Reason? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while reason == nil {
            guard let deadline else {
                pthread_cond_wait(condition, mutex)
                continue
            }
            if hasTimedOut(afterWaitingUntil: deadline) { break }
        }
        defer { reason = nil }
        return reason
    }

    /// Waits with the lock held, no longer than until `deadline`, in nanoseconds of the monotonic clock.
    /// - Returns: whether time ran out.
    private func hasTimedOut(afterWaitingUntil deadline: Int64) -> Bool {
        // The kernel rejects times before its clock's beginning, which a clock of a test may name.
        var nanoseconds = max(deadline, 0)
        #if canImport(Darwin)
            // Darwin's condition variables have deadlines of the wall clock only, but durations as well.
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
