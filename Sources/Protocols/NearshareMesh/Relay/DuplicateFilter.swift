internal import NearshareBase

/// The packets received within ``lifetime``, at most ``capacity``.
///
/// A full filter drops keys early: the oldest key of the source that has brought most. So each source keeps as many keys as its
/// equal part of the filter, and a flood costs only keys of packets that the flooding source was the first to bring.
///
/// A packet whose key was dropped early must not be accepted again from that source (M7). So for ``lifetime`` after a drop, this
/// node rejects every packet from the source whose timestamp is not after the arrival of the last dropped packet. That compares
/// the sender's clock with this node's. If the sender's clock lags, genuine packets from the source are rejected meanwhile; if it
/// is ahead, a copy of a packet can be accepted once more. The bound is an arrival and no timestamp, because a flood could claim
/// times ahead.
///
/// Another source may bring a dropped packet once more, and its key then counts as that source's: each further copy costs an
/// attacker another host, or one that has closed its links meanwhile, and a flood over it. One bound for all sources would prevent
/// that, but a flood over one link would then make this node reject what comes over the others (M15).
struct DuplicateFilter: Sendable {
    private struct Arrival: Sendable {
        var key: PacketKey
        var moment: Moment
    }

    private struct EarlyDrop: Sendable {
        /// The latest arrival whose key was dropped.
        var arrival: WallTime
        /// The time of the drop.
        var time: MonotonicInstant
    }

    /// The ttl with which each packet was last relayed; 0 for a packet that was not relayed.
    private var known: [PacketKey: UInt8] = [:]
    /// The packets that each source was the first to bring, the oldest first. No list is empty.
    private var arrivals: [PacketSource: ArraySlice<Arrival>] = [:]
    /// The sources that have lost keys early.
    private var earlyDrops: [PacketSource: EarlyDrop] = [:]
    private let capacity: Int
    private let lifetime: Duration

    /// Limit on the sources with an early drop: more than there are links. Beyond it the earliest drop is forgotten, and its source may
    /// bring the dropped packets again.
    private static let maximumEarlyDropCount = 64

    /// - Parameter lifetime: time for which packets are remembered; longer than any packet may be in transit.
    init(capacity: Int, lifetime: Duration) {
        self.capacity = capacity
        self.lifetime = lifetime
    }

    var count: Int { known.count }

    /// Whether a source has lost keys before ``lifetime`` was over.
    var hasDroppedEarly: Bool { !earlyDrops.isEmpty }

    func contains(_ key: PacketKey) -> Bool { known[key] != nil }

    /// The ttl with which a packet was last relayed, 0 if it was not; nil for an unknown packet.
    func relayedTTL(of key: PacketKey) -> UInt8? { known[key] }

    /// Records that a packet is relayed with a ttl. Has no effect on an unknown packet.
    mutating func recordRelay(of key: PacketKey, ttl: UInt8) {
        if known[key] != nil { known[key] = ttl }
    }

    /// Whether a packet with this timestamp may be a copy of one from the same source whose key was dropped.
    /// - Parameter timestamp: milliseconds since 1970, as the sender claims.
    func mayBeReplay(timestamp: UInt64, from source: PacketSource, now: MonotonicInstant) -> Bool {
        guard let drop = earlyDrops[source], now - drop.time <= lifetime else { return false }
        return timestamp <= drop.arrival.unixMilliseconds
    }

    /// Records a received packet. Has no effect on a packet that is known.
    /// - Parameter source: the host that was the first to bring the packet.
    mutating func insert(_ key: PacketKey, from source: PacketSource, at moment: Moment) {
        removeExpired(now: moment.monotonic)
        guard known[key] == nil else { return }
        known[key] = 0
        arrivals[source, default: []].append(Arrival(key: key, moment: moment))
        if known.count > capacity { dropEarly(now: moment.monotonic) }
    }

    /// Counts the packets of a source towards ``PacketSource/gone``, so that there are at most two sources more than open links. What
    /// is dropped of these early binds no open link: a host that comes and goes has nothing rejected that others bring again.
    mutating func close(_ source: PacketSource) {
        guard let closed = arrivals.removeValue(forKey: source), let first = closed.first else { return }
        var gone = arrivals.removeValue(forKey: .gone) ?? []
        // Sorts only the packets that came since the first one of the source: a host may reconnect often.
        let start = gone.lastIndex { $0.moment.monotonic <= first.moment.monotonic }.map { $0 + 1 } ?? gone.startIndex
        let merged = (Array(gone[start...]) + Array(closed)).sorted { $0.moment.monotonic < $1.moment.monotonic }
        gone.removeSubrange(start...)
        gone.append(contentsOf: merged)
        arrivals[.gone] = gone
    }

    private mutating func removeExpired(now: MonotonicInstant) {
        while let source = arrivals.first(where: { _, arrivals in
            arrivals.first.map { now - $0.moment.monotonic > lifetime } ?? true
        })?.key {
            removeOldest(of: source)
        }
    }

    /// Removes the oldest packet of the source that has most; between equals, that of the source with the oldest one.
    private mutating func dropEarly(now: MonotonicInstant) {
        func order(_ arrivals: ArraySlice<Arrival>) -> (Int, Duration) {
            (arrivals.count, arrivals.first.map { now - $0.moment.monotonic } ?? .zero)
        }
        guard let source = arrivals.max(by: { order($0.value) < order($1.value) })?.key,
            let dropped = removeOldest(of: source)
        else { return }
        earlyDrops[source] = EarlyDrop(arrival: dropped.moment.wall, time: now)
        guard earlyDrops.count > Self.maximumEarlyDropCount,
            let earliest = earlyDrops.min(by: { $0.value.time < $1.value.time })?.key
        else { return }
        earlyDrops[earliest] = nil
    }

    @discardableResult
    private mutating func removeOldest(of source: PacketSource) -> Arrival? {
        let oldest = arrivals[source]?.popFirst()
        if let oldest { known[oldest.key] = nil }
        if arrivals[source]?.isEmpty == true { arrivals[source] = nil }
        return oldest
    }
}
