internal import NearshareBase
internal import NearshareBundles
internal import NearshareMesh

/// The mesh peers that are neighbours of the bundle router.
struct BundleNeighbourTable: Sendable {
    struct Added: Sendable, Hashable {
        let endpoint: EndpointID
        let peer: PeerID
        let link: BundleLink
    }

    private var peerIDs: [EndpointID: PeerID] = [:]

    func peer(_ endpoint: EndpointID) -> PeerID? { peerIDs[endpoint] }

    func endpoint(of peer: PeerID) -> EndpointID? { peerIDs.first { $0.value == peer }?.key }

    /// Replaces the peers.
    /// - Returns: the endpoints that are no longer neighbours, and the new ones with their links. An endpoint whose peer has
    ///   changed is among both.
    mutating func replace(
        with present: [BundleNeighbour]
    ) -> (removed: [EndpointID], added: [Added]) {
        // Several peers may announce one signing key: the one that is known keeps it while it is present, otherwise the lowest ID
        // has it, in whatever order they come.
        let candidates = Dictionary(grouping: present) { EndpointID(of: $0.signingKey) }
        let next = candidates.compactMapValues { peers in
            peers.first { peerIDs[EndpointID(of: $0.signingKey)] == $0.id } ?? peers.min { $0.id.hex < $1.id.hex }
        }
        var added: [Added] = []
        for (endpoint, neighbour) in next where peerIDs[endpoint] != neighbour.id {
            // Even a stream may lose what was written last, with the link or with the process at its other end: only a receipt
            // proves that a bundle is stored.
            // A peer behind phones is reached over their Bluetooth links.
            let link = BundleLink(isRadio: neighbour.isRadio || !neighbour.isDirect, isReliable: false)
            added.append(Added(endpoint: endpoint, peer: neighbour.id, link: link))
        }
        let removed = peerIDs.keys.filter { next[$0]?.id != peerIDs[$0] }
        peerIDs = next.mapValues(\.id)
        return (removed, added)
    }
}
