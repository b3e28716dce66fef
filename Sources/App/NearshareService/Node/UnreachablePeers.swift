internal import Nearshare

/// The nodes nearby of which the user was told that they do not answer.
struct UnreachablePeers {
    /// Limit on those that are not known: any host can announce any number (R11).
    static let unknownCapacity = 3
    static let capacity = 64

    private var ids: Set<PeerID> = []
    private var unknownCount = 0

    /// - Returns: nil for a node that was told of before, for a blocked one, and beyond the limits.
    mutating func notice(about peer: NearbyPeer, _ trust: TrustStore) -> String? {
        let status = trust.trustStatus(claiming: peer.id, named: peer.name)
        guard !status.isBlocked, ids.count < Self.capacity, status.isKnown || unknownCount < Self.unknownCapacity,
            let address = peer.meshAddresses.first, ids.insert(peer.id).inserted
        else { return nil }
        if !status.isKnown { unknownCount += 1 }
        let name = trust.shownName(claiming: peer.id, named: peer.name).quoted(of: peer.id)
        return
            "\(name) is announced at \(address), but does not answer there: a firewall may drop it, here or there; "
            + "`sudo nearshare doctor` says so"
    }
}
