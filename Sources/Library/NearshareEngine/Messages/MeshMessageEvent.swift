internal import NearshareBase
internal import NearshareCrypto
internal import NearshareMesh

/// A text in the mesh's own packets, as phones send it, or an event about one.
enum MeshMessageEvent: Sendable {
    case privateText(from: AuthenticatedPeer, id: String, text: String)
    case publicText(from: MeshPeer, id: String, text: String)
    /// A text of this node has been received.
    case delivered(id: String, by: AuthenticatedPeer)
    /// The user there has read it.
    case read(id: String, by: AuthenticatedPeer)
    /// A text of this node was not acknowledged, and is not sent again.
    case undelivered(id: String, to: PeerID)
    /// The user of a phone has made the local user a favourite, or revoked that.
    case favorite(Bool, by: AuthenticatedPeer)
    /// A peer appeared, changed, was authenticated, or disappeared.
    case peerChanged(PeerID)
}
