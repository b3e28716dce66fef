internal import Synchronization

/// Lets a test wait for what comes from elsewhere, until a deadline.
final class Mailbox<Element: Sendable>: Sendable {
    private struct State {
        var items: [Element] = []
        var isClosed = false
        var waiter: (id: UInt64, continuation: CheckedContinuation<Element?, Never>)?
        var nextID: UInt64 = 0
    }

    private let state = Mutex(State())

    func put(_ element: Element) {
        let waiter = state.withLock { state in
            guard let waiter = state.waiter else {
                state.items.append(element)
                return CheckedContinuation<Element?, Never>?.none
            }
            state.waiter = nil
            return waiter.continuation
        }
        waiter?.resume(returning: element)
    }

    /// Nothing more will come.
    func close() {
        let waiter = state.withLock { state in
            state.isClosed = true
            defer { state.waiter = nil }
            return state.waiter?.continuation
        }
        waiter?.resume(returning: nil)
    }

    /// nil at the end, or when nothing has come in time. One taker at a time.
    func take(within limit: Duration) async -> Element? {
        await withCheckedContinuation { (continuation: CheckedContinuation<Element?, Never>) in
            let outcome: (now: Element?, isWaiting: UInt64?) = state.withLock { state in
                if !state.items.isEmpty { return (state.items.removeFirst(), nil) }
                guard !state.isClosed else { return (nil, nil) }
                state.nextID += 1
                state.waiter = (state.nextID, continuation)
                return (nil, state.nextID)
            }
            guard let id = outcome.isWaiting else { return continuation.resume(returning: outcome.now) }
            Task {
                try? await Task.sleep(for: limit)
                let late = state.withLock { state in
                    guard let waiter = state.waiter, waiter.id == id else { return CheckedContinuation<Element?, Never>?.none }
                    state.waiter = nil
                    return waiter.continuation
                }
                late?.resume(returning: nil)
            }
        }
    }
}
