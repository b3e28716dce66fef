public import NearshareBase
internal import NearshareDirect

/// A failure of an operation on a session. The description says what failed, and what to try.
public enum SessionError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The peer is not a member of the session, or no longer; for streams and offers also: it is out of reach now.
    case notConnected(PeerID)
    /// These receivers have not read the message: they have left or restarted before, the message could not be sent to them in
    /// its time, or they are slow. All others have read it.
    case notDelivered(to: [PeerID])
    /// An argument is out of its bounds.
    case invalidParameter(String)
    /// The peer did not answer within the timeout.
    case timedOut(String)
    /// The waiting task was cancelled.
    case cancelled
    /// The operation is not possible now: this machine, the network or the peer prevents it. Another try may succeed.
    case unavailable(String)
    /// The invited user, or the invited program's policy, declined.
    case declined
    /// This node's limit of members is reached, open invitations included, or that of the other end.
    case full
    /// One of the two ends does not trust the other's key, or its user has blocked it.
    case untrusted(String)
    /// The two ends have no protocol version or encryption preference in common, or the peer violated the protocol.
    case incompatible(String)
    /// The founder of the session has removed this node.
    case removed
    /// This node has left the session, is leaving it, or has stopped.
    case left

    public var description: String {
        switch self {
        case .notConnected(let id):
            "\(id.hex) is not a member, or out of reach; invite it, or wait until it is connected if the members include it"
        case .invalidParameter(let text), .timedOut(let text), .unavailable(let text), .untrusted(let text),
            .incompatible(let text):
            text
        case .notDelivered(let ids):
            "the message was not delivered to \(ids.map(\.hex).joined(separator: ", ")): they have left or "
                + "restarted, or it did not reach them in time"
        case .cancelled: "the operation was cancelled"
        case .declined: "the invitation was declined"
        case .full: "the session is full; raise the member limit on both ends, or wait until a member leaves"
        case .removed: "the founder of the session has removed this node; start or join another one"
        case .left: "this node has left the session, or is stopping; start or join another one"
        }
    }

    /// The error of an operation with another member whose argument is this node.
    package static var thisNode: SessionError { .invalidParameter("the peer is this node; name another member") }

    init(_ error: NodeError) {
        switch error {
        case .unreachable(let text, _), .unavailable(let text), .connectionLost(let text): self = .unavailable(text)
        case .timedOut(let text): self = .timedOut(text)
        case .invalidParameter(let text): self = .invalidParameter(text)
        case .incompatible(let text): self = .incompatible(text)
        case .identityMismatch(let text), .refused(let text): self = .untrusted(text)
        case .blocked: self = .untrusted(error.description)
        case .notFound, .ambiguous: self = .unavailable(error.description)
        }
    }

    init(_ end: LinkEnd) {
        let error = NodeError(end)
        // A user who cannot be asked has said nothing about the key.
        if case .closure(.closed(by: .remote, .unattended)) = end {
            self = .unavailable(error.description)
        } else {
            self = SessionError(error)
        }
    }

    init(_ refusal: SessionRefusal) {
        switch refusal {
        case .declined: self = .declined
        case .expired: self = .timedOut("the invitation was not answered in time")
        case .full: self = .full
        case .unknown:
            self = .unavailable(
                "the peer does not know this session: its program accepts no invitations, or it is joining by another one")
        case .untrusted:
            self = .untrusted(
                "the peer does not trust this machine's key, or its user has not answered the question about it in time; "
                    + "compare the short codes")
        case .removed: self = .removed
        case .busy:
            self = .unavailable(
                "the peer cannot answer now: its user is being asked on another link, or was asked too often, or another process "
                    + "there has sessions; try again in a minute")
        case .unremembered:
            self = .unavailable("the peer does not remember this machine's key; both users are asked at the next attempt")
        }
    }
}
