internal import NearshareBase
internal import NearshareBundles
internal import NearshareMesh

/// The mesh peers that are neighbours of the bundle router.
struct BundleNeighbourTable: Sendable {
    /// A peer, and the link by which it is reached.
    struct Entry: Sendable, Hashable {
        let peer: PeerID
        let link: BundleLink
    }

    struct Changes: Sendable, Hashable {
        /// Endpoints that are no longer neighbours, or belong to another peer now.
        var removed: [EndpointID] = []
        /// New neighbours, and endpoints of another peer than before.
        var added: [EndpointID: Entry] = [:]
        /// Neighbours that are reached by another link: of another kind, or from another machine.
        var relinked: [EndpointID: BundleLink] = [:]
    }

    private var entries: [EndpointID: Entry] = [:]

    func peer(_ endpoint: EndpointID) -> PeerID? { entries[endpoint]?.peer }

    func endpoint(of peer: PeerID) -> EndpointID? { entries.first { $0.value.peer == peer }?.key }

    /// Replaces the peers.
    mutating func replace(with present: [BundleNeighbour]) -> Changes {
        // Several peers may announce one signing key: the one that is known keeps it while it is present, otherwise the lowest ID
        // has it, in whatever order they come.
        let candidates = Dictionary(grouping: present) { EndpointID(of: $0.signingKey) }
        let next = candidates.compactMapValues { peers in
            (peers.first { entries[EndpointID(of: $0.signingKey)]?.peer == $0.id } ?? peers.min { $0.id.hex < $1.id.hex })
                .map(Entry.init)
        }
        var changes = Changes()
        for (endpoint, entry) in next {
            let old = entries[endpoint]
            if old?.peer != entry.peer {
                changes.added[endpoint] = entry
            } else if old?.link != entry.link {
                changes.relinked[endpoint] = entry.link
            }
        }
        changes.removed = entries.keys.filter { next[$0]?.peer != entries[$0]?.peer }
        entries = next
        return changes
    }
}

extension BundleNeighbourTable.Entry {
    fileprivate init(_ neighbour: BundleNeighbour) {
        // A peer behind phones is reached over their Bluetooth links. Even a stream may lose what was written last, with the link
        // or with the process at its other end: only a receipt proves that a bundle is stored.
        self.init(
            peer: neighbour.id,
            link: BundleLink(
                isRadio: neighbour.isRadio || !neighbour.isDirect, host: neighbour.source.map { BundleHost($0) }))
    }
}

extension BundleHost {
    fileprivate init(_ source: MeshLinkSource) {
        switch source {
        case .address(let address): self.init(address: address)
        case .link(let link): self.init(link: link.rawValue)
        }
    }
}
