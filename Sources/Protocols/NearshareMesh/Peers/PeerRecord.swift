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
    var lastHeard: MonotonicInstant
    /// The links on which unrelayed announcements were received. Any neighbour can replay one.
    var links: Set<MeshLinkID> = []
    /// The link on which the peer's latest authentic message was received: a path to the peer starts there.
    var authenticatedLink: MeshLinkID?
    /// The peer's statement inside the current session.
    var sessionState: MeshPeerState?
    /// Limit on signed messages to everyone, both shown here and relayed (M2, R11).
    var publicMessages: TokenBucket

    var isNeighbour: Bool { !links.isEmpty }

    /// Whether the peer has stated these capabilities in the current session.
    func supports(_ capabilities: MeshCapabilities) -> Bool { sessionState?.capabilities.contains(capabilities) ?? false }
}
