internal import NearshareBase

/// Reverse routes: the neighbour through which bundles of a source last arrived, by the shortest path.
struct ReverseRoutes: Sendable {
    private struct Route {
        let nextHop: EndpointID
        let hopCount: UInt16
        let updated: MonotonicInstant
    }

    private var routes: [EndpointID: Route] = [:]

    var count: Int { routes.count }
    /// Bytes on the heap.
    var byteCount: Int { routes.tableByteCount }

    func nextHop(to destination: EndpointID) -> EndpointID? { routes[destination]?.nextHop }

    /// Records that a bundle has arrived through a neighbour. A longer path replaces only a route that is no longer reliable.
    mutating func record(
        source: EndpointID, through neighbour: EndpointID, hopCount: Int, now: Moment,
        isNeighbour: (EndpointID) -> Bool
    ) {
        if let route = routes[source] {
            guard
                hopCount <= Int(route.hopCount) || !isNeighbour(route.nextHop)
                    || now.monotonic - route.updated > Self.freshness
            else { return }
        } else if routes.count >= Self.capacity, let oldest = routes.min(by: { $0.value.updated < $1.value.updated })?.key {
            routes[oldest] = nil
        }
        routes[source] = Route(nextHop: neighbour, hopCount: UInt16(clamping: hopCount), updated: now.monotonic)
    }

    mutating func removeExpired(now: Moment) {
        for (source, route) in routes where now.monotonic - route.updated > Self.lifetime { routes[source] = nil }
        routes.shrink()
    }

    private static let lifetime = Duration.seconds(900)
    /// Time for which a shorter path is preferred to a newer one.
    private static let freshness = Duration.seconds(120)
    private static let capacity = 128
}
