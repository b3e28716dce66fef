internal import NearshareBase

/// Remembers which packets have come, so that each is dealt with once.
///
/// A flood makes it forget before time. What was forgotten must not come through again (M7), so from then on everything is
/// refused that claims to have been sent before the moment at which the last forgotten packet came.
struct DuplicateFilter {
    private struct Arrival {
        var id: MeshPacketID
        var at: MeshMoment
    }

    private var known: Set<MeshPacketID> = []
    private var arrivals: [Arrival] = []
    private var oldest = 0
    private let capacity: Int
    private let lifetime: Duration
    private(set) var horizon: WallTime?

    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    func contains(_ id: MeshPacketID) -> Bool { known.contains(id) }

    /// Sent before the horizon: whether it has come already can't be told any more.
    func isForgotten(timestamp: UInt64) -> Bool {
        horizon.map { timestamp <= UInt64(max(0, $0.milliseconds)) } ?? false
    }

    mutating func insert(_ id: MeshPacketID, at moment: MeshMoment) {
        while oldest < arrivals.count, moment.monotonic - arrivals[oldest].at.monotonic > lifetime { removeOldest() }
        guard known.insert(id).inserted else { return }
        if known.count > capacity {
            horizon = max(horizon ?? arrivals[oldest].at.wall, arrivals[oldest].at.wall)
            removeOldest()
        }
        arrivals.append(Arrival(id: id, at: moment))
    }

    private mutating func removeOldest() {
        known.remove(arrivals[oldest].id)
        oldest += 1
        // Moving what is left once in a while costs less than moving it each time.
        if oldest > 1024, oldest * 2 > arrivals.count {
            arrivals.removeFirst(oldest)
            oldest = 0
        }
    }
}
