internal import Glibc
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// Runs an ``EventLoop`` on a dedicated thread, and passes it the jobs of other threads.
package final class EventLoopThread<Loop: EventLoop>: Sendable {
    package typealias Job = @Sendable (Loop) -> Void

    private struct State {
        var jobs: [Job] = []
        var isClosing = false
        var thread: pthread_t?
    }

    private let state = Mutex(State())
    private let wakeup = EventFD()
    private let isFinished = Monitor(false)
    private let clock: @Sendable () -> MonotonicInstant

    /// Starts the thread and waits until `make` has created the loop there.
    package init<Failure: Error>(
        clock: @escaping @Sendable () -> MonotonicInstant,
        make: @escaping @Sendable (EventLoopHandle<Loop>) throws(Failure) -> Loop
    ) throws(EventLoopStartError<Failure>) {
        self.clock = clock
        guard wakeup.isOpen else { throw .noThread("could not create a wake-up descriptor: \(systemErrorText())") }
        let outcome = Monitor<Result<Void, Failure>?>(nil)
        do throws(ThreadError) {
            try BlockingThread.startDetached { [self] in
                Self.blockSignals()
                state.withLock { $0.thread = pthread_self() }
                let handle = EventLoopHandle<Loop>(wakeup: wakeup) { [weak self] job in self?.post(job) }
                let loop: Loop
                do throws(Failure) {
                    loop = try make(handle)
                } catch {
                    isFinished.update { $0 = true }
                    return outcome.update { $0 = .failure(error) }
                }
                outcome.update { $0 = .success(()) }
                serve(loop)
            }
        } catch {
            throw .noThread(error.description)
        }
        if case .failure(let error) = outcome.wait({ $0 }) { throw .notMade(error) }
    }

    /// Runs `job` on the thread and waits for its result. Must not be called on the thread itself.
    package func run<Value: Sendable>(
        _ job: @escaping @Sendable (Loop) throws(DiscoveryError) -> Value
    ) throws(DiscoveryError) -> Value {
        precondition(!isCurrent, "the thread would wait for itself")
        let outcome = Monitor<Result<Value, DiscoveryError>?>(nil)
        let isAccepted = enqueue { loop in
            let result: Result<Value, DiscoveryError>
            do throws(DiscoveryError) { result = .success(try job(loop)) } catch { result = .failure(error) }
            outcome.update { $0 = result }
        }
        guard isAccepted else { throw DiscoveryError("discovery has been stopped") }
        return try outcome.wait { $0 }.get()
    }

    /// Runs `job` on the thread later; never after ``close()``.
    package func post(_ job: @escaping Job) {
        _ = enqueue(job)
    }

    /// Runs the posted jobs, ends the thread, and waits for its end unless called on the thread itself.
    package func close() {
        state.withLock { $0.isClosing = true }
        wakeup.signal()
        if !isCurrent { isFinished.wait { $0 ? () : nil } }
    }

    private var isCurrent: Bool {
        state.withLock { $0.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    private func enqueue(_ job: @escaping Job) -> Bool {
        let isAccepted = state.withLock { state in
            if !state.isClosing { state.jobs.append(job) }
            return !state.isClosing
        }
        if isAccepted { wakeup.signal() }
        return isAccepted
    }

    /// Leaves signals to the program's own threads: the libraries that run here do not expect interrupted calls.
    private static func blockSignals() {
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, nil)
    }

    private func serve(_ loop: Loop) {
        while true {
            wakeup.reset()
            let (jobs, isClosing) = state.withLock { state in
                defer { state.jobs = [] }
                return (state.jobs, state.isClosing)
            }
            for job in jobs { job(loop) }
            if isClosing { break }
            let now = clock()
            loop.tick(at: now)
            loop.wait(timeout: loop.nextDeadline(after: now).map { max(.zero, $0 - now) })
        }
        loop.close()
        isFinished.update { $0 = true }
    }
}

/// The reason why an ``EventLoopThread`` could not start.
package enum EventLoopStartError<Failure: Error>: Error {
    /// The system refused a thread or a descriptor.
    case noThread(String)
    /// The loop could not be created.
    case notMade(Failure)
}

extension EventLoopStartError<DiscoveryError> {
    package var discoveryError: DiscoveryError {
        switch self {
        case .noThread(let reason): DiscoveryError("discovery cannot start: \(reason)")
        case .notMade(let error): error
        }
    }
}
