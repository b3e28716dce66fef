internal import NearshareBase

/// The failed attempts to connect to an announced node. Decides when the node counts as unreachable, which is told once.
struct NeighbourFailures {
    /// Time of failures after which a node counts as unreachable. The other end may connect within it.
    static let timeout = Duration.seconds(6)

    private var since: MonotonicInstant?
    private var isReported = false
    /// Whether there was a link to the node at its addresses. No firewall is between the two: the process of the node has ended.
    private var hasBeenLinked = false

    /// Records that there is or was a link, opened by either end.
    mutating func recordLink() { (since, hasBeenLinked) = (nil, true) }

    /// Records that the node has left, or is announced at other addresses.
    mutating func recordChange() { (since, hasBeenLinked) = (nil, false) }

    /// Records that no address of the node answers.
    /// - Parameter start: the time at which the attempt began.
    /// - Returns: whether the node is to be reported as unreachable.
    mutating func recordFailure(since start: MonotonicInstant, now: MonotonicInstant) -> Bool {
        let first = since ?? start
        since = first
        guard !isReported, !hasBeenLinked, now - first >= Self.timeout else { return false }
        isReported = true
        return true
    }
}
