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

    private var schedule = DeadlineQueue<Entry>()
    /// The links on which another copy of each waiting packet was received.
    private(set) var copies: [PacketKey: Set<MeshLinkID>] = [:]
    /// When the waiting announcements of each sender are due.
    private var announcements: [PeerID: MonotonicInstant] = [:]
    private(set) var byteCount = 0
    private var byteCounts: [MeshLinkID: Int] = [:]

    var count: Int { schedule.count }
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
        copies[key] = []
        schedule.insert(Entry(relay: relay, key: key, cost: cost), at: due)
    }

    /// Records that the neighbour behind a link has a waiting packet already, because it sent a copy.
    mutating func recordCopy(_ key: PacketKey, on link: MeshLinkID) { copies[key]?.insert(link) }

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
        let senders = copies.removeValue(forKey: entry.key) ?? []
        return Relay(
            frame: relay.frame, packet: relay.packet, links: relay.links.filter { !senders.contains($0) }, from: relay.arrival,
            isAuthentic: relay.isAuthentic)
    }

    private static func cost(of size: Int) -> Int { size + overhead }

    private static let byteCapacity = 8 << 20
    /// Share of one link: as many as there are links fit together.
    private static let byteCapacityPerLink = 512 << 10
    /// Memory for a waiting packet besides its bytes.
    private static let overhead = 512
}
