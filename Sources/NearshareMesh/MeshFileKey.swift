public import NearshareBase
public import NearshareWire

/// Names one file on its way: the same file may go to several peers at once, and come from several, each time by itself.
public struct MeshFileKey: Sendable, Hashable {
    public let file: MeshFileControl.FileID
    /// At the other end; nil for everybody.
    public let peer: PeerID?

    public init(_ file: MeshFileControl.FileID, with peer: PeerID?) {
        self.file = file
        self.peer = peer
    }
}
