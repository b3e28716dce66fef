internal import NearshareBase
internal import NearshareBundles
internal import NearshareMesh

/// The mesh peers that are neighbours of the bundle router.
struct BundleNeighbourTable: Sendable {
    struct Addition: Sendable, Hashable {
        let endpoint: EndpointID
        let peer: PeerID
        let link: BundleLink
    }

    private var peers: [EndpointID: PeerID] = [:]

    func peer(_ endpoint: EndpointID) -> PeerID? { peers[endpoint] }

    func endpoint(of peer: PeerID) -> EndpointID? { peers.first { $0.value == peer }?.key }

    /// Replaces the peers.
    /// - Returns: the endpoints that are no longer neighbours, and the new ones with their links.
    mutating func update(
        to present: [BundleNeighbour]
    ) -> (removed: [EndpointID], added: [Addition]) {
        var current: [EndpointID: PeerID] = [:]
        var added: [Addition] = []
        for neighbour in present {
            let endpoint = EndpointID(of: neighbour.signingKey)
            current[endpoint] = peers[endpoint] ?? neighbour.id
            guard peers[endpoint] == nil else { continue }
            // Even a stream may lose what was written last, with the link or with the process at its other end: only a receipt
            // proves that a bundle is stored.
            let link = BundleLink(isRadio: neighbour.isRadio || !neighbour.isDirect, isReliable: false)
            added.append(Addition(endpoint: endpoint, peer: neighbour.id, link: link))
        }
        let removed = peers.keys.filter { current[$0] == nil }
        peers = current
        return (removed, added)
    }
}
