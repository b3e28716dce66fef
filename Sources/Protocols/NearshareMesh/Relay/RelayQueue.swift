internal import NearshareBase

/// Packets of other nodes that wait for their relay delay to pass (bitchat specification, section 5.1).
struct RelayQueue: Sendable {
    /// A packet that is due, and the links to write it to.
    struct Relay: Sendable {
        let frame: [UInt8]
        /// The packet without its payload, which is in the frame.
        let packet: MeshPacket
        let links: [MeshLinkID]
        let arrival: MeshLinkID
        /// Whether this node has checked the signature of its sender.
        let isAuthentic: Bool

        init(frame: [UInt8], packet: MeshPacket, links: [MeshLinkID], from arrival: MeshLinkID, isAuthentic: Bool = false) {
            self.frame = frame
            self.packet = packet.withoutPayload
            self.links = links
            self.arrival = arrival
            self.isAuthentic = isAuthentic
        }
    }

    private struct Entry: Sendable {
        var relay: Relay
        var key: PacketKey
        /// Counts towards ``byteCount``.
        var cost: Int
    }

    /// The changes to a waiting packet because of later copies.
    private struct Changes: Sendable {
        /// The links on which another copy was received.
        var copies: Set<MeshLinkID> = []
        /// A higher ttl than that of the frame.
        var ttl: UInt8?
        /// The links to write to instead.
        var links: [MeshLinkID]?
    }

    private var schedule = DeadlineQueue<Entry>()
    private var changes: [PacketKey: Changes] = [:]
    /// When the waiting announcements of each sender are due.
    private var announcements: [PeerID: MonotonicInstant] = [:]
    private(set) var byteCount = 0
    private var byteCounts: [MeshLinkID: Int] = [:]

    var count: Int { schedule.count }
    /// Number of waiting packets for which copies are recorded.
    var recordCount: Int { changes.count }
    var deadline: MonotonicInstant? { schedule.nextDeadline }

    /// Whether another frame of this size fits into the share of the link on which it was received.
    func hasRoom(for frame: ArraySlice<UInt8>, from link: MeshLinkID) -> Bool {
        let waiting = byteCounts[link] ?? 0
        let cost = Self.cost(of: frame.count)
        return byteCount + cost <= Self.byteCapacity && (waiting == 0 || waiting + cost <= Self.byteCapacityPerLink)
    }

    /// - Parameter due: the end of the relay delay; later where it would overtake an announcement of the same sender, without which
    ///   the next node cannot check it.
    mutating func insert(_ relay: Relay, _ key: PacketKey, due: MonotonicInstant) {
        let sender = relay.packet.sender
        let due = announcements[sender].map { max(due, $0 + .nanoseconds(1)) } ?? due
        if relay.packet.type == .announce { announcements[sender] = due }
        let cost = Self.cost(of: relay.frame.count)
        byteCount += cost
        byteCounts[relay.arrival, default: 0] += cost
        changes[key] = Changes()
        schedule.insert(Entry(relay: relay, key: key, cost: cost), at: due)
    }

    /// Records that the neighbour behind a link has a waiting packet already, because it sent a copy.
    mutating func recordCopy(_ key: PacketKey, on link: MeshLinkID) { changes[key]?.copies.insert(link) }

    /// Raises the ttl of a waiting packet, of which a copy with a higher one was received.
    /// - Parameter links: the links to write to, also to neighbours that have sent copies with lower ttls; nil for those that do not
    ///   have the packet yet.
    /// - Returns: false when the packet does not wait.
    mutating func raiseTTL(of key: PacketKey, to ttl: UInt8, links: [MeshLinkID]?) -> Bool {
        guard changes[key] != nil else { return false }
        changes[key]?.ttl = ttl
        if let links {
            changes[key]?.links = links
            changes[key]?.copies = []
        }
        return true
    }

    /// Removes the next packet that is due, without the links whose neighbours have sent it in the meantime. A link joins two
    /// nodes, so all others may still lack it.
    mutating func popDue(now: MonotonicInstant) -> Relay? {
        guard let entry = schedule.popDue(now) else { return nil }
        let relay = entry.relay
        byteCount -= entry.cost
        if relay.packet.type == .announce, let due = announcements[relay.packet.sender], due <= now {
            announcements[relay.packet.sender] = nil
        }
        let waiting = (byteCounts[relay.arrival] ?? 0) - entry.cost
        byteCounts[relay.arrival] = waiting > 0 ? waiting : nil
        let changes = changes.removeValue(forKey: entry.key) ?? Changes()
        var (frame, packet) = (relay.frame, relay.packet)
        if let ttl = changes.ttl {
            frame[MeshFrame.ttlIndex] = ttl
            packet.ttl = ttl
        }
        return Relay(
            frame: frame, packet: packet, links: (changes.links ?? relay.links).filter { !changes.copies.contains($0) },
            from: relay.arrival, isAuthentic: relay.isAuthentic)
    }

    private static func cost(of size: Int) -> Int { size + overhead }

    private static let byteCapacity = 8 << 20
    /// Share of one link: as many as there are links fit together.
    private static let byteCapacityPerLink = 512 << 10
    /// Memory for a waiting packet besides its bytes.
    private static let overhead = 512
}
