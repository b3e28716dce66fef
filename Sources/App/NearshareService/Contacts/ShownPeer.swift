package import Nearshare

/// A peer as the user knows it.
package struct ShownPeer: Sendable, Hashable {
    package let id: PeerID
    /// The name that the user has given to the peer, or else the one that it claims.
    package let name: DisplayName
    /// The key under which limits count what the peer causes. Keys of peers are free, so peers that are no friends share the limits of
    /// their address. An item from the spool has no address, and counts for its sender's id.
    package let limitSource: String

    package init(id: PeerID, name: DisplayName, limitSource: String) {
        self.id = id
        self.name = name
        self.limitSource = limitSource
    }
}

extension LocalMachine {
    /// The peer under the name by which the user knows it.
    func shown(_ peer: Peer) -> ShownPeer {
        ShownPeer(
            id: peer.id, name: name(of: peer.fingerprint, claiming: peer.name),
            limitSource: (peer.trustStatus.isFriend ? nil : peer.address?.limitKey) ?? peer.id.hex)
    }

    /// The sender of a received item.
    func sender(of entry: ReceiveHistory.Entry) -> ShownPeer {
        let id = entry.peer.peerID
        return ShownPeer(id: id, name: name(of: entry.peer, claiming: entry.peerName), limitSource: id.hex)
    }

    /// The address at which a peer has last proven its key; nil for one that was never reached on the network.
    func lastAddress(of id: PeerID) -> LinkAddress? {
        (try? RecentPeers.read(in: state))?.address(of: id).flatMap { LinkAddress(parsing: $0) }
    }

    /// Whether the owner of a key is a friend; false where the trust store cannot be read.
    func isFriend(_ fingerprint: Fingerprint) -> Bool { (try? trust.read())?[fingerprint]?.isFriend ?? false }

    /// The name under which the user knows the owner of a key; the claimed one where the trust store cannot be read.
    func name(of fingerprint: Fingerprint, claiming name: DisplayName) -> DisplayName {
        (try? trust.read())?.name(of: fingerprint, claiming: name) ?? name
    }

    /// The name under which the user knows the owner of a key. Where it claims no name, such as a peer at an address: the given
    /// name, or else the last claimed one; nil for an unknown peer, and for one whose claimed name is contested.
    func name(of fingerprint: Fingerprint, claiming name: DisplayName?) -> DisplayName? {
        if let name { return .some(self.name(of: fingerprint, claiming: name)) }
        guard let entry = (try? trust.read())?[fingerprint] else { return nil }
        return entry.givenName ?? (entry.isNameContested ? nil : entry.claimedName)
    }
}

extension TrustStore {
    /// The trust in a peer of a list, whose claimed id is not proven. A note follows where the peer was never met and its name may
    /// imitate another one (T9).
    package func trustText(claiming id: PeerID, named name: DisplayName) -> String {
        let status = trustStatus(claiming: id, named: name)
        if case .nameClash = status {
            let known = formerName(claiming: id, named: name).map { ", known as \($0.shown)" } ?? ""
            return "\(status.label): another key\(known)"
        }
        return status.isKnown || !MixedScripts.isFound(in: name.claimed)
            ? status.listText : "\(status.listText), \(MixedScripts.note)"
    }

    /// The same as ``formerName(of:claiming:)``, for the id of a peer in a list, which is not proven.
    func formerName(claiming id: PeerID, named name: DisplayName) -> DisplayName? {
        entry(claiming: id).flatMap { formerName(of: $0.fingerprint, claiming: name) }
    }

    /// The name of a peer in lists of what was sent and received: the name by which the user knows the peer, or else the one that it
    /// claimed at the time. A tag follows where another known peer has the name (K2).
    package func listedName(of id: PeerID, claiming claimed: DisplayName) -> String {
        let name = entry(claiming: id)?.entry.name ?? claimed
        let isTagged = if case .nameClash = trustStatus(claiming: id, named: name) { true } else { false }
        return name.shown(of: id, columns: 24, isTagged: isTagged)
    }

    /// Peers nearby under the names by which the user knows them, for lists; blocked ones are left out.
    func unblocked(_ peers: [NearbyPeer]) -> [NearbyPeer] {
        peers.filter { !trustStatus(claiming: $0.id, named: $0.name).isBlocked }.map(replacingName)
    }

    /// The peer under the name by which the user knows it, for lists.
    private func replacingName(of peer: NearbyPeer) -> NearbyPeer {
        var peer = peer
        peer.name = shownName(claiming: peer.id, named: peer.name)
        return peer
    }

    /// The name under which the user knows the peer that has an id. The id is claimed, not proven: only for lists of peers nearby.
    package func shownName(claiming id: PeerID, named name: DisplayName) -> DisplayName {
        entry(claiming: id).map { self.name(of: $0.fingerprint, claiming: name) } ?? name
    }
}
