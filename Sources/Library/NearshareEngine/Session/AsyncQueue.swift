internal import NearshareInterfaces
internal import Synchronization

/// A FIFO queue between tasks, without a bound of its own: the caller holds producers back by other means.
///
/// It is in the module of its user, so that it is specialized: across modules, each message would look up its types at run time.
final class AsyncQueue<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var head = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let arrival = AsyncCondition()

    init() {}

    /// Appends an element and resumes the receiver. No effect after ``finish()``.
    func enqueue(_ element: Element) {
        append(contentsOf: [element])
        notifyReceivers()
    }

    /// Appends elements without resuming the receiver: for a caller that holds a lock which the receiver takes next.
    /// ``notifyReceivers()`` must follow after the lock is released.
    func append(contentsOf elements: [Element]) {
        state.withLock { state in
            if !state.isFinished { state.elements += elements }
        }
    }

    /// Resumes the receivers after ``append(contentsOf:)``.
    func notifyReceivers() {
        arrival.notifyAll()
    }

    /// The elements that are not dequeued yet, oldest first.
    var elements: [Element] { state.withLock { Array($0.elements[$0.head...]) } }

    /// The number of elements that are not dequeued yet.
    var count: Int { state.withLock { $0.elements.count - $0.head } }

    /// Waits for the next element.
    /// - Returns: nil when the queue is finished and empty, or the task is cancelled.
    func dequeue() async -> Element? {
        while true {
            let next: Element?? = state.withLock { state in
                if state.head < state.elements.count {
                    let element = state.elements[state.head]
                    state.head += 1
                    // Compacts rarely: moving the rest on every call would cost more.
                    if state.head == state.elements.count || state.head > 1024, state.head * 2 >= state.elements.count {
                        state.elements.removeFirst(state.head)
                        state.head = 0
                    }
                    return .some(element)
                }
                return state.isFinished || Task.isCancelled ? .some(nil) : nil
            }
            if let next { return next }
            await arrival.wait { [self] in state.withLock { $0.isFinished || $0.head < $0.elements.count } }
        }
    }

    /// Ends the queue: receivers get the elements that are left, then nil.
    func finish() {
        state.withLock { $0.isFinished = true }
        arrival.notifyAll()
    }
}
