internal import Glibc

/// A dedicated thread for code that blocks on links, files and terminals, so that it holds none of the threads of Swift's
/// concurrency pool.
package enum BlockingThread {
    /// Starts `body` on a thread of its own. The caller makes it return, such as by closing the link that it reads from.
    ///
    /// Where the kernel refuses a thread (its limits are reached), `body` runs on a thread as soon as one is available.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        if !tryStart(body) { Task { await retry(body) } }
    }

    /// Runs `body` on a thread of its own and waits for its result, without holding a thread of the concurrency pool.
    ///
    /// The awaiting task owns the thread. `body` must be made to return by other means than cancellation.
    package static func run<Result: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let result: Swift.Result<Result, Failure> = await withCheckedContinuation { continuation in
            start {
                do throws(Failure) {
                    continuation.resume(returning: .success(try body()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    /// Waits for threads to end, and tries again.
    private static func retry(_ body: @escaping @Sendable () -> Void) async {
        while !tryStart(body) { try? await Task.sleep(for: .milliseconds(50)) }
    }

    /// - Returns: false when the kernel refuses a thread.
    private static func tryStart(_ body: @escaping @Sendable () -> Void) -> Bool {
        final class Start {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(body))
        let code = pthread_create(
            &thread, nil,
            { raw in
                // Safe: pthread_create passes the pointer that it was given.
                Unmanaged<Start>.fromOpaque(raw!).takeRetainedValue().body()
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            return false
        }
        pthread_detach(thread)
        return true
    }
}
