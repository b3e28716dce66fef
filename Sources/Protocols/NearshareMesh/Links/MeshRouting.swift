internal import NearshareBase

/// Selects the links on which a packet is sent, by the known peers and the open links.
struct MeshRouting {
    /// This node.
    let own: PeerID
    let peers: PeerTable
    let links: LinkTable

    /// The links for a packet of this node or of another, in ascending order.
    /// - Parameter arrival: the link on which it was received, and on which it is not sent.
    func links(for packet: MeshPacket, excluding arrival: MeshLinkID? = nil) -> [MeshLinkID] {
        var towards: Set<MeshLinkID> = []
        switch RouteDecision(for: packet, at: own, isNeighbour: peers.isNeighbour) {
        case .discard: return []
        case .neighbour(let hop): towards = peers[hop]?.links.proven ?? []
        case .everyone:
            // Only proven links: any neighbour can replay a peer's announcement, and would get all that is for the peer.
            if packet.isDirected, let recipient = packet.recipient { towards = peers[recipient]?.links.proven ?? [] }
        }
        // A neighbour may pass on another's proof, so packets of this node are also sent where the peer has answered from.
        if packet.sender == own, !towards.isEmpty, let recipient = packet.recipient,
            let link = peers[recipient]?.links.reverseRoute
        {
            towards.insert(link)
        }
        let open = towards.filter(links.contains)
        return onePerNeighbour(open.isEmpty ? links.ids : open, excluding: arrival).sorted { $0.rawValue < $1.rawValue }
    }

    /// The links on which a fragment for `destination` is sent, in ascending order.
    func links(for destination: FragmentJob.Destination) -> [MeshLinkID] {
        switch destination {
        case .link(let link): return links.contains(link) ? [link] : []
        case .peer(let id):
            guard let record = peers[id], let best = links.best(of: record.links.proven) else { break }
            // A neighbour may pass on another's proof; an authentic message was received from the peer's direction.
            guard let authenticated = record.links.reverseRoute, links.contains(authenticated) else { return [best] }
            return record.links.proven.contains(authenticated) ? [authenticated] : [best, authenticated]
        case .everyone: break
        }
        return onePerNeighbour(links.ids).sorted { $0.rawValue < $1.rawValue }
    }

    /// Keeps only the best link to each neighbour with several links, such as when both nodes have connected to each other or
    /// share a network and are in radio range: a second copy would be wasted. The neighbour from which a frame was received gets
    /// none.
    ///
    /// Any node can claim to be a neighbour's second link. So only proven links are left out, and never the authenticated one.
    func onePerNeighbour(_ given: Set<MeshLinkID>, excluding arrival: MeshLinkID? = nil) -> Set<MeshLinkID> {
        var chosen = given
        for record in peers.provenNeighbours.compactMap({ peers[$0] }) where record.links.proven.count > 1 {
            guard let authenticated = record.links.reverseRoute, record.links.proven.contains(authenticated),
                links.contains(authenticated)
            else { continue }
            let kept =
                arrival == authenticated ? [] : Set([authenticated, links.best(of: record.links.proven) ?? authenticated])
            for link in record.links.proven where !kept.contains(link) { chosen.remove(link) }
        }
        if let arrival { chosen.remove(arrival) }
        return chosen
    }

    /// The profile of the best link to a neighbour; nil for any other peer.
    func profile(to id: PeerID) -> MeshLinkProfile? {
        peers[id].flatMap { links.best(of: $0.links.proven) }.flatMap { links.profile(of: $0) }
    }

    /// Whether all links to a neighbour are radio links; also true for a peer without any.
    func isRadioOnly(_ record: PeerRecord) -> Bool {
        record.links.proven.compactMap { links.profile(of: $0) }.allSatisfy(\.isRadio)
    }

    /// Whether a packet for a peer takes a radio hop, as far as this node knows: for a peer behind relays, whether every first
    /// hop is one.
    func needsRadio(to id: PeerID) -> Bool {
        guard let record = peers[id] else { return false }
        return record.isNeighbour ? isRadioOnly(record) : !links.isEmpty && links.profiles.allSatisfy(\.isRadio)
    }
}
