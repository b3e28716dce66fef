internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// Why something could not be begun or went wrong, by who can do something about it. The text says what failed and what to
/// try.
public enum NodeError: Error, Sendable, CustomStringConvertible {
    /// Nobody answers at any of the addresses.
    case unreachable(String)
    /// Nobody answered in the time that there was.
    case timedOut(String)
    /// Both ends speak different versions, or want something else of encryption.
    case incompatible(String)
    /// Somebody else's key is behind the name or the id.
    case identityMismatch(String)
    /// A person here has blocked whoever is there.
    case blocked(String)
    /// The person there does not want to hear from this machine.
    case refused(String)
    /// The link broke, or the other side broke the protocol.
    case connectionLost(String)
    /// The machine refuses: port taken, discovery not to be had.
    case unavailable(String)

    public var description: String {
        switch self {
        case .unreachable(let text), .timedOut(let text), .incompatible(let text), .identityMismatch(let text),
            .refused(let text), .connectionLost(let text), .unavailable(let text):
            text
        case .blocked(let peer): "\(peer) is blocked here; `nearshare peers unblock` lifts that"
        }
    }

    init(_ error: LinkError) {
        switch error.code {
        case .unreachable: self = .unreachable(error.description)
        case .timedOut: self = .timedOut(error.description)
        case .unavailable: self = .unavailable(error.description)
        case .broken, .closed: self = .connectionLost(error.description)
        }
    }

    init(_ end: LinkEnd) {
        switch end {
        case .handshake(let failure): self.init(failure)
        case .closure(let closure): self.init(closure)
        }
    }

    init(_ failure: HandshakeFailure) {
        switch failure {
        case .incompatible, .encryption: self = .incompatible(failure.description)
        case .notAuthentic, .ownKey: self = .identityMismatch(failure.description)
        case .notAPeer: self = .connectionLost(failure.description)
        }
    }

    init(_ closure: DirectClosure) {
        switch closure {
        case .lost: self = .connectionLost("the connection was lost; the same command goes on where it stopped")
        case .closed(by: _, .verificationFailed): self = .identityMismatch("the short code could not be agreed on")
        case .closed(by: .there, .blocked): self = .refused("the other side does not want to hear from this machine")
        case .closed(by: .there, .violation):
            self = .connectionLost("the other side says that this one broke the protocol; update the older of the two")
        case .closed(by: .there, .tooManyLinks): self = .connectionLost("the other side has too many connections; try later")
        case .closed: self = .connectionLost("the other side is going away; the same command goes on where it stopped")
        case .violation(let what): self = .connectionLost("the other side broke the protocol: \(what)")
        }
    }
}
