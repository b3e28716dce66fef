internal import NearshareBase

/// The treatment of a member whose program has not read its messages for two seconds although more are sent to it.
public enum SlowMemberPolicy: Sendable, Hashable {
    /// Sending waits until the member reads. Messages to other members are not delayed.
    case wait
    /// Messages to the member are dropped while it is slow; see ``SentMessage/delivered``.
    case drop
    /// The founder of the session removes the member. Other members drop messages to it.
    case remove
}

/// The members to which a message could not be sent because their windows are full.
struct SlowMembers: Sendable {
    /// Time after which a member without room in its window is slow.
    static let delay = Duration.seconds(2)

    private var fullSince: [PeerID: MonotonicInstant] = [:]
    private var slow: Set<PeerID> = []

    func isSlow(_ id: PeerID) -> Bool { slow.contains(id) }

    /// The next time at which a member becomes slow.
    var deadline: MonotonicInstant? { fullSince.filter { !slow.contains($0.key) }.values.min().map { $0 + Self.delay } }

    /// Records that a message found no room.
    /// - Returns: whether it is the first.
    mutating func recordFullWindow(of id: PeerID, now: MonotonicInstant) -> Bool {
        guard fullSince[id] == nil else { return false }
        fullSince[id] = now
        return true
    }

    /// Records that there is room, or that the member has left.
    mutating func recordRoom(of id: PeerID) {
        fullSince[id] = nil
        slow.remove(id)
    }

    /// Returns the members that have become slow.
    mutating func drain(now: MonotonicInstant) -> [PeerID] {
        let new = fullSince.filter { !slow.contains($0.key) && now - $0.value >= Self.delay }.keys.sorted()
        slow.formUnion(new)
        return new
    }
}
