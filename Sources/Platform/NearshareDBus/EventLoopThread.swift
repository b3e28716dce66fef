// C libraries with event loops want one thread and no other near their objects. This gives them one.

internal import Glibc
package import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// What lives on a thread of its own. All of it, from `init` to `close()`, is called on that thread only.
package protocol EventLoop: AnyObject, SendableMetatype {
    /// When ``tick(at:)`` is wanted next.
    var nextDeadline: MonotonicInstant? { get }

    func tick(at now: MonotonicInstant)

    /// Waits for something to happen, for `milliseconds` at most (-1: for ever) or until the wake-up descriptor that `init`
    /// was given becomes readable, and handles what has happened.
    func wait(milliseconds: Int32)

    /// Frees what C has allocated. Nothing is called afterwards.
    func close()
}

/// The only way to a ``EventLoop`` from other threads: it hands them in one by one.
package final class EventLoopThread<Loop: EventLoop>: Sendable {
    private typealias Job = @Sendable (Loop) -> Void

    private struct State {
        var jobs: [Job] = []
        var isClosing = false
        var thread: pthread_t?
    }

    private let state = Mutex(State())
    /// A pair of sockets: a byte written to one makes the other readable. (Swift's Glibc module has no eventfd.)
    private let bell: (button: Int32, wakeup: Int32)
    private let finished = Semaphore()

    /// Starts the thread and waits until `make` has made the loop there.
    /// - Parameter make: is given the descriptor that its ``EventLoop/wait(milliseconds:)`` must watch, without reading.
    package init(make: @escaping @Sendable (_ wakeup: Int32) throws(DiscoveryError) -> Loop) throws(DiscoveryError) {
        var pair: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let code = socketpair(AF_UNIX, kind, 0, &pair)
        bell = (pair[0], pair[1])
        guard code == 0 else { throw DiscoveryError("discovery cannot start: \(String(cString: strerror(errno)))") }
        let made = Answer<Void>()
        let body = ThreadBody { [self] in
            state.withLock { $0.thread = pthread_self() }
            let loop: Loop
            do throws(DiscoveryError) {
                loop = try make(bell.wakeup)
            } catch {
                made.give(.failure(error))
                return finished.open()
            }
            made.give(.success(()))
            serve(loop)
        }
        try body.start()
        try made.take()
    }

    deinit {
        for descriptor in [bell.button, bell.wakeup] where descriptor >= 0 { Glibc.close(descriptor) }
    }

    /// Runs `job` on the thread and waits for what it returns. Not to be called on the thread itself.
    package func run<Value: Sendable>(
        _ job: @escaping @Sendable (Loop) throws(DiscoveryError) -> Value
    ) throws(DiscoveryError) -> Value {
        precondition(!isOnThread, "the thread would wait for itself")
        let answer = Answer<Value>()
        let accepted = enqueue { loop in
            do throws(DiscoveryError) { answer.give(.success(try job(loop))) } catch { answer.give(.failure(error)) }
        }
        guard accepted else { throw DiscoveryError("discovery has been stopped") }
        return try answer.take()
    }

    /// Runs `job` on the thread some time soon; never after ``close()``.
    package func post(_ job: @escaping @Sendable (Loop) -> Void) {
        _ = enqueue(job)
    }

    /// Runs what has been posted, ends the thread, and waits for that unless called on the thread itself.
    package func close() {
        state.withLock { $0.isClosing = true }
        wake()
        if !isOnThread { finished.wait() }
    }

    private var isOnThread: Bool {
        state.withLock { $0.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    private func enqueue(_ job: @escaping Job) -> Bool {
        let accepted = state.withLock { state in
            if !state.isClosing { state.jobs.append(job) }
            return !state.isClosing
        }
        if accepted { wake() }
        return accepted
    }

    private func wake() {
        // Full means that it has been rung already.
        var byte: UInt8 = 1
        _ = Glibc.send(bell.button, &byte, 1, Int32(MSG_NOSIGNAL))
    }

    private func serve(_ loop: Loop) {
        while true {
            silence()
            let (jobs, isClosing) = state.withLock { state in
                defer { state.jobs = [] }
                return (state.jobs, state.isClosing)
            }
            for job in jobs { job(loop) }
            if isClosing { break }
            let now = MonotonicInstant.now
            loop.tick(at: now)
            loop.wait(milliseconds: Self.milliseconds(until: loop.nextDeadline, from: now))
        }
        loop.close()
        finished.open()
    }

    private func silence() {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            while read(bell.wakeup, buffer.baseAddress, buffer.count) == buffer.count {}
        }
    }

    /// Rounded up, so that the deadline has passed after the wait.
    private static func milliseconds(until deadline: MonotonicInstant?, from now: MonotonicInstant) -> Int32 {
        guard let deadline else { return -1 }
        return Int32(clamping: max(0, (deadline - now).nanoseconds + 999_999) / 1_000_000)
    }
}

/// Once open, open for ever.
private final class Semaphore: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func open() { sem_post(semaphore) }

    func wait() {
        while sem_wait(semaphore) != 0, errno == EINTR {}
        sem_post(semaphore)
    }
}

private final class Answer<Value: Sendable>: Sendable {
    private let value = Mutex<Result<Value, DiscoveryError>?>(nil)
    private let gate = Semaphore()

    func give(_ result: Result<Value, DiscoveryError>) {
        value.withLock { $0 = result }
        gate.open()
    }

    func take() throws(DiscoveryError) -> Value {
        gate.wait()
        return try value.withLock { $0! }.get()
    }
}

private final class ThreadBody: Sendable {
    private let run: @Sendable () -> Void

    init(run: @escaping @Sendable () -> Void) { self.run = run }

    func start() throws(DiscoveryError) {
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { context in
                // Signals are the program's affair: its handlers run on its own threads.
                var all = sigset_t()
                sigfillset(&all)
                pthread_sigmask(SIG_SETMASK, &all, nil)
                Unmanaged<ThreadBody>.fromOpaque(context!).takeRetainedValue().run()
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        guard code == 0 else {
            Unmanaged.passUnretained(self).release()
            throw DiscoveryError("discovery cannot start a thread: \(String(cString: strerror(code)))")
        }
        pthread_detach(thread)
    }
}

extension MonotonicInstant {
    package static var now: MonotonicInstant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicInstant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }
}
