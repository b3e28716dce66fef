#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// A failure to start a thread: as a rule the limit of the user, the control group or the machine is reached.
package struct ThreadError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The errno of pthread_create(3), usually `EAGAIN`.
    package let code: Int32

    package init(code: Int32) {
        self.code = code
    }

    package var description: String {
        "could not start a thread; end other programs, or raise the limit: TasksMax= of systemd, or `ulimit -u`"
    }
}

/// A dedicated thread for code that blocks on links, files and terminals, so that it holds none of the threads of Swift's
/// concurrency pool.
package final class BlockingThread: Sendable {
    private let end = Latch()

    /// Starts `body` on a thread of its own. The caller makes it return, such as by closing the link that it reads from.
    /// - Throws: ``ThreadError`` when the kernel refuses a thread; then `body` is not called.
    package static func start(_ body: @escaping @Sendable () -> Void) throws(ThreadError) -> BlockingThread {
        let thread = BlockingThread()
        let end = thread.end
        guard let group = ThreadGroup.current else {
            try startDetached {
                body()
                end.open()
            }
            return thread
        }
        try group.addThread()
        do throws(ThreadError) {
            try startDetached {
                ThreadGroup.$current.withValue(group) { body() }
                group.removeThread()
                end.open()
            }
        } catch {
            group.removeThread()
            throw error
        }
        return thread
    }

    /// Runs `body` on a thread of its own and waits for its result, without holding a thread of the concurrency pool.
    ///
    /// The awaiting task owns the thread. `body` must be made to return by other means than cancellation.
    /// - Throws: ``ThreadError`` when the kernel refuses a thread; then `body` is not called.
    package static func run<Result: Sendable>(
        _ body: @escaping @Sendable () -> Result
    ) async throws(ThreadError) -> Result {
        let result: Swift.Result<Result, ThreadError> = await withCheckedContinuation { continuation in
            do throws(ThreadError) {
                // The end of the thread is the result that is awaited.
                _ = try start { continuation.resume(returning: .success(body())) }
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        return try result.get()
    }

    /// Waits until the thread has ended, also in a cancelled task.
    package func join() async { await end.wait() }

    /// Starts `body` on a thread whose end the caller learns of by its own means.
    /// - Throws: ``ThreadError`` when the kernel refuses a thread; then `body` is not called.
    package static func startDetached(_ body: @escaping @Sendable () -> Void) throws(ThreadError) {
        final class Start {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        #if canImport(Darwin)
            var thread: pthread_t?
        #else
            var thread = pthread_t()
        #endif
        let start = Unmanaged.passRetained(Start(body))
        let code = pthread_create(
            &thread, nil,
            { raw in
                // Not optional on Darwin.
                let raw: UnsafeMutableRawPointer? = raw
                // Safe: pthread_create passes the pointer that it was given.
                Unmanaged<Start>.fromOpaque(raw!).takeRetainedValue().body()
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            throw ThreadError(code: code)
        }
        #if canImport(Darwin)
            if let thread { pthread_detach(thread) }
        #else
            pthread_detach(thread)
        #endif
    }
}
