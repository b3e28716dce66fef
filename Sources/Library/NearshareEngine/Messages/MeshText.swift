internal import NearshareBase
internal import NearshareCrypto
internal import NearshareMesh

/// What is said in the mesh's own packets, as phones say it: to one peer, or in the public room.
enum MeshText: Sendable {
    case toUs(from: AuthenticatedPeer, id: String, text: String)
    case everybody(from: MeshPeer, id: String, text: String)
    /// A text of ours has arrived.
    case delivered(id: String, by: AuthenticatedPeer)
    /// A person has seen it.
    case read(id: String, by: AuthenticatedPeer)
    /// A text of ours that nobody has acknowledged, and that is not sent again.
    case undelivered(id: String, to: PeerID)
    /// Somebody came, changed, proved their key, or went.
    case peerChanged(PeerID)
}
