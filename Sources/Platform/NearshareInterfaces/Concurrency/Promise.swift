internal import Synchronization

/// A value that is set once, and that any number of tasks await.
package final class Promise<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiters: [UInt64: CheckedContinuation<Value?, Never>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// The value, without waiting; nil before the promise is fulfilled.
    package var current: Value? { state.withLock { $0.value } }

    /// Waits until the promise is fulfilled; nil when the waiting task is cancelled first.
    package var value: Value? {
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

    /// Waits until the promise is fulfilled, also when the waiting task is cancelled: for one that is certain to be fulfilled. Never
    /// nil.
    package var eventualValue: Value? {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state -> Value? in
                    if state.value == nil {
                        state.lastWaiter += 1
                        state.waiters[state.lastWaiter] = continuation
                    }
                    return state.value
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }

    /// Waits until the promise is fulfilled, at most for `duration`.
    /// - Returns: whether it is fulfilled.
    @discardableResult
    package func isFulfilled(within duration: Duration) async -> Bool {
        await withTimeout(duration) { await self.value != nil } ?? false
    }

    /// Sets the value and resumes all waiting tasks. Only the first call has an effect.
    package func fulfil(_ value: Value) {
        let waiters = state.withLock { state in
            guard state.value == nil else { return [UInt64: CheckedContinuation<Value?, Never>]() }
            state.value = value
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(returning: value) }
    }
}

extension Promise where Value == Void {
    /// Resumes all waiting tasks. Only the first call has an effect.
    package func fulfil() { fulfil(()) }
}
