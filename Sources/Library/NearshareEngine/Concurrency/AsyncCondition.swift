internal import Synchronization

/// Tasks that wait until something holds that other code changes and then tells of.
///
/// What is waited for must be changed before ``wakeAll()`` is called, and neither may be called with a lock held that the
/// condition takes.
final class AsyncCondition: Sendable {
    private struct State {
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Waits for the next change, unless `isReady` holds. A cancelled task goes on at once.
    func wait(until isReady: @Sendable () -> Bool) async {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if Task.isCancelled || isReady() { return true }
                    state.waiters[number] = continuation
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume()
        }
    }

    func wakeAll() {
        let waiters = state.withLock { state in
            guard !state.waiters.isEmpty else { return [UInt64: CheckedContinuation<Void, Never>]() }
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume() }
    }
}
