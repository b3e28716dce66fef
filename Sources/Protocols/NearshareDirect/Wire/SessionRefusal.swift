/// The reason why a peer is not admitted to a session. The raw values are those of the wire format.
package enum SessionRefusal: UInt8, Sendable, Hashable {
    /// A user or policy declined. Decoded also from reasons of later versions.
    case declined = 0
    /// The invitation was not answered in time.
    case expired = 1
    /// The session has reached its limit of members.
    case full = 2
    /// The session is not known, or the peer is not a member.
    case unknown = 3
    /// The invited peer does not trust the inviting peer's key.
    case untrusted = 4
    /// The founder has removed the peer from the session.
    case removed = 5
    /// The invited peer does not remember the inviting peer's key: both users have to be asked.
    case unremembered = 6
    /// The invited peer cannot decide now: its user is asked about the inviting peer on another link, or was asked too often, or
    /// another process takes part in sessions with its key. No user has declined.
    case busy = 7
}
