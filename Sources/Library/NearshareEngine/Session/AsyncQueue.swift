internal import NearshareInterfaces
internal import Synchronization

/// A FIFO queue between tasks. Its bound is up to the caller, who holds producers back or gives ``enqueue(_:limit:)`` a limit.
///
/// The queue is in the module of its user, so that its generics are specialized: across modules, each message would look up its
/// types at run time.
final class AsyncQueue<Element: Sendable>: Sendable {
    /// The bound of a queue whose producers are not held back.
    enum Limit: Sendable {
        case droppingOldest(beyond: Int)
        case droppingNewest(beyond: Int)
    }

    private struct State {
        /// nil for those that were dequeued: nothing holds them any more.
        var elements: [Element?] = []
        var head = 0
        /// Elements that were enqueued so far, dequeued ones included.
        var enqueuedCount: UInt64 = 0
        var isFinished = false

        var count: Int { elements.count - head }
        var first: Element? { count > 0 ? elements[head] : nil }

        mutating func append(_ new: [Element]) {
            for element in new { elements.append(element) }
            enqueuedCount += UInt64(new.count)
        }

        mutating func removeFirst() -> Element? {
            guard let element = first else { return nil }
            elements[head] = nil
            head += 1
            // Compacts rarely: moving the rest on every call would cost more.
            if head == elements.count || head > 1024, head * 2 >= elements.count {
                elements.removeFirst(head)
                head = 0
            }
            return element
        }
    }

    private let state = Mutex(State())
    private let arrival = AsyncCondition(polls: true)
    /// nil where the caller bounds the queue.
    private let limit: Limit?

    /// - Parameter limit: the limit of ``enqueue(_:)``; nil for none.
    init(limit: Limit? = nil) {
        self.limit = limit
    }

    /// The elements, for one reader at a time. A reader that is cancelled ends its own sequence, and not the queue.
    var stream: AsyncStream<Element> { AsyncStream(unfolding: { [self] in await dequeue() }) }

    /// Appends an element and resumes the reader. No effect after ``finish()``.
    func enqueue(_ element: Element) {
        if let limit { return enqueue(element, limit: limit) }
        append(contentsOf: [element])
        notifyReaders()
    }

    /// Appends elements without resuming the reader: for a caller that holds a lock which the reader takes next.
    /// ``notifyReaders()`` must follow after the lock is released.
    func append(contentsOf elements: [Element]) {
        state.withLock { state in
            if !state.isFinished { state.append(elements) }
        }
    }

    /// Appends an element to a bounded queue and resumes the reader. No effect after ``finish()``.
    func enqueue(_ element: Element, limit: Limit) {
        // Deallocated outside the lock: the deinit of an invitation declines it.
        let dropped: Element? = state.withLock { state in
            guard !state.isFinished else { return nil }
            var dropped: Element?
            switch limit {
            case .droppingOldest(let count): if state.count >= count { dropped = state.removeFirst() }
            case .droppingNewest(let count): if state.count >= count { return nil }
            }
            state.append([element])
            return dropped
        }
        withExtendedLifetime(dropped) { notifyReaders() }
    }

    /// Resumes the readers after ``append(contentsOf:)``.
    func notifyReaders() {
        arrival.notifyAll()
    }

    /// The elements that are not dequeued yet, oldest first.
    var elements: [Element] { state.withLock { $0.elements[$0.head...].compactMap(\.self) } }

    /// The number of elements that are not dequeued yet.
    var count: Int { state.withLock(\.count) }

    /// The oldest element that is not dequeued yet.
    var first: Element? { state.withLock(\.first) }

    /// Elements that were enqueued so far.
    var enqueuedCount: UInt64 { state.withLock(\.enqueuedCount) }

    /// Elements that were dequeued so far, those included that were removed, or dropped as the oldest.
    var dequeuedCount: UInt64 { state.withLock { $0.enqueuedCount - UInt64($0.count) } }

    /// Whether no more elements are enqueued.
    var isFinished: Bool { state.withLock(\.isFinished) }

    /// Returns the oldest element if it is the one to dequeue; nil otherwise, and when there is none.
    func dequeueWithoutWaiting(where isWanted: (Element) -> Bool = { _ in true }) -> Element? {
        state.withLock { state in state.first.map(isWanted) == true ? state.removeFirst() : nil }
    }

    /// Waits for the next element.
    /// - Returns: nil when the queue is finished and empty, or the task is cancelled.
    func dequeue() async -> Element? {
        while true {
            let next: Element?? = state.withLock { state in
                if let element = state.removeFirst() { return .some(element) }
                return state.isFinished || Task.isCancelled ? .some(nil) : nil
            }
            if let next { return next }
            await arrival.wait { [self] in state.withLock { $0.isFinished || $0.count > 0 } }
        }
    }

    /// Removes the elements that a closure selects, in their order. They count as dequeued.
    func removeAll(where isRemoved: (Element) -> Bool) -> [Element] {
        state.withLock { state in
            let waiting = state.elements[state.head...].compactMap(\.self)
            let removed = waiting.filter(isRemoved)
            guard !removed.isEmpty else { return [] }
            state.elements = waiting.filter { !isRemoved($0) }
            state.head = 0
            return removed
        }
    }

    /// Ends the queue: readers get the elements that are left, then nil.
    func finish() {
        state.withLock { $0.isFinished = true }
        arrival.notifyAll()
    }
}
