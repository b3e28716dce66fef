internal import Nearshare

/// The peers that the chat has reported to the user, and under which name: lines may go to them as to known ones, and no notice about
/// them is repeated.
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

    /// Whether the user was told that another device has the peer's name, or has named the peer by an id.
    func isNamesakeReported(of peer: PeerID) -> Bool { namesakes.contains(peer) }

    /// Records that the user was told of another device with the peer's name, or needs no notice of it.
    mutating func recordNamesake(of peer: PeerID) { namesakes.insert(peer) }
}
