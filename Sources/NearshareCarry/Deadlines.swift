internal import NearshareBase

/// Things to be done at a moment, the next one first: a binary heap.
struct Deadlines<Element: Sendable>: Sendable {
    private var entries: [(at: MonotonicInstant, element: Element)] = []

    var next: MonotonicInstant? { entries.first?.at }
    var byteCount: Int { entries.capacity * MemoryLayout<(MonotonicInstant, Element)>.stride }

    mutating func insert(_ element: Element, at moment: MonotonicInstant) {
        entries.append((moment, element))
        var child = entries.count - 1
        while child > 0, entries[child].at < entries[(child - 1) / 2].at {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The next thing that is due at `now`.
    mutating func removeDue(_ now: MonotonicInstant) -> Element? {
        guard let first = entries.first, first.at <= now else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.element }
        entries[0] = last
        var parent = 0
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child].at < entries[smallest].at {
                smallest = child
            }
            guard smallest != parent else { return first.element }
            entries.swapAt(parent, smallest)
            parent = smallest
        }
    }
}

/// So many in a while, and no more.
struct Allowance: Sendable {
    private var left: Double
    private var filled: MonotonicInstant
    private let capacity: Double
    private let perSecond: Double

    init(capacity: Double, perSecond: Double, now: MonotonicInstant) {
        left = capacity
        filled = now
        self.capacity = capacity
        self.perSecond = perSecond
    }

    /// - Returns: false when none is left.
    mutating func take(now: MonotonicInstant) -> Bool {
        left = min(capacity, left + (now - filled).inSeconds * perSecond)
        filled = now
        guard left >= 1 else { return false }
        left -= 1
        return true
    }
}
