internal import Nearshare

/// The peers that the chat has shown to the user as new, and under which names. The user can write to them as to known peers, and
/// no notice about them is repeated.
struct AnnouncedPeers: Sendable {
    private var peers: Set<PeerID> = []
    /// By the name that was looked for, in lower case.
    private var peersByName: [String: Set<PeerID>] = [:]
    private var peersWithoutSharedNameNotice: Set<PeerID> = []

    /// Whether a new peer was announced, or the user has written to it.
    func contains(_ peer: PeerID) -> Bool { peers.contains(peer) }

    /// The peers that were announced when the user looked for a name.
    func peers(named name: String) -> Set<PeerID> { peersByName[name.lowercased()] ?? [] }

    /// Records a peer to which the user writes.
    mutating func insert(_ peer: PeerID) { peers.insert(peer) }

    /// Records a peer that is announced as the one that has a name.
    mutating func insert(_ peer: PeerID, named name: String) {
        peers.insert(peer)
        peersByName[name.lowercased(), default: []].insert(peer)
    }

    /// Whether no notice is needed that another device has the peer's name: it was shown, or the user has named the peer by an id.
    func isSharedNameNoticeSuppressed(for peer: PeerID) -> Bool { peersWithoutSharedNameNotice.contains(peer) }

    /// Suppresses further notices that another device has the peer's name.
    mutating func suppressSharedNameNotice(for peer: PeerID) { peersWithoutSharedNameNotice.insert(peer) }
}
