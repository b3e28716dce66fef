/// A priority queue of events: a binary heap. Events at the same time are returned in insertion order.
///
/// Times are nanoseconds of the simulation's clock.
struct EventQueue<Event> {
    /// Holds the slots of events, because sifting moves entries often and events are large.
    private var heap: [(time: Int64, sequenceNumber: UInt64, slot: Int)] = []
    private var events: [Event?] = []
    private var freeSlots: [Int] = []
    private var lastSequenceNumber: UInt64 = 0

    /// The time of the earliest event.
    var nextTime: Int64? { heap.first?.time }

    mutating func insert(_ event: Event, at time: Int64) {
        lastSequenceNumber += 1
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
            events[slot] = event
        } else {
            slot = events.count
            events.append(event)
        }
        heap.append((time, lastSequenceNumber, slot))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the earliest event. The queue must not be empty.
    mutating func removeMin() -> (time: Int64, event: Event) {
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
        freeSlots.append(first.slot)
        // Safe: each entry of the heap has a slot of its own, filled by `insert`.
        return (first.time, events[first.slot].take()!)
    }

    private func isBefore(_ a: Int, _ b: Int) -> Bool {
        heap[a].time != heap[b].time ? heap[a].time < heap[b].time : heap[a].sequenceNumber < heap[b].sequenceNumber
    }
}
