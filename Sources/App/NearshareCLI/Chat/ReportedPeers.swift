internal import Nearshare

/// The peers that the chat has reported to the user, and under which names. The user can write to them as to known peers, and no
/// notice about them is repeated.
struct ReportedPeers: Sendable {
    private var peers: Set<PeerID> = []
    /// By the name that was looked for, in lower case.
    private var peersByName: [String: Set<PeerID>] = [:]
    private var namesakes: Set<PeerID> = []

    /// Whether a new peer was reported, or the user has written to it.
    func contains(_ peer: PeerID) -> Bool { peers.contains(peer) }

    /// The peers that were reported when the user looked for a name.
    func peers(named name: String) -> Set<PeerID> { peersByName[name.lowercased()] ?? [] }

    /// Records a peer to which the user writes.
    mutating func insert(_ peer: PeerID) { peers.insert(peer) }

    /// Records a peer that is reported as the one that has a name.
    mutating func insert(_ peer: PeerID, named name: String) {
        peers.insert(peer)
        peersByName[name.lowercased(), default: []].insert(peer)
    }

    /// Whether no notice is needed that another device has the peer's name: it was shown, or the user has named the peer by an id.
    func isNamesakeSettled(of peer: PeerID) -> Bool { namesakes.contains(peer) }

    /// Records that no notice about another device with the peer's name is needed any more.
    mutating func settleNamesake(of peer: PeerID) { namesakes.insert(peer) }
}
