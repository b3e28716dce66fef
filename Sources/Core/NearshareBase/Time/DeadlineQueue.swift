/// A priority queue ordered by deadline: a binary heap.
@usableFromInline package struct DeadlineQueue<Element: Sendable>: Sendable {
    /// Deadlines with the slots of their elements, so that moving within the heap never moves an element.
    @usableFromInline var heap: [(deadline: MonotonicInstant, slot: Int)] = []
    @usableFromInline var elements: [Element?] = []
    @usableFromInline var freeSlots: [Int] = []

    /// Creates an empty queue.
    @inlinable
    package init() {}

    /// The earliest deadline; nil when the queue is empty.
    @inlinable
    package var nextDeadline: MonotonicInstant? { heap.first?.deadline }

    /// The number of elements.
    @inlinable
    package var count: Int { heap.count }

    /// The bytes of memory allocated for heap, elements and free slots.
    package var byteCount: Int {
        heap.capacity * MemoryLayout<(MonotonicInstant, Int)>.stride + elements.capacity * MemoryLayout<Element?>.stride
            + freeSlots.capacity * MemoryLayout<Int>.stride
    }

    /// Adds an element that becomes due at `deadline`.
    @inlinable
    package mutating func insert(_ element: Element, at deadline: MonotonicInstant) {
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
            elements[slot] = element
        } else {
            slot = elements.count
            elements.append(element)
        }
        heap.append((deadline, slot))
        var child = heap.count - 1
        while child > 0, heap[child].deadline < heap[(child - 1) / 2].deadline {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the element with the earliest deadline if that is not after `now`.
    @inlinable
    package mutating func popDue(_ now: MonotonicInstant) -> Element? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        removeFirst()
        let element = elements[first.slot].take()
        freeSlots.append(first.slot)
        if elements.count >= Self.shrinkThreshold, elements.count > 4 * heap.count { shrink() }
        return element
    }

    /// Releases the memory that a burst of elements needed.
    @inlinable
    mutating func shrink() {
        elements = heap.map { elements[$0.slot] }
        heap = heap.enumerated().map { ($1.deadline, $0) }
        freeSlots = []
    }

    @inlinable
    static var shrinkThreshold: Int { 16 }

    @inlinable
    mutating func removeFirst() {
        let last = heap.removeLast()
        guard !heap.isEmpty else { return }
        heap[0] = last
        var parent = 0
        while true {
            var smallest = parent
            for child in 2 * parent + 1...2 * parent + 2 where child < heap.count {
                if heap[child].deadline < heap[smallest].deadline { smallest = child }
            }
            guard smallest != parent else { return }
            heap.swapAt(parent, smallest)
            parent = smallest
        }
    }
}
