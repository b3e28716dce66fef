internal import NearshareBase

/// What waits to be written to one link, by priority, so that chat and receipts never stand behind a file.
struct LinkOutbox {
    enum Priority: Int, CaseIterable {
        /// Of our own: handshakes, announcements, what is sealed and short.
        case urgent
        /// Public messages, and what is relayed whole: others' never stand before ours.
        case normal
        /// Fragments.
        case bulk
    }

    private struct Queue {
        private var frames: [[UInt8]] = []
        private var head = 0

        var isEmpty: Bool { head == frames.count }

        mutating func append(_ frame: [UInt8]) { frames.append(frame) }

        mutating func removeFirst() -> [UInt8]? {
            guard head < frames.count else { return nil }
            let frame = frames[head]
            frames[head] = []
            head += 1
            // Moving what is left once in a while costs less than moving it each time.
            if head == frames.count || (head > 1024 && head * 2 > frames.count) {
                frames.removeFirst(head)
                head = 0
            }
            return frame
        }
    }

    private var queues = [Queue](repeating: Queue(), count: Priority.allCases.count)
    private(set) var byteCounts = [Int](repeating: 0, count: Priority.allCases.count)
    /// Bytes of one priority that may wait; what comes on top is lost, as on the air.
    private static let limit = 8 << 20
    /// What a frame takes besides its bytes, so that many small ones are bounded too.
    private static let overhead = 64

    var isEmpty: Bool { byteCounts.allSatisfy { $0 == 0 } }

    /// Bytes of fragments that wait; while there are many, none of ours are added.
    var bulkByteCount: Int { byteCounts[Priority.bulk.rawValue] }

    /// - Returns: false when there was no room.
    @discardableResult
    mutating func append(_ frame: [UInt8], _ priority: Priority) -> Bool {
        guard byteCounts[priority.rawValue] + frame.count + Self.overhead <= Self.limit else { return false }
        byteCounts[priority.rawValue] += frame.count + Self.overhead
        queues[priority.rawValue].append(frame)
        return true
    }

    mutating func removeFirst() -> [UInt8]? {
        for priority in Priority.allCases {
            guard let frame = queues[priority.rawValue].removeFirst() else { continue }
            byteCounts[priority.rawValue] -= frame.count + Self.overhead
            return frame
        }
        return nil
    }
}
