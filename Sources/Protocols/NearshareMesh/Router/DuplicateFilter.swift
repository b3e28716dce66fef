internal import NearshareBase
internal import NearshareCrypto

/// What tells one packet from another: its id, and what the id leaves out although somebody could change it on the way.
/// A copy for somebody else, or with another signature, then never passes for the packet itself, and can't keep it out.
struct PacketKey: Hashable {
    /// Tens of thousands are kept, so they are 16 bytes each.
    private let digest: MeshPacketID

    init(of packet: MeshPacket) {
        var bytes = MeshPacketID(of: packet).bytes
        // Or one without a recipient, but with a signature that begins like it, would pass for it.
        bytes.append(packet.recipient == nil ? 0 : 1)
        if let recipient = packet.recipient { bytes += recipient.bytes }
        if let signature = packet.signature { bytes += signature.prefix(8) }
        digest = MeshPacketID(bytes: SHA256Hasher.digest(bytes).prefix(MeshPacketID.byteCount))!
    }
}

/// Remembers which packets have come, so that each is dealt with once.
///
/// A flood makes it forget before time. What was forgotten must not come through again (M7), so from then on everything is
/// refused that claims to have been sent before the moment at which the last forgotten packet came.
struct DuplicateFilter {
    private struct Arrival {
        var key: PacketKey
        var at: Moment
    }

    private var known: Set<PacketKey> = []
    private var arrivals: [Arrival] = []
    private var oldest = 0
    private let capacity: Int
    private let lifetime: Duration
    private(set) var horizon: WallTime?

    /// - Parameter lifetime: longer than any packet may be under way.
    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { known.count }

    func contains(_ key: PacketKey) -> Bool { known.contains(key) }

    /// Sent before the horizon: whether it has come already can't be told any more.
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
        // Moving what is left once in a while costs less than moving it each time.
        if oldest > 1024, oldest * 2 > arrivals.count {
            arrivals.removeFirst(oldest)
            oldest = 0
        }
    }
}
