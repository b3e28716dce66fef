package import Nearshare

/// A peer as the user knows it.
package struct ShownPeer: Sendable, Hashable {
    package let id: PeerID
    /// The name that the user has given to the peer, or else the one that it claims.
    package let name: DisplayName
    /// The source that a share of others' room counts for: keys are free, so peers that are no friends count by their address.
    package let limitSource: String

    package init(id: PeerID, name: DisplayName, limitSource: String) {
        self.id = id
        self.name = name
        self.limitSource = limitSource
    }
}

extension LocalMachine {
    /// The peer under the name that the user has given to its key; under the claimed one where the trust store cannot be read.
    func shown(_ peer: Peer) -> ShownPeer {
        ShownPeer(
            id: peer.id, name: givenName(of: peer.fingerprint) ?? peer.name,
            limitSource: (peer.trustStatus.isFriend ? nil : peer.address?.limitKey) ?? peer.id.hex)
    }

    /// Whether the owner of a key is a friend; false where the trust store cannot be read.
    func isFriend(_ fingerprint: Fingerprint) -> Bool { (try? trust.read())?[fingerprint]?.isFriend ?? false }

    /// The user's own name for the owner of a key.
    func givenName(of fingerprint: Fingerprint) -> DisplayName? {
        (try? trust.read())?.entries[fingerprint]?.givenName
    }
}

extension TrustStore {
    /// The trust in a peer as its claimed id says, for lists; with a note where the peer was never met and its name may imitate
    /// another one (T9).
    package func trustText(claiming id: PeerID, named name: DisplayName) -> String {
        let status = trustStatus(claiming: id, named: name)
        return status.isKnown || !AlphabetMixture.isFound(in: name.claimed)
            ? status.label : "\(status.label), \(AlphabetMixture.note)"
    }

    /// The user's own name for a peer that claims an id, or else the name that it claims. Not proven: for lists of peers nearby.
    package func shownName(claiming id: PeerID, named name: DisplayName) -> DisplayName {
        entry(claiming: id)?.entry.givenName ?? name
    }
}
