internal import NearshareInterfaces

/// The bytes held of LocalSend request bodies that are incomplete, on all connections. Bounded, as many connections with large
/// bodies would exhaust the memory (R1).
struct PartialBodies: Sendable {
    private struct Body: Sendable {
        let link: any StreamLink
        let source: LinkSource
        let order: UInt64
        var byteCount = 0
    }

    /// Bytes of all connections: eight of the largest offers.
    static let capacity = 8 << 20
    /// Bytes of the connections of one source.
    static let capacityPerSource = 4 << 20

    private var bodies: [ObjectIdentifier: Body] = [:]
    private var lastOrder: UInt64 = 0

    /// The bytes that are held.
    var byteCount: Int { bodies.values.reduce(0) { $0 + $1.byteCount } }

    /// Records how much of its body a connection holds.
    /// - Returns: the link to close: the one with the most bytes, of the source that exceeds ``capacityPerSource``, otherwise of
    ///   all sources; nil within both limits.
    mutating func record(_ byteCount: Int, on link: any StreamLink) -> (any StreamLink)? {
        let id = ObjectIdentifier(link)
        if bodies[id] == nil {
            lastOrder += 1
            bodies[id] = Body(link: link, source: LinkSource(link.remote), order: lastOrder)
        }
        bodies[id]?.byteCount = byteCount
        var candidates = bodies.values.filter { $0.source == bodies[id]?.source }
        if candidates.reduce(0, { $0 + $1.byteCount }) <= Self.capacityPerSource {
            guard self.byteCount > Self.capacity else { return nil }
            candidates = Array(bodies.values)
        }
        // On a tie, the newest connection.
        let largest = candidates.max { ($0.byteCount, $0.order) < ($1.byteCount, $1.order) }?.link
        if let largest { remove(largest) }
        return largest
    }

    /// Removes a body that is complete, or whose connection has ended.
    mutating func remove(_ link: any StreamLink) { bodies[ObjectIdentifier(link)] = nil }
}
