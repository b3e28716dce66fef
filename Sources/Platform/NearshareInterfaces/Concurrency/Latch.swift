internal import Synchronization

/// A latch that is opened once, at the end of an operation. Unlike with a ``Promise``, a cancelled task goes on waiting: the
/// operation may use what the task would release.
package final class Latch: Sendable {
    private enum State {
        case closed([CheckedContinuation<Void, Never>])
        case open
    }

    private let state = Mutex(State.closed([]))

    package init() {}

    /// Resumes all waiting tasks; later ones do not wait.
    package func open() {
        let waiters: [CheckedContinuation<Void, Never>] = state.withLock { state in
            defer { state = .open }
            if case .closed(let waiters) = state { return waiters }
            return []
        }
        for waiter in waiters { waiter.resume() }
    }

    package func wait() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                guard case .closed(let waiters) = state else { return true }
                state = .closed(waiters + [continuation])
                return false
            }
            if isOpen { continuation.resume() }
        }
    }
}
