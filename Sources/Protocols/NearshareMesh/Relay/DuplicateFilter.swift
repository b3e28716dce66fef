internal import NearshareBase

/// The packets received within ``lifetime``, at most ``capacity``.
///
/// A flood makes the filter drop keys early. Their packets must not be accepted again (M7), so for ``lifetime`` every packet is
/// rejected whose timestamp is not after the arrival of the last dropped one. The sender's clock is compared with this node's:
/// meanwhile genuine packets of a sender whose clock lags are rejected as well, and a copy of a packet whose sender's clock is
/// ahead can be accepted once more. Timestamps are not used as the bound: a flood could claim times ahead.
struct DuplicateFilter: Sendable {
    private struct Arrival: Sendable {
        var key: PacketKey
        var arrival: Moment
    }

    /// The ttl with which each packet was last relayed; 0 for one that was not.
    private var known: [PacketKey: UInt8] = [:]
    private var arrivals: [Arrival] = []
    private var oldestIndex = 0
    private let capacity: Int
    private let lifetime: Duration
    /// The latest arrival of a packet whose key was dropped early, and the time of the drop; nil before the first.
    private(set) var lastEarlyDrop: (arrival: WallTime, time: MonotonicInstant)?

    /// - Parameter lifetime: time for which packets are remembered; longer than any packet may be in transit.
    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { known.count }

    func contains(_ key: PacketKey) -> Bool { known[key] != nil }

    /// The ttl with which a packet was last relayed, 0 if it was not; nil for an unknown packet.
    func relayedTTL(of key: PacketKey) -> UInt8? { known[key] }

    /// Records that a packet is relayed with a ttl. Has no effect on an unknown packet.
    mutating func recordRelay(of key: PacketKey, ttl: UInt8) {
        if known[key] != nil { known[key] = ttl }
    }

    /// Whether a packet with this timestamp may be a copy of one whose key was dropped.
    /// - Parameter timestamp: milliseconds since 1970, as the sender claims.
    func mayBeReplay(timestamp: UInt64, now: MonotonicInstant) -> Bool {
        guard let drop = lastEarlyDrop, now - drop.time <= lifetime else { return false }
        return timestamp <= drop.arrival.unixMilliseconds
    }

    mutating func insert(_ key: PacketKey, at moment: Moment) {
        while oldestIndex < arrivals.count, moment.monotonic - arrivals[oldestIndex].arrival.monotonic > lifetime {
            removeOldest()
        }
        guard known[key] == nil else { return }
        known[key] = 0
        if known.count > capacity {
            lastEarlyDrop = (arrivals[oldestIndex].arrival.wall, moment.monotonic)
            removeOldest()
        }
        arrivals.append(Arrival(key: key, arrival: moment))
    }

    private mutating func removeOldest() {
        known[arrivals[oldestIndex].key] = nil
        oldestIndex += 1
        // Compacting rarely costs less than moving the rest each time.
        if oldestIndex > 1024, oldestIndex * 2 > arrivals.count {
            arrivals.removeFirst(oldestIndex)
            oldestIndex = 0
        }
    }
}
