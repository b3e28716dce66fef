internal import NearshareBase

/// Packets of other nodes that wait for their relay delay to pass (bitchat specification, section 5.1).
struct RelayQueue: Sendable {
    /// A packet that is due, and the links to write it to.
    struct Relay: Sendable {
        let frame: [UInt8]
        let packet: MeshPacket
        let links: [MeshLinkID]
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
    private(set) var byteCount = 0

    var count: Int { schedule.count }
    var deadline: MonotonicInstant? { schedule.nextDeadline }

    /// Whether another frame of this size fits.
    func hasRoom(for frame: ArraySlice<UInt8>) -> Bool { byteCount + Self.cost(of: frame.count) <= Self.byteCapacity }

    /// - Parameter size: bytes of the received frame, without padding.
    mutating func insert(_ relay: Relay, _ key: PacketKey, size: Int, due: MonotonicInstant) {
        let cost = Self.cost(of: size)
        byteCount += cost
        copies[key] = []
        schedule.insert(Entry(relay: relay, key: key, cost: cost), at: due)
    }

    /// Records that the neighbour behind a link has a waiting packet already, because it sent a copy.
    mutating func recordCopy(_ key: PacketKey, on link: MeshLinkID) { copies[key]?.insert(link) }

    /// Removes the next packet that is due, without the links whose neighbours have sent it in the meantime. A link joins two
    /// nodes, so all others may still lack it.
    mutating func popDue(now: MonotonicInstant) -> Relay? {
        guard let entry = schedule.popDue(now) else { return nil }
        byteCount -= entry.cost
        let senders = copies.removeValue(forKey: entry.key) ?? []
        return Relay(
            frame: entry.relay.frame, packet: entry.relay.packet, links: entry.relay.links.filter { !senders.contains($0) })
    }

    private static func cost(of size: Int) -> Int { size + overhead }

    private static let byteCapacity = 8 << 20
    /// Memory for a waiting packet besides its bytes.
    private static let overhead = 512
}
