package import NearshareBase

/// Identifies one transfer of a file: the same file may go to several peers at once, and come from several.
package struct MeshFileKey: Sendable, Hashable {
    package let file: MeshFileControl.FileID
    /// The peer at the other end; nil for everyone.
    package let peer: PeerID?

    package init(_ file: MeshFileControl.FileID, with peer: PeerID?) {
        self.file = file
        self.peer = peer
    }
}
