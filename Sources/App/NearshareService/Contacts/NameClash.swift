internal import Nearshare

/// A peer that uses the name of another known one (K2): the messages about it, and the refusal to send to it.
enum NameClash {
    /// - Parameters:
    ///   - name: the name under which lists show the peer; nil where it has none.
    ///   - owner: the key of the peer to which the name belongs.
    ///   - trust: says by which name the user knows the peer itself; nil where it cannot be read.
    static func sentence(
        about name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint, in trust: TrustStore? = nil
    ) -> String {
        if let trust, let own = ownName(of: id, using: name, ownedBy: owner, in: trust) {
            let other = trust[owner]?.name.identified(by: owner.peerID) ?? owner.peerID.hex
            return "\(own.name.identified(by: id)) now uses the name of another peer that you know, \(other)"
                + (own.mayBeGiven
                    ? "; `nearshare peers rename \(id) NAME` gives it a name of your own, by which you can send to it" : "")
        }
        return "\(name?.identified(by: id) ?? id.hex) uses the name of a peer that you know with another key, \(owner.peerID); "
            + "if that key has changed, run `nearshare peers forget \(owner.peerID)`; otherwise another peer uses the name"
    }

    /// The name by which the user knows a peer that uses the name of another one; nil for none. That other one's key has not
    /// changed, then.
    /// - Returns: also whether the user can reach it by name after giving it one.
    private static func ownName(
        of id: PeerID, using name: DisplayName?, ownedBy owner: Fingerprint, in trust: TrustStore
    ) -> (name: DisplayName, mayBeGiven: Bool)? {
        // Another key with the id of a known one is not that peer.
        guard owner.peerID != id, let entry = trust.entry(claiming: id)?.entry else { return nil }
        if let given = entry.givenName { return (given, false) }
        // A trusted peer is found by its own name, whichever one it uses.
        if entry.isTrusted, !entry.isNameContested { return (entry.claimedName, false) }
        guard let name, let former = trust.formerName(claiming: id, named: name) else { return nil }
        // A name that the user has given to the other one is refused in any case.
        return (former, trust[owner]?.givenName == nil)
    }

    /// The sentence about what the user sends by the name.
    static func refusal(
        of name: DisplayName?, _ id: PeerID, ownedBy owner: Fingerprint, in trust: TrustStore?
    ) -> String {
        "nothing was sent: \(sentence(about: name, id, ownedBy: owner, in: trust)); use the id \(id) if you mean it"
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
        throw CommandFailure(.notTrusted, refusal(of: known, fingerprint.peerID, ownedBy: owner, in: trust))
    }
}
