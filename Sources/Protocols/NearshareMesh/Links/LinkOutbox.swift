internal import NearshareBase

/// The frames that wait to be written to one link, by priority, so that messages and receipts never wait behind a file.
struct LinkOutbox: Sendable {
    enum Priority: Int, CaseIterable, Sendable {
        /// This node's handshakes, announcements and short sealed messages.
        case urgent
        /// Public messages, and relayed packets, which never wait in front of this node's own urgent ones.
        case normal
        /// Fragments.
        case bulk

        /// - Parameter isRelayed: the packet is another node's.
        init(of type: MeshPacketType, isRelayed: Bool) {
            switch type {
            case .fragment: self = .bulk
            case .announce, .noiseHandshake, .noiseEncrypted, .leave, .requestSync, .ping, .pong:
                self = isRelayed ? .normal : .urgent
            default: self = .normal
            }
        }
    }

    private struct Queue: Sendable {
        private(set) var byteCount = 0
        private var frames: [[UInt8]] = []
        private var head = 0

        mutating func append(_ frame: [UInt8]) {
            byteCount += frame.count + LinkOutbox.overhead
            frames.append(frame)
        }

        mutating func removeFirst() -> [UInt8]? {
            guard head < frames.count else { return nil }
            let frame = frames[head]
            frames[head] = []
            head += 1
            byteCount -= frame.count + LinkOutbox.overhead
            // Compacting once in a while costs less than moving the rest each time.
            if head == frames.count || (head > 1024 && head * 2 > frames.count) {
                frames.removeFirst(head)
                head = 0
            }
            return frame
        }
    }

    private var urgent = Queue()
    private var normal = Queue()
    private var bulk = Queue()

    var isEmpty: Bool { urgent.byteCount + normal.byteCount + bulk.byteCount == 0 }

    /// Size of the waiting fragments; while it is large, this node adds none.
    var bulkByteCount: Int { bulk.byteCount }

    /// - Returns: false when there was no room: the frame is lost, as on a radio link.
    @discardableResult
    mutating func append(_ frame: [UInt8], priority: Priority) -> Bool {
        switch priority {
        case .urgent: Self.append(frame, to: &urgent)
        case .normal: Self.append(frame, to: &normal)
        case .bulk: Self.append(frame, to: &bulk)
        }
    }

    mutating func removeFirst() -> [UInt8]? { urgent.removeFirst() ?? normal.removeFirst() ?? bulk.removeFirst() }

    private static func append(_ frame: [UInt8], to queue: inout Queue) -> Bool {
        guard queue.byteCount + frame.count + overhead <= capacity else { return false }
        queue.append(frame)
        return true
    }

    /// Limit on the bytes of one priority.
    private static let capacity = 8 << 20
    /// Memory for a frame besides its bytes, so that many small ones are bounded too.
    private static let overhead = 64
}
