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
