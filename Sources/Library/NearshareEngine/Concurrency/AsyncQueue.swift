internal import Synchronization

/// A queue between tasks. It has no bound of its own: who puts something in is held back by other means.
final class AsyncQueue<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var head = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let takers = AsyncCondition()

    /// Nothing happens any more once it is finished.
    func give(_ element: Element) {
        give(contentsOf: [element])
    }

    func give(contentsOf elements: [Element]) {
        guard !elements.isEmpty else { return }
        put(elements)
        wakeTakers()
    }

    /// For a caller with a lock that whoever takes them wants next: ``wakeTakers()`` is to follow without it.
    func put(_ elements: [Element]) {
        state.withLock { state in
            if !state.isFinished { state.elements += elements }
        }
    }

    func wakeTakers() {
        takers.wakeAll()
    }

    /// What nobody has taken, the oldest first.
    var waiting: [Element] { state.withLock { Array($0.elements[$0.head...]) } }

    var count: Int { state.withLock { $0.elements.count - $0.head } }

    /// - Returns: nil when it is finished and empty, or the task is cancelled.
    func take() async -> Element? {
        while true {
            let next: Element?? = state.withLock { state in
                if state.head < state.elements.count {
                    let element = state.elements[state.head]
                    state.head += 1
                    // Moving what is left once in a while costs less than moving it each time.
                    if state.head == state.elements.count || state.head > 1024, state.head * 2 >= state.elements.count {
                        state.elements.removeFirst(state.head)
                        state.head = 0
                    }
                    return .some(element)
                }
                return state.isFinished || Task.isCancelled ? .some(nil) : nil
            }
            if let next { return next }
            await takers.wait { [self] in state.withLock { $0.isFinished || $0.head < $0.elements.count } }
        }
    }

    func finish() {
        state.withLock { $0.isFinished = true }
        takers.wakeAll()
    }
}
