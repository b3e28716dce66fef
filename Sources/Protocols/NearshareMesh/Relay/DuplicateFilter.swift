internal import NearshareBase
internal import NearshareCrypto

/// Identifies a packet for duplicate detection: by its id, and the fields that the id omits although a relay could change them.
/// A copy with another recipient or signature is therefore a different packet, and cannot suppress the original.
struct PacketKey: Hashable, Sendable {
    /// Tens of thousands are stored, so each takes 16 bytes.
    private let digest: MeshPacketID

    init(of packet: MeshPacket) {
        var bytes = MeshPacketID(of: packet).bytes
        // Otherwise one without a recipient, whose signature begins like it, would have the same key.
        bytes.append(packet.recipient == nil ? 0 : 1)
        if let recipient = packet.recipient { bytes += recipient.bytes }
        if let signature = packet.signature { bytes += signature.prefix(8) }
        digest = MeshPacketID(digest: SHA256Hasher.digest(bytes))
    }
}

/// The packets that were received recently.
///
/// During a flood, entries are removed early. Their packets must not be accepted again (M7), so from then on all packets are
/// refused whose timestamp is before the arrival of the last removed entry.
struct DuplicateFilter: Sendable {
    private struct Arrival: Sendable {
        var key: PacketKey
        var at: Moment
    }

    private var known: Set<PacketKey> = []
    private var arrivals: [Arrival] = []
    private var oldest = 0
    private let capacity: Int
    private let lifetime: Duration
    private(set) var horizon: WallTime?

    /// - Parameter lifetime: time for which packets are remembered; longer than any packet may be in transit.
    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { known.count }

    func contains(_ key: PacketKey) -> Bool { known.contains(key) }

    /// Whether a packet was sent before the horizon, so that the entry of an earlier copy may have been removed.
    func isForgotten(timestamp: UInt64) -> Bool {
        horizon.map { timestamp <= UInt64(max(0, $0.milliseconds)) } ?? false
    }

    mutating func insert(_ key: PacketKey, at moment: Moment) {
        while oldest < arrivals.count, moment.monotonic - arrivals[oldest].at.monotonic > lifetime { removeOldest() }
        guard known.insert(key).inserted else { return }
        if known.count > capacity {
            horizon = max(horizon ?? arrivals[oldest].at.wall, arrivals[oldest].at.wall)
            removeOldest()
        }
        arrivals.append(Arrival(key: key, at: moment))
    }

    private mutating func removeOldest() {
        known.remove(arrivals[oldest].key)
        oldest += 1
        // Compacting rarely costs less than moving the rest each time.
        if oldest > 1024, oldest * 2 > arrivals.count {
            arrivals.removeFirst(oldest)
            oldest = 0
        }
    }
}
