internal import Synchronization

/// A queue between tasks with a bound: who puts in more than is taken out waits.
final class Handoff<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var takers: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var givers: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var lastWaiter: UInt64 = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Waits for room. Nothing happens any more once it is finished, or the task is cancelled.
    func give(_ element: Element) async {
        while true {
            let isDone = state.withLock { state in
                if state.isFinished || Task.isCancelled { return true }
                guard state.elements.count < capacity else { return false }
                state.elements.append(element)
                Self.resumeAll(&state.takers)
                return true
            }
            if isDone { return }
            await wait(\.givers) { $0.isFinished || $0.elements.count < self.capacity }
        }
    }

    /// - Returns: nil when it is finished and empty, or the task is cancelled.
    func take() async -> Element? {
        while true {
            let next: Element?? = state.withLock { state in
                if !state.elements.isEmpty {
                    Self.resumeAll(&state.givers)
                    return .some(state.elements.removeFirst())
                }
                return state.isFinished || Task.isCancelled ? .some(nil) : nil
            }
            if let next { return next }
            await wait(\.takers) { $0.isFinished || !$0.elements.isEmpty }
        }
    }

    func finish() {
        state.withLock { state in
            state.isFinished = true
            Self.resumeAll(&state.takers)
            Self.resumeAll(&state.givers)
        }
    }

    private typealias Waiters = [UInt64: CheckedContinuation<Void, Never>]

    private static func resumeAll(_ waiters: inout Waiters) {
        for waiter in waiters.values { waiter.resume() }
        waiters = [:]
    }

    private func wait(_ list: any WritableKeyPath<State, Waiters> & Sendable, until isReady: @Sendable (State) -> Bool) async {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if Task.isCancelled || isReady(state) { return true }
                    state[keyPath: list][number] = continuation
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            state.withLock { state in
                state.takers.removeValue(forKey: number)?.resume()
                state.givers.removeValue(forKey: number)?.resume()
            }
        }
    }
}
