internal import NearshareBase

/// Things to be done at a moment, the next one first: a binary heap.
struct Schedule<Element: Sendable>: Sendable {
    /// Moments and places alone, as the heap moves them about much.
    private var heap: [(at: MonotonicInstant, place: Int)] = []
    private var elements: [Element?] = []
    private var freePlaces: [Int] = []

    var next: MonotonicInstant? { heap.first?.at }
    var count: Int { heap.count }

    mutating func insert(_ element: Element, at moment: MonotonicInstant) {
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
    mutating func removeDue(_ now: MonotonicInstant) -> Element? {
        guard let first = heap.first, first.at <= now else { return nil }
        removeFirst()
        guard !heap.isEmpty else {
            // What was needed for a flood is not kept.
            defer { (elements, freePlaces) = ([], []) }
            return elements[first.place]
        }
        freePlaces.append(first.place)
        return elements[first.place].take()
    }

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

/// So many in a while, and no more.
struct TokenBucket {
    private var tokens: Double
    private var filled: MonotonicInstant
    private let capacity: Double
    private let perSecond: Double

    init(capacity: Double, perSecond: Double, now: MonotonicInstant) {
        tokens = capacity
        filled = now
        self.capacity = capacity
        self.perSecond = perSecond
    }

    /// - Returns: false when none is left.
    mutating func take(now: MonotonicInstant) -> Bool {
        tokens = min(capacity, tokens + (now - filled).inSeconds * perSecond)
        filled = now
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// What something turned out to cost besides; it may be more than is left, and is then paid back before anything else.
    mutating func charge(_ cost: Double) { tokens -= cost }
}

/// At most so many within the time that has just passed.
struct RateWindow {
    private var moments: [MonotonicInstant] = []

    /// - Returns: false when there were too many.
    mutating func take(atMost count: Int, within duration: Duration, now: MonotonicInstant) -> Bool {
        moments.removeAll { now - $0 >= duration }
        guard moments.count < count else { return false }
        moments.append(now)
        return true
    }
}
