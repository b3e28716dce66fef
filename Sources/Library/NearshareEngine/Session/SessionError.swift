public import NearshareBase
internal import NearshareDirect

/// Why something could not be done in a session, by who can do something about it. The text says what failed and what to try.
public enum SessionError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Whoever it is for is not in the session (any more).
    case notConnected(PeerID)
    /// What was asked for makes no sense, whatever the others do.
    case invalidParameter(String)
    /// Nobody answered in the time that there was.
    case timedOut(String)
    /// The task that waited was cancelled.
    case cancelled
    /// The machine or the network refuses.
    case unavailable(String)
    /// Somebody there, or a policy, said no.
    case declined
    /// As many are in the session as may be.
    case full
    /// The key of whoever is there was not trusted, here or there.
    case untrusted(String)
    /// Both sides speak different versions, or want something else of encryption.
    case incompatible(String)
    /// The session is over: it was left.
    case left

    public var description: String {
        switch self {
        case .notConnected(let id): "\(id.hex) is not in the session; wait until it joins, or invite it"
        case .invalidParameter(let text), .timedOut(let text), .unavailable(let text), .untrusted(let text),
            .incompatible(let text):
            text
        case .cancelled: "it was cancelled here"
        case .declined: "the invitation was declined"
        case .full: "the session has as many members as it may have; raise the limit or let somebody leave"
        case .left: "the session was left; begin or join another one"
        }
    }

    init(_ error: NodeError) {
        switch error {
        case .unreachable(let text), .unavailable(let text), .connectionLost(let text): self = .unavailable(text)
        case .timedOut(let text): self = .timedOut(text)
        case .incompatible(let text): self = .incompatible(text)
        case .identityMismatch(let text), .refused(let text): self = .untrusted(text)
        case .blocked: self = .untrusted(error.description)
        }
    }

    init(_ refusal: SessionRefusal) {
        switch refusal {
        case .declined: self = .declined
        case .expired: self = .timedOut("nobody there answered the invitation in time")
        case .full: self = .full
        case .unknown: self = .unavailable("the other side knows nothing of this session")
        case .untrusted: self = .untrusted("the other side does not trust this machine's key; compare the short codes")
        }
    }
}
