internal import NearshareBase
internal import NearshareCrypto

/// The known state of one peer of the mesh.
struct PeerRecord: Sendable {
    /// The announced name; nil until the first announcement.
    var name: DisplayName?
    /// The announced key, or the one that a session has authenticated.
    var agreementKey: AgreementPublicKey?
    /// The announced key, or the one stated inside a session.
    var signingKey: SigningPublicKey?
    var announcedCapabilities: MeshCapabilities?
    /// Timestamp of the newest announcement, in milliseconds since 1970.
    var announcementTimestamp: UInt64 = 0
    /// When that announcement was received.
    var lastAnnounced: MonotonicInstant?
    var lastHeard: MonotonicInstant
    /// Links that the latest announcement has taken, as far as its ttl tells.
    var hops: Int?
    /// The link over which the peer became known; after that is closed, nil until the peer announces itself over another.
    var source: MeshLinkID?
    /// The user has met the peer, or imported its keys.
    var isContact = false
    /// The links on which unrelayed announcements were received. Any neighbour can replay one, so they decide nothing.
    var links: Set<MeshLinkID> = []
    /// The links on which the peer has proven its key: it is at their other ends.
    var provenLinks: Set<MeshLinkID> = []
    /// Another announcement under the peer's id, signed with another key, until a session has proven one of the two. The first one
    /// counts until then, so that a forged one silences no peer.
    var contender: MeshFrame?
    /// The link on which the peer's latest authentic message was received: a path to the peer starts there.
    var authenticatedLink: MeshLinkID?
    /// The peer's statement inside the current session.
    var sessionState: MeshPeerState?
    /// Limit on signed messages to everyone, both shown here and relayed (M2, R11).
    var publicMessages: TokenBucket

    /// Whether the peer claims to be a neighbour.
    var isDirect: Bool { !links.isEmpty || isNeighbour }
    var isNeighbour: Bool { !provenLinks.isEmpty }

    /// Whether the peer has stated these capabilities in the current session.
    func supports(_ capabilities: MeshCapabilities) -> Bool { sessionState?.capabilities.contains(capabilities) ?? false }
}
