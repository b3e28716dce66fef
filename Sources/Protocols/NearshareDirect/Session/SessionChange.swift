package import NearshareBase

/// A change of a session's members.
package enum SessionChange: Sendable, Hashable {
    /// A member has joined.
    case joined(SessionMember)
    /// A member's connectivity has changed.
    case state(PeerID, MemberState)
    /// A member has left, was unreachable for too long, or was removed.
    case left(PeerID)
}

/// The changes of a roster that its program has not read. The state of a member is a change when it differs from the one that was
/// reported last.
struct SessionChangeQueue: Sendable {
    private var changes: [SessionChange] = []
    /// The state of each member that was reported last.
    private var states: [PeerID: MemberState] = [:]

    /// Returns and removes the changes.
    mutating func drain() -> [SessionChange] {
        defer { changes = [] }
        return changes
    }

    mutating func append(_ change: SessionChange) {
        if case .left(let id) = change { states[id] = nil }
        changes.append(change)
    }

    /// Appends the state of a member, unless it was reported last.
    mutating func report(_ state: MemberState, of id: PeerID) {
        guard states[id] ?? .notConnected != state else { return }
        states[id] = state
        changes.append(.state(id, state))
    }
}
