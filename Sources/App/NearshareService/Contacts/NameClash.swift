internal import Nearshare

/// A peer that uses the name of another known one (K2): the messages about it, and the refusal to send to it.
enum NameClash {
    /// - Parameters:
    ///   - name: the name under which lists show the peer; nil where it has none.
    ///   - owner: the key of the peer to which the name belongs.
    ///   - former: the name by which the user knows the peer; nil for none.
    static func sentence(
        about name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint, knownAs former: DisplayName? = nil
    ) -> String {
        "\(name?.identified(by: id) ?? id.hex) uses the name of a peer that you know with another key, \(owner.peerID); if that key has "
            + "changed, run `nearshare peers forget \(owner.peerID)`; otherwise another peer uses the name"
            + (former.map { ": the one that you know as \($0.shown)" } ?? "")
    }

    /// The same for what the user sends by the name.
    static func refusal(
        of name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint, knownAs former: DisplayName? = nil
    ) -> String {
        "nothing was sent: \(sentence(about: name, id, ownedBy: owner, knownAs: former)); use the id \(id) if you mean it"
    }

    /// Stops a send, by name, to a peer that answers to the name of another known one.
    /// - Parameter trust: nil where it cannot be read.
    static func refuseSend(
        to fingerprint: Fingerprint, _ trustStatus: TrustStatus, claiming name: DisplayName?, in trust: TrustStore?
    ) throws(CommandFailure) {
        let owner: Fingerprint? =
            if case .nameClash(let owner) = trustStatus {
                owner
            } else {
                name.flatMap { trust?.otherOwner(of: $0, claimedBy: fingerprint) }
            }
        guard let owner else { return }
        let known = name.map { trust?.name(of: fingerprint, claiming: $0) ?? $0 }
        let former = name.flatMap { trust?.formerName(of: fingerprint, claiming: $0) }
        throw CommandFailure(.notTrusted, refusal(of: known, fingerprint.peerID, ownedBy: owner, knownAs: former))
    }
}
