package import NearshareBase

/// Identifies one transfer of a file: the same file may be sent to several peers at once, and received from several.
package struct MeshFileKey: Sendable, Hashable {
    package let file: MeshFileControl.FileID
    /// The peer at the other end; nil for everyone.
    package let peer: PeerID?

    package init(_ file: MeshFileControl.FileID, with peer: PeerID?) {
        self.file = file
        self.peer = peer
    }
}
