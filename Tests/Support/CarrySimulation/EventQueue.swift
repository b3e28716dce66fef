/// What happens next: a binary heap, first in first out for one moment.
struct EventQueue<Event> {
    private var entries: [(at: Int64, order: UInt64, event: Event)] = []
    private var order: UInt64 = 0

    var next: Int64? { entries.first?.at }

    mutating func insert(_ event: Event, at: Int64) {
        order += 1
        entries.append((at, order, event))
        var child = entries.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() -> (at: Int64, event: Event) {
        let first = entries[0]
        let last = entries.removeLast()
        if !entries.isEmpty {
            entries[0] = last
            var parent = 0
            while true {
                var smallest = parent
                for child in [2 * parent + 1, 2 * parent + 2] where child < entries.count && isBefore(child, smallest) {
                    smallest = child
                }
                guard smallest != parent else { break }
                entries.swapAt(parent, smallest)
                parent = smallest
            }
        }
        return (first.at, first.event)
    }

    private func isBefore(_ a: Int, _ b: Int) -> Bool {
        entries[a].at != entries[b].at ? entries[a].at < entries[b].at : entries[a].order < entries[b].order
    }
}
