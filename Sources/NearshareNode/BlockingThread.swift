internal import Glibc

/// Runs blocking code on a thread of its own and waits for it without holding one of Swift's few.
///
/// Whoever awaits it owns the thread: it ends when `body` returns, and `body` must be made to return by other means, such
/// as closing the link it reads from.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        startThread { continuation.resume(returning: body()) }
    }
}

private func startThread(_ body: @escaping @Sendable () -> Void) {
    final class Start {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let start = Unmanaged.passRetained(Start(body)).toOpaque()
    let code = pthread_create(
        &thread, nil,
        { raw in
            Unmanaged<Start>.fromOpaque(raw!).takeRetainedValue().body()
            return nil
        }, start)
    // The number of threads is bounded by the number of links; if even these can't be had, nothing can go on.
    precondition(code == 0, "no thread to be had: \(String(cString: strerror(code)))")
    pthread_detach(thread)
}
