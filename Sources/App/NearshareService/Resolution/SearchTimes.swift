internal import Nearshare

/// The times for which a search lasts on each transport, within the time for which the user waits.
struct SearchTimes: Sendable {
    static let network = Duration.seconds(5)
    /// On the network, before the mesh is joined as well.
    static let networkFirst = Duration.milliseconds(1_500)
    /// Peers behind others appear with a neighbour's first exchange of announcements, or with their own next one.
    static let mesh = Duration.seconds(20)
    static let bluetooth = Duration.seconds(15)
    /// Neighbours are connected to one by one, and one at the edge of the range takes its time.
    static let meshOverBluetooth = Duration.seconds(30)
    /// For a peer whose key is to be verified.
    static let connection = Duration.seconds(8)
    /// For the announcement of a known peer, before its last address is tried as well.
    static let announcement = Duration.milliseconds(500)

    /// Time of the whole search, at least that of the first look at the network; nil for the usual times.
    let limit: Duration?

    /// The time for the rest of a search, after the first one on the network: at least 0.1 s.
    /// - Parameter time: the usual one.
    func remainder(of time: Duration) -> Duration {
        limit.map { max($0 - Self.networkFirst, .milliseconds(100)) } ?? time
    }

    /// The time of a search on one transport: at least that of the first one on the network, and 0.1 s.
    /// - Parameter time: the usual one.
    func limited(_ time: Duration) -> Duration {
        Self.networkFirst + remainder(of: time - Self.networkFirst)
    }

    /// The time for the rest of a search on the network alone, after the first one.
    var restOnNetwork: Duration { remainder(of: Self.network - Self.networkFirst) }

    /// The time for the rest of a search through the running node, after the first one on the network.
    var restThroughNode: Duration { remainder(of: Self.network) }

    /// The time of a search in the mesh, on a node of its own.
    func inMesh(opensRadio: Bool) -> Duration { limited(opensRadio ? Self.meshOverBluetooth : Self.mesh) }

    /// The time of the search for a peer after another one has answered in its place.
    /// - Parameter transport: nil for the best available one.
    func afterMismatch(on transport: Transport?) -> Duration {
        limit ?? (transport == .bluetooth ? Self.bluetooth : Self.network)
    }

    /// The seconds of a search in its report, rounded up.
    static func shownSeconds(of timeout: Duration) -> Int64 {
        timeout.components.seconds + (timeout.components.attoseconds > 0 ? 1 : 0)
    }
}
