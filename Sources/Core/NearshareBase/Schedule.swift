/// Things to be done at a moment, the next one first: a binary heap.
package struct Schedule<Element: Sendable>: Sendable {
    /// Moments and places alone, as the heap moves them about much.
    private var heap: [(at: MonotonicInstant, place: Int)] = []
    private var elements: [Element?] = []
    private var freePlaces: [Int] = []

    /// With no deadline.
    package init() {}

    /// When the next thing is due; nil when there is none.
    package var next: MonotonicInstant? { heap.first?.at }
    /// Things to be done.
    package var count: Int { heap.count }
    /// Of memory that it holds.
    package var byteCount: Int {
        heap.capacity * MemoryLayout<(MonotonicInstant, Int)>.stride + elements.capacity * MemoryLayout<Element?>.stride
            + freePlaces.capacity * MemoryLayout<Int>.stride
    }

    /// Adds a thing to be done at `moment`, or as soon after it as somebody asks.
    package mutating func insert(_ element: Element, at moment: MonotonicInstant) {
        let place: Int
        if let free = freePlaces.popLast() {
            place = free
            elements[place] = element
        } else {
            place = elements.count
            elements.append(element)
        }
        heap.append((moment, place))
        var child = heap.count - 1
        while child > 0, heap[child].at < heap[(child - 1) / 2].at {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The next thing that is due at `now`.
    package mutating func removeDue(_ now: MonotonicInstant) -> Element? {
        guard let first = heap.first, first.at <= now else { return nil }
        removeFirst()
        let element = elements[first.place].take()
        freePlaces.append(first.place)
        if elements.count >= Self.spareCount, elements.count > 4 * heap.count { shrink() }
        return element
    }

    /// What was needed for a flood is not kept.
    private mutating func shrink() {
        elements = heap.map { elements[$0.place] }
        heap = heap.enumerated().map { ($1.at, $0) }
        freePlaces = []
    }

    private static var spareCount: Int { 16 }

    private mutating func removeFirst() {
        let last = heap.removeLast()
        guard !heap.isEmpty else { return }
        heap[0] = last
        var parent = 0
        while true {
            var smallest = parent
            for child in 2 * parent + 1...2 * parent + 2 where child < heap.count && heap[child].at < heap[smallest].at {
                smallest = child
            }
            guard smallest != parent else { return }
            heap.swapAt(parent, smallest)
            parent = smallest
        }
    }
}
