internal import NearshareInterfaces

/// Bodies of LocalSend requests that have not arrived as a whole, on all connections (R1): many connections with large ones would use
/// up the memory.
struct PartialBodies: Sendable {
    private struct Body: Sendable {
        let link: any StreamLink
        let source: LinkSource
        let number: UInt64
        var byteCount = 0
    }

    /// Bytes of all connections: eight of the largest offers.
    static let capacity = 8 << 20
    /// Bytes of the connections of one source.
    static let capacityPerSource = 4 << 20

    private var bodies: [ObjectIdentifier: Body] = [:]
    private var lastNumber: UInt64 = 0

    /// The bytes that are held.
    var byteCount: Int { bodies.values.reduce(0) { $0 + $1.byteCount } }

    /// Records how much of its body a connection holds.
    /// - Returns: the link to close, which holds most of those that are too many; nil for none.
    mutating func record(_ byteCount: Int, on link: any StreamLink) -> (any StreamLink)? {
        let id = ObjectIdentifier(link)
        if bodies[id] == nil {
            lastNumber += 1
            bodies[id] = Body(link: link, source: LinkSource(link.remote), number: lastNumber)
        }
        bodies[id]?.byteCount = byteCount
        var candidates = bodies.values.filter { $0.source == bodies[id]?.source }
        if candidates.reduce(0, { $0 + $1.byteCount }) <= Self.capacityPerSource {
            guard self.byteCount > Self.capacity else { return nil }
            candidates = Array(bodies.values)
        }
        // The newest where several hold as much.
        let largest = candidates.max { ($0.byteCount, $0.number) < ($1.byteCount, $1.number) }?.link
        if let largest { remove(largest) }
        return largest
    }

    /// Removes a body that is complete, or whose connection has ended.
    mutating func remove(_ link: any StreamLink) { bodies[ObjectIdentifier(link)] = nil }
}
