internal import NearshareBase
internal import NearshareWire

/// What tells one packet from another: its name, and what the name leaves out although somebody could change it on the way.
/// A copy for somebody else, or with another signature, then never passes for the packet itself, and can't keep it out.
struct PacketKey: Hashable {
    let id: MeshPacketID
    private let recipient: PeerID?
    private let signature: ArraySlice<UInt8>?

    init(of packet: MeshPacket) {
        id = MeshPacketID(of: packet)
        recipient = packet.recipient
        signature = packet.signature?.prefix(8)
    }
}

/// Remembers which packets have come, so that each is dealt with once.
///
/// A flood makes it forget before time. What was forgotten must not come through again (M7), so from then on everything is
/// refused that claims to have been sent before the moment at which the last forgotten packet came.
struct DuplicateFilter {
    private struct Arrival {
        var key: PacketKey
        var at: MeshMoment
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

    mutating func insert(_ key: PacketKey, at moment: MeshMoment) {
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
