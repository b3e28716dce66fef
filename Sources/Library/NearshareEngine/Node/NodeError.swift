internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

/// A failure of a node or a connection. The description says what failed and what to
/// try.
public enum NodeError: Error, Sendable, CustomStringConvertible {
    /// No peer matches the text that was searched for; the peers nearby are given.
    case notFound(String, nearby: [NearbyPeer])
    /// Several peers match the text; they are given.
    case ambiguous(String, [NearbyPeer])
    /// No address of the peer can be reached; without a route, no network of this machine leads there: the cause is here, and not at
    /// the peer.
    case unreachable(String, isWithoutRoute: Bool = false)
    /// The peer did not answer within the timeout.
    case timedOut(String)
    /// The two ends have no protocol version or encryption preference in common, or the peer violated the protocol.
    case incompatible(String)
    /// The peer has another key than the name or identifier belongs to.
    case identityMismatch(String)
    /// The local user has blocked the peer.
    case blocked(String)
    /// The peer accepts nothing from this machine: its user has blocked it, or cannot be asked.
    case refused(String)
    /// The link was lost.
    case connectionLost(String)
    /// An argument is out of its bounds.
    case invalidParameter(String)
    /// The machine refuses: the port is taken, or discovery is not available.
    case unavailable(String)

    public var description: String {
        switch self {
        case .unreachable(let text, _), .timedOut(let text), .incompatible(let text), .identityMismatch(let text),
            .refused(let text), .connectionLost(let text), .invalidParameter(let text), .unavailable(let text):
            text
        case .blocked(let peer): "\(peer) is blocked"
        case .notFound(_, let nearby) where nearby.isEmpty: "no peers found"
        case .notFound(let text, let nearby):
            Self.absence(of: text, nearby)
        case .ambiguous(let text, let peers):
            Self.ambiguity(of: text, rows: peers.map { "\($0.name.shown)  \($0.id.hex)" })
        }
    }

    /// The error of a connection to this machine itself, or to a peer that has its key.
    static let ownKey = NodeError.identityMismatch(HandshakeFailure.ownKey.description)

    /// Whether the peer has this machine's own key.
    package var isOwnKey: Bool { if case .identityMismatch(HandshakeFailure.ownKey.description) = self { true } else { false } }

    /// Whether another try may succeed: the peer has not answered, or the link was lost.
    package var isTransient: Bool {
        switch self {
        case .unreachable, .timedOut, .connectionLost: true
        case .notFound, .ambiguous, .incompatible, .identityMismatch, .blocked, .refused, .invalidParameter, .unavailable:
            false
        }
    }

    /// Whether a link was established, and then lost.
    package var isLoss: Bool {
        if case .connectionLost = self { true } else { false }
    }

    /// The sentence for a text that selects several peers, with a row for each, in an order that does not depend on which was seen
    /// first.
    package static func ambiguity(of text: String, rows: [String]) -> String {
        "\(NameText.shown(text)) matches several peers; use the id of one:"
            + rows.sorted().map { "\n  \($0)" }.joined()
    }

    /// The description with the peer's name, where it begins with "the peer".
    /// - Parameter name: escaped.
    package func description(naming name: String) -> String {
        let peer = "the peer"
        return description.hasPrefix(peer) ? name + description.dropFirst(peer.count) : description
    }

    /// The sentence for a text that selects no peer nearby: it proposes the peers whose names begin so, or lists all.
    private static func absence(of text: String, _ nearby: [NearbyPeer]) -> String {
        let similar = nearby.filter { $0.name.claimed.lowercased().hasPrefix(text.lowercased()) }
        let advice = similar.isEmpty || text.isEmpty ? "these are: \(list(nearby))" : "did you mean \(list(similar))?"
        return "\(NameText.shown(text)) is not nearby; \(advice)"
    }

    /// Limit on the peers that an error names.
    private static let maximumListedCount = 8

