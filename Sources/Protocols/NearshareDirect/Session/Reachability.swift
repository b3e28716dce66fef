internal import NearshareBase

/// The connectivity of a session's members, and the back-off between connection attempts.
struct Reachability: Sendable {
    private struct Backoff {
        /// Consecutive failures.
        var failureCount: Int
        /// The earliest time of the next attempt.
        var retryTime: MonotonicInstant
    }

    private var states: [PeerID: MemberState] = [:]
    /// The start of each unreachable member's absence.
    private var absentSince: [PeerID: MonotonicInstant] = [:]
    private var backoffs: [PeerID: Backoff] = [:]
    /// Members with an attempt in progress.
    private var attempts: Set<PeerID> = []

    func state(of id: PeerID) -> MemberState { states[id] ?? .notConnected }

    /// Members with a direct link, by id.
    var neighbours: [PeerID] { states.filter { $0.value == .connected(via: nil) }.keys.sorted() }

    func failureCount(of id: PeerID) -> Int { backoffs[id]?.failureCount ?? 0 }

    /// Whether no attempt is in progress, and the back-off has passed.
    func mayAttempt(_ id: PeerID, now: MonotonicInstant) -> Bool {
        !attempts.contains(id) && (backoffs[id].map { now >= $0.retryTime } ?? true)
    }

    // MARK: Changes, each of which returns the new state when it differs

    mutating func add(_ id: PeerID, now: MonotonicInstant) {
        states[id] = .notConnected
        absentSince[id] = now
    }

    mutating func remove(_ id: PeerID) {
        states[id] = nil
        absentSince[id] = nil
        backoffs[id] = nil
        attempts.remove(id)
    }

    mutating func recordAttempt(_ id: PeerID) -> MemberState? {
        attempts.insert(id)
        return state(of: id).isConnected ? nil : set(id, .connecting)
    }

    mutating func recordConnection(_ id: PeerID, via relay: PeerID?) -> MemberState? {
        absentSince[id] = nil
        attempts.remove(id)
        // Behind a relay, earlier failures still delay the next attempt at a direct link.
        if relay == nil { backoffs[id] = nil }
        return set(id, .connected(via: relay))
    }

    mutating func recordDisconnection(_ id: PeerID, now: MonotonicInstant) -> MemberState? {
        if absentSince[id] == nil { absentSince[id] = now }
        return set(id, .notConnected)
    }

    /// - Parameter isMember: false when the member has left meanwhile.
    mutating func recordFailure(_ id: PeerID, isMember: Bool, now: MonotonicInstant) -> MemberState? {
        attempts.remove(id)
        guard isMember, state(of: id) != .connected(via: nil) else { return nil }
        let count = failureCount(of: id) + 1
        backoffs[id] = Backoff(failureCount: count, retryTime: now + Self.firstDelay * (1 << min(count - 1, 5)))
        return state(of: id).isConnected ? nil : set(id, .notConnected)
    }

    private mutating func set(_ id: PeerID, _ state: MemberState) -> MemberState? {
        guard states[id] != state else { return nil }
        states[id] = state
        return state
    }

    // MARK: Time

    /// The time at which the member with the higher id may attempt a connection as well.
    func secondAttemptTime(_ id: PeerID) -> MonotonicInstant {
        (absentSince[id] ?? MonotonicInstant(nanoseconds: 0)) + Self.headStart
    }

    /// Members that have been absent for `timeout`, by id.
    func absentees(after timeout: Duration, now: MonotonicInstant) -> [PeerID] {
        absentSince.filter { now - $0.value >= timeout }.keys.sorted()
    }

    /// The times at which members time out or attempts become due.
    func deadlines(own: PeerID, timeout: Duration) -> [MonotonicInstant] {
        let secondAttempts = absentSince.keys.filter { $0 < own && !attempts.contains($0) && backoffs[$0] == nil }
        return absentSince.values.map { $0 + timeout } + secondAttempts.map { secondAttemptTime($0) }
            + backoffs.filter { !attempts.contains($0.key) }.values.map(\.retryTime)
    }

    private static let firstDelay = Duration.milliseconds(500)
    /// The time for which only the member with the lower id attempts a connection.
    private static let headStart = Duration.seconds(3)
}
