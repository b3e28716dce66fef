package import NearshareBase

/// Names one file on its way: the same file may go to several peers at once, and come from several, each time by itself.
package struct MeshFileKey: Sendable, Hashable {
    package let file: MeshFileControl.FileID
    /// At the other end; nil for everybody.
    package let peer: PeerID?

    package init(_ file: MeshFileControl.FileID, with peer: PeerID?) {
        self.file = file
        self.peer = peer
    }
}