    /// The first of the peers, those that share a name with their ids, and the number of the others.
    private static func list(_ peers: [NearbyPeer]) -> String {
        let counts = Dictionary(peers.map { ($0.name.claimed.lowercased(), 1) }, uniquingKeysWith: +)
        let names = peers.prefix(maximumListedCount).map { peer in
            counts[peer.name.claimed.lowercased()] == 1 ? peer.name.shown : peer.name.identified(by: peer.id)
        }
        let more = peers.count - names.count
        return names.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
    }

    /// Whether no network of this machine leads to the address: the cause is here, and not at the peer.
    package var isWithoutRoute: Bool {
        if case .unreachable(_, isWithoutRoute: true) = self { true } else { false }
    }

    package init(_ error: LinkError) {
        switch error.code {
        case .unreachable: self = .unreachable(error.description)
        case .networkUnreachable:
            self = .unreachable(
                "\(error.description); this machine has no way there: check its cable or Wi-Fi, and its addresses (`ip address`)",
                isWithoutRoute: true)
        case .timedOut: self = .timedOut(error.description)
        case .portInUse, .unavailable: self = .unavailable(error.description)
        case .broken, .closed: self = .connectionLost(error.description)
        }
    }

    init(_ end: LinkEnd) {
        switch end {
        case .handshake(let failure): self.init(failure)
        case .closure(let closure): self.init(closure)
        case .noThread(let error): self.init(error)
        }
    }

    init(_ error: ThreadError) { self = .unavailable(error.description) }

    init(_ failure: HandshakeFailure) {
        switch failure {
        case .incompatible, .encryptionMismatch, .notNearshare, .protocolViolation:
            self = .incompatible(failure.description)
        case .notAuthentic: self = .identityMismatch(failure.description)
        case .ownKey: self = .ownKey
        case .interrupted: self = .connectionLost(failure.description)
        }
    }

    init(_ closure: DirectClosure) {
        switch closure {
        case .lost: self = .connectionLost("the connection was lost; try again")
        case .closed(by: _, .verificationFailed): self = .identityMismatch("the short codes could not be agreed on")
        // A receiver that cannot read its trust store says the same.
        case .closed(by: .remote, .blocked): self = .refused("the peer accepts nothing from this machine")
        case .closed(by: .remote, .violation):
            self = .incompatible("the peer reports a protocol violation by this machine; update the older of the two")
        case .closed(by: .remote, .unattended):
            self = .refused("the peer's user cannot be asked; its program needs a user who sees it, such as in a terminal")
        case .closed(by: .remote, .tooManyLinks):
            self = .connectionLost("the peer is busy: it has too many connections, of this address or in all; try later")
        case .closed(by: .remote, .replaced):
            self = .unavailable("another program with this machine's key has joined the session in its place")
        case .closed(by: .remote, .goingAway), .closed(by: .remote, .done):
            self = .connectionLost("the peer is shutting down; try again")
        case .closed(by: .local, .goingAway): self = .unavailable("the node is stopping; start another one")
        case .closed(by: .local, .done): self = .connectionLost("this node has closed the connection, which had nothing to do")
        case .closed(by: .local, .blocked): self = .blocked("the peer")
        case .closed(by: .local, .violation): self = .identityMismatch("the peer has another key than the one expected")
        case .closed(by: .local, .unattended): self = .unavailable("this node cannot ask its user about the peer")
        case .closed(by: .local, .replaced):
            self = .connectionLost("this node has closed the connection: another program with the peer's key has joined")
        case .closed(by: .local, .tooManyLinks): self = .unavailable("this node has too many connections; try later")
        case .violation(let what):
            self = .incompatible(
                "the peer violated the protocol: \(what); update the older of the two, or suspect an attack")
        }
    }
}

extension DiscoveryInfo {
    /// Validates a program's own pairs.
    /// - Throws: ``NodeError/invalidParameter(_:)``, which names the violated rule.
    init(checking pairs: [String: String]) throws(NodeError) {
        do throws(Invalid) { try self.init(pairs) } catch { throw .invalidParameter(error.description) }
    }
}
