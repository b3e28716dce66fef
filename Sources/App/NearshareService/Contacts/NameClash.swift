internal import Nearshare

/// The messages about a peer that uses the name of another known one (K2).
enum NameClash {
    /// - Parameters:
    ///   - name: the name under which lists show the peer; nil where it has none.
    ///   - owner: the key of the peer to which the name belongs.
    static func sentence(about name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint) -> String {
        "\(name?.identified(by: id) ?? id.hex) uses the name of a peer that you know with another key, \(owner.peerID); if that key has "
            + "changed, run `nearshare peers forget \(owner.peerID)`; otherwise another peer uses the name"
    }

    /// The same for what the user sends by the name.
    static func refusal(of name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint) -> String {
        "nothing was sent: \(sentence(about: name, id, ownedBy: owner)); use the id \(id) if you mean it"
    }
}
