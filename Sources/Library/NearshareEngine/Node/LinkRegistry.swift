/// The links of a node: all that run, and the number of those that peers have opened.
struct LinkRegistry {
    private var drivers: [ObjectIdentifier: LinkDriver] = [:]
    private var incomingCount = 0
    private var incomingCountByHost: [String: Int] = [:]

    /// Counts a link that a peer has opened (R3).
    /// - Returns: false when there are too many, of all peers or of this host; then the link is to be closed.
    mutating func admit(from host: String, limits: NodeLimits) -> Bool {
        guard incomingCount < limits.links, incomingCountByHost[host, default: 0] < limits.linksPerAddress else { return false }
        incomingCount += 1
        incomingCountByHost[host, default: 0] += 1
        return true
    }

    /// Records that an admitted link has ended.
    mutating func release(from host: String) {
        incomingCount -= 1
        let left = incomingCountByHost[host, default: 1] - 1
        incomingCountByHost[host] = left > 0 ? left : nil
    }

    /// The links that run.
    var running: [LinkDriver] { Array(drivers.values) }

    mutating func insert(_ driver: LinkDriver) { drivers[ObjectIdentifier(driver)] = driver }

    mutating func remove(_ driver: LinkDriver) { drivers[ObjectIdentifier(driver)] = nil }
}
