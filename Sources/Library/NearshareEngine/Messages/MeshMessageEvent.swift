internal import NearshareBase
internal import NearshareCrypto
internal import NearshareMesh

/// An event in the mesh that concerns a conversation: a text in the mesh's own packets, which phones send, what became of one, or
/// a change of a peer.
enum MeshMessageEvent: Sendable {
    case privateText(from: AuthenticatedPeer, id: String, text: String)
    /// - Parameter source: what the link is counted towards over which the author became known.
    case publicText(from: MeshPeer, id: String, text: String, source: MeshLinkSource?)
    /// A text of this node has been received.
    case delivered(id: String, by: AuthenticatedPeer)
    /// The peer's user has read a text of this node.
    case read(id: String, by: AuthenticatedPeer)
    /// A text of this node was not acknowledged, and is not sent again.
    case undelivered(id: String, to: PeerID)
    /// The clocks of a peer and this node differ by so much that they ignore each other. Any key can have signed that.
    case clockDiffers(PeerID, by: Duration)
    /// The user of a phone has made the local user a favourite, or revoked that.
    case favorite(Bool, by: AuthenticatedPeer)
    /// A peer appeared, changed, was authenticated, or disappeared.
    case peerChanged(PeerID)
}
