internal import NearshareBase
internal import NearshareCrypto

/// The known state of one peer of the mesh.
struct PeerRecord: Sendable {
    /// The latest announcement of a peer.
    struct Announcement: Sendable {
        /// The announced name; nil until the first announcement.
        var name: DisplayName?
        var capabilities: MeshCapabilities?
        /// Timestamp of the announcement, in milliseconds since 1970.
        var timestamp: UInt64 = 0
        /// When the announcement was received.
        var received: MonotonicInstant?
        /// Hop count of the announcement, from its ttl.
        var hops: Int?
    }

    /// The links on which packets of a peer were received, by what they prove.
    struct LinkEvidence: Sendable {
        /// The link over which the peer became known; after that is closed, nil until the peer announces itself over another.
        var discovery: MeshLinkID?
        /// The links on which unrelayed announcements were received. Any neighbour can replay one, so they decide nothing.
        var claimed: Set<MeshLinkID> = []
        /// The links on which the peer has proven its key: it is at their other ends. A subset of ``claimed``.
        var proven: Set<MeshLinkID> = []
        /// The link on which the peer's latest authentic message was received: a path to the peer starts there.
        var reverseRoute: MeshLinkID?

        /// The links over which the peer is reached.
        var routes: Set<MeshLinkID> { Set([discovery, reverseRoute].compactMap(\.self)) }

        mutating func removeRoute(_ link: MeshLinkID) {
            if discovery == link { discovery = nil }
            if reverseRoute == link { reverseRoute = nil }
        }
    }

    var announcement = Announcement()
    var links: LinkEvidence
    /// The announced key, or the one that a session has authenticated.
    var agreementKey: AgreementPublicKey?
    /// The announced key, or the one stated inside a session.
    var signingKey: SigningPublicKey?
    /// Another announcement under the peer's id, signed with another key, until a session has proven one of the two. The first one
    /// counts until then, so that a forged one silences no peer.
    var conflictingAnnouncement: MeshFrame?
    /// The peer's statement inside the current session.
    var sessionState: MeshPeerState?
    var lastHeard: MonotonicInstant
    /// Whether the peer is in the address book.
    var isContact = false
    /// Limit on signed messages to everyone, both shown by this node and relayed (M2, R11).
    var publicMessageLimiter: TokenBucket

    /// Whether the peer has announced itself unrelayed on a link, which any neighbour can replay.
    var claimsToBeNeighbour: Bool { !links.claimed.isEmpty }
    /// Whether the peer has proven its key on a link.
    var isNeighbour: Bool { !links.proven.isEmpty }

    /// The capabilities that the peer has stated in the current session, or else announced.
    var capabilities: MeshCapabilities? {
        guard let state = sessionState else { return announcement.capabilities }
        // A node announces that it stores and forwards when its messenger starts, which may be later than the session.
        guard announcement.capabilities?.contains(.bundles) == true, state.signingKey == signingKey?.bytes else {
            return state.capabilities
        }
        return state.capabilities.union(.bundles)
    }

    /// Whether the peer has stated these capabilities in the current session.
    func supports(_ capabilities: MeshCapabilities) -> Bool { sessionState?.capabilities.contains(capabilities) ?? false }
}
