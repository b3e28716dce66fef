internal import NearshareBase

/// The packets received within ``lifetime``, at most ``capacity``.
///
/// A flood makes the filter drop keys early. Their packets must not be accepted again (M7), so from then on every packet is
/// refused whose timestamp is before the arrival of the last dropped one. The sender's clock is compared with this node's:
/// while a flood lasts, genuine packets of a sender whose clock lags are refused as well.
struct DuplicateFilter: Sendable {
    private struct Arrival: Sendable {
        var key: PacketKey
        var arrival: Moment
    }

    private var known: Set<PacketKey> = []
    private var arrivals: [Arrival] = []
    private var oldestIndex = 0
    private let capacity: Int
    private let lifetime: Duration
    /// Packets with this timestamp or an earlier one are refused; nil before the first key was dropped early.
    private(set) var latestRefusedTimestamp: WallTime?

    /// - Parameter lifetime: time for which packets are remembered; longer than any packet may be in transit.
    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { known.count }

    func contains(_ key: PacketKey) -> Bool { known.contains(key) }

    /// Whether a packet with this timestamp may be a copy of one whose key was dropped.
    /// - Parameter timestamp: milliseconds since 1970, as the sender claims.
    func isBeforeWindow(timestamp: UInt64) -> Bool {
        latestRefusedTimestamp.map { timestamp <= $0.unixMilliseconds } ?? false
    }

    mutating func insert(_ key: PacketKey, at moment: Moment) {
        while oldestIndex < arrivals.count, moment.monotonic - arrivals[oldestIndex].arrival.monotonic > lifetime {
            removeOldest()
        }
        guard known.insert(key).inserted else { return }
        if known.count > capacity {
            latestRefusedTimestamp = max(
                latestRefusedTimestamp ?? arrivals[oldestIndex].arrival.wall, arrivals[oldestIndex].arrival.wall)
            removeOldest()
        }
        arrivals.append(Arrival(key: key, arrival: moment))
    }

    private mutating func removeOldest() {
        known.remove(arrivals[oldestIndex].key)
        oldestIndex += 1
        // Compacting rarely costs less than moving the rest each time.
        if oldestIndex > 1024, oldestIndex * 2 > arrivals.count {
            arrivals.removeFirst(oldestIndex)
            oldestIndex = 0
        }
    }
}
