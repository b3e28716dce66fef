internal import NearshareInterfaces

/// Runs blocking code on a thread of its own and waits for it without holding one of Swift's few.
///
/// Whoever awaits it owns the thread: it ends when `body` returns, and `body` must be made to return by other means, such
/// as closing the link it reads from.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        BlockingThread.start { continuation.resume(returning: body()) }
    }
}
