/// The agreement of the two ends of a session's link about the end of the link, when one or both leave: an end that leaves waits
/// until the other one has sent what its program had finished (`docs/PROTOCOL.md`, section 12.1).
///
///     this end:   member ── announces ──► leaving ── answer of the peer, or timeout ──► goes
///     the peer:   member ── announcement ──► sends what was finished ── answers ──► waits for the end
///
/// Both ends can be in both lines at the same time.
package struct LinkDeparture: Sendable {
    private var isAnnounced = false
    /// Whether the peer has announced that it leaves.
    package private(set) var isPeerLeaving = false
    /// Whether the peer has answered this end's announcement: all that its program had finished has arrived.
    package private(set) var isPeerDone = false

    /// Starts with two ends of which neither leaves.
    package init() {}

    /// Records that this end leaves.
    /// - Returns: Whether the announcement is to be sent: false for a second one.
    package mutating func announce() -> Bool {
        defer { isAnnounced = true }
        return !isAnnounced
    }

    /// Processes the announcement of the peer.
    /// - Returns: Whether it is to be answered: false for a second one.
    package mutating func receiveAnnouncement() -> Bool {
        defer { isPeerLeaving = true }
        return !isPeerLeaving
    }

    /// Processes an answer of the peer. Ignored before this end's announcement.
    package mutating func receiveAnswer() { if isAnnounced { isPeerDone = true } }
}
