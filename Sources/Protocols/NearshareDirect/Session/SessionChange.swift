package import NearshareBase

/// A change of a session's members.
package enum SessionChange: Sendable, Hashable {
    /// A member has joined.
    case joined(SessionMember)
    /// A member's connectivity has changed.
    case state(PeerID, MemberState)
    /// A member's program has restarted and lost its state, including this number of reliable messages that it had not
    /// acknowledged.
    case restarted(PeerID, lost: Int)
    /// A member has left, was unreachable for too long, or was removed. Messages that it had not acknowledged are lost.
    case left(PeerID)
}
