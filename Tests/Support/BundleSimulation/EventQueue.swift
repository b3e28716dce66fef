/// A priority queue of events: a binary heap, first in first out for one moment.
struct EventQueue<Event> {
    /// Without the events themselves, as the heap moves its entries often.
    private var heap: [(at: Int64, order: UInt64, place: Int)] = []
    private var events: [Event?] = []
    private var freePlaces: [Int] = []
    private var order: UInt64 = 0

    var next: Int64? { heap.first?.at }

    mutating func insert(_ event: Event, at: Int64) {
        order += 1
        let place: Int
        if let free = freePlaces.popLast() {
            place = free
            events[place] = event
        } else {
            place = events.count
            events.append(event)
        }
        heap.append((at, order, place))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() -> (at: Int64, event: Event) {
        let first = heap[0]
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var smallest = parent
                for child in 2 * parent + 1...2 * parent + 2 where child < heap.count && isBefore(child, smallest) {
                    smallest = child
                }
                guard smallest != parent else { break }
                heap.swapAt(parent, smallest)
                parent = smallest
            }
        }
        freePlaces.append(first.place)
        return (first.at, events[first.place].take()!)
    }

    private func isBefore(_ a: Int, _ b: Int) -> Bool {
        heap[a].at != heap[b].at ? heap[a].at < heap[b].at : heap[a].order < heap[b].order
    }
}
