internal import Synchronization

/// Something that happens once, with a value, and that any number of tasks wait for.
final class Promise<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiters: [UInt64: CheckedContinuation<Value?, Never>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let state = Mutex(State())

    /// nil as long as it has not happened.
    var value: Value? { state.withLock { $0.value } }

    /// Waits for it; nil when the waiting task is cancelled first.
    var happened: Value? {
        get async {
            let number = state.withLock { state in
                state.lastWaiter += 1
                return state.lastWaiter
            }
            return await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let (isReady, value) = state.withLock { state -> (Bool, Value?) in
                        if state.value != nil || Task.isCancelled { return (true, state.value) }
                        state.waiters[number] = continuation
                        return (false, nil)
                    }
                    if isReady { continuation.resume(returning: value) }
                }
            } onCancel: {
                state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: nil)
            }
        }
    }

    /// The first time counts.
    func happen(_ value: Value) {
        let waiters = state.withLock { state in
            guard state.value == nil else { return [UInt64: CheckedContinuation<Value?, Never>]() }
            state.value = value
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(returning: value) }
    }
}
