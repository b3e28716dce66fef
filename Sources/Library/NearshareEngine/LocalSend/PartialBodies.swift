internal import NearshareBase
internal import NearshareInterfaces

/// The bytes held of LocalSend request bodies that are incomplete, on all connections. Bounded, as many connections with large
/// bodies would exhaust the memory (R1).
struct PartialBodies: Sendable {
    private struct Body: Sendable {
        let link: any StreamLink
        let source: LinkSource
        let order: UInt64
        var byteCount = 0
        var progress: ProgressMeter

        /// The order in which bodies give way, the lowest first: those that are slow; those whose rate is not known yet, the largest
        /// and the latest first, as an offer that was chosen by a user is small; then the others, by their rate.
        func rank(now: MonotonicInstant) -> (Int, Int, Int) {
            let order = Int(clamping: order)
            guard let rate = progress.rate(now: now) else { return (1, -byteCount, -order) }
            return (rate < PartialBodies.slowRate ? 0 : 2, rate, order)
        }

        mutating func record(_ byteCount: Int, now: MonotonicInstant) {
            progress.record(byteCount - self.byteCount, now: now)
            self.byteCount = byteCount
        }
    }

    /// Bytes of all connections: eight of the largest offers.
    static let capacity = 8 << 20
    /// Bytes of the connections of one source.
    static let capacityPerSource = 4 << 20
    /// Bytes a second below which a body gives way first: a full one would take a minute, six times as long as it may.
    static let slowRate = 16 << 10
    /// Long enough for a lost packet, and shorter than the time in which a body must arrive.
    static let progressPeriod = Duration.seconds(2)

    private var bodies: [ObjectIdentifier: Body] = [:]
    private var lastOrder: UInt64 = 0

    /// The bytes that are held.
    var byteCount: Int { bodies.values.reduce(0) { $0 + $1.byteCount } }

    /// Records how much of its body a connection holds.
    /// - Returns: the links to close: of the source that exceeds ``capacityPerSource``, otherwise of the source that holds most,
    ///   those whose bodies give way first: a source may be several hosts. None within both limits.
    mutating func record(_ byteCount: Int, on link: any StreamLink, now: MonotonicInstant) -> [any StreamLink] {
        let id = ObjectIdentifier(link)
        let source = LinkSource(link.remote)
        if bodies[id] == nil {
            lastOrder += 1
            bodies[id] = Body(
                link: link, source: source, order: lastOrder,
                progress: ProgressMeter(now: now, period: Self.progressPeriod))
        }
        bodies[id]?.record(byteCount, now: now)
        return removeBeyondLimits(source, now: now)
    }

    private mutating func removeBeyondLimits(_ source: LinkSource, now: MonotonicInstant) -> [any StreamLink] {
        let ownByteCount = bodies.values.reduce(0) { $0 + ($1.source == source ? $1.byteCount : 0) }
        guard ownByteCount > Self.capacityPerSource || byteCount > Self.capacity else { return [] }
        let ordered = bodies.values.map { (body: $0, rank: $0.rank(now: now)) }.sorted { $0.rank < $1.rank }.map(\.body)
        var shared = SharedCapacity<LinkSource>(
            count: ordered.count, byteCount: { ordered[$0].byteCount }, levels: [{ ordered[$0].source }])
        var links: [any StreamLink] = []
        while true {
            let isFullSource = shared.groups[source].map { $0.byteCount > Self.capacityPerSource } ?? false
            guard isFullSource || shared.byteCount > Self.capacity else { return links }
            // The first of the ordered bodies, which is the next to give way.
            let position =
                isFullSource ? shared.removeOldest { _, _ in source } : shared.removeOldest(by: .byteCount)
            guard let position else { return links }
            let link = ordered[position].link
            remove(link)
            links.append(link)
        }
    }

    /// Removes a body that is complete, or whose connection has ended.
    mutating func remove(_ link: any StreamLink) { bodies[ObjectIdentifier(link)] = nil }
}
