internal import NearshareBase
internal import NearshareCrypto

/// What is known of one peer of the mesh.
struct PeerRecord: Sendable {
    /// Announced. nil until the first announcement.
    var name: DisplayName?
    /// Announced, or authenticated by a session since.
    var agreementKey: AgreementPublicKey?
    /// Announced, or stated inside a session since.
    var signingKey: SigningPublicKey?
    var announcedCapabilities: MeshCapabilities?
    /// Timestamp of the newest announcement, in milliseconds since 1970.
    var announcementTimestamp: UInt64 = 0
    var lastHeard: MonotonicInstant
    /// The links on which announcements came that no relay had touched. Any neighbour can replay one.
    var links: Set<MeshLinkID> = []
    /// The link on which the peer's latest authentic message came: some path to the peer starts there.
    var authenticatedLink: MeshLinkID?
    /// Stated by the peer inside the present session.
    var sessionState: MeshPeerState?
    /// Limit on signed messages to everyone, both shown here and relayed (M2, R11).
    var publicMessages: TokenBucket

    var isNeighbour: Bool { !links.isEmpty }

    /// Whether the peer has stated in the present session that it supports something.
    func supports(_ capabilities: MeshCapabilities) -> Bool { sessionState?.capabilities.contains(capabilities) ?? false }
}
