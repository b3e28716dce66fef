internal import NearshareBase

/// Two members between which this node relays, in the direction in which the link was opened.
struct RelayPath: Hashable, Sendable {
    let origin: PeerID
    let target: PeerID
}

/// The links that this node relays for other members, at most ``maximumCount`` on each path (Q8): a new link may come before
/// the end of the one that it replaces.
struct ForwardedRelays: Sendable {
    static let maximumCount = 2

    private var counts: [RelayPath: Int] = [:]
    /// The time at which bytes were relayed last, on any path.
    private var latestBytes: MonotonicInstant?
    /// Time without bytes after which the links count as quiet: longer than a busy peer needs for an answer.
    static let quietTime = Duration.seconds(1)

    /// The earliest time at which the links count as quiet; nil when there are none, or none has carried bytes.
    var quietInstant: MonotonicInstant? { counts.isEmpty ? nil : latestBytes.map { $0 + Self.quietTime } }

    mutating func recordBytes(at now: MonotonicInstant) { latestBytes = now }

    /// - Returns: false when there are too many on this path.
    mutating func begin(_ path: RelayPath) -> Bool {
        guard counts[path, default: 0] < Self.maximumCount else { return false }
        counts[path, default: 0] += 1
        return true
    }

    mutating func end(_ path: RelayPath) {
        let left = counts[path, default: 1] - 1
        counts[path] = left > 0 ? left : nil
    }
}
