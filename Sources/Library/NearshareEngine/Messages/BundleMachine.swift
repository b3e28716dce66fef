package import NearshareBase
package import NearshareBundles
internal import NearshareCrypto
package import NearshareInterfaces
package import NearshareMesh

/// A bundle that is sealed and signed, and not sent yet.
package struct PreparedBundle: Sendable {
    let bundle: OutgoingBundle
    /// The only neighbour that gets it; nil for a bundle that others forward.
    let neighbour: EndpointID?

    package init(bundle: OutgoingBundle, neighbour: EndpointID?) {
        self.bundle = bundle
        self.neighbour = neighbour
    }

    package var id: BundleID { bundle.id }
    package var isDirect: Bool { neighbour != nil }
}

/// A ``BundleRouter`` among the peers of a mesh, until its node stops.
package struct BundleMachine: Machine {
    package enum Reaction: Sendable {
        case perform(BundleReaction)
        /// Bundles can be sent to a peer directly now.
        case neighbourAppeared(PeerID)
        /// The router does not send a bundle, for this reason.
        case rejected(BundleID, BundleRejection)
    }

    package private(set) var router: BundleRouter
    private var neighbours = BundleNeighbourTable()
    private var reactions: [Reaction] = []
    private var isStopping = false

    /// Limit on reactions that wait to be performed. Beyond it packets are dropped, and sent again by routers that get no
    /// receipt (R1).
    package static let maximumReactionCount = 4_096

    package init(_ router: BundleRouter) {
        self.router = router
        collectReactions()
    }

    // MARK: Neighbours

    package func isNeighbour(_ peer: PeerID) -> Bool { neighbours.endpoint(of: peer) != nil }

    /// The peer with the address of an endpoint; nil when it is no neighbour.
    package func peer(_ endpoint: EndpointID) -> PeerID? { neighbours.peer(endpoint) }

    /// Whether a receiver is a neighbour. Any node can sign for an address; the session in which a direct bundle travels proves
    /// the other key.
    package func isInRange(_ receiver: EndpointKeys) -> Bool {
        router.isNeighbour(receiver.address) && neighbours.peer(receiver.address) == receiver.fingerprint.peerID
    }

    /// Replaces the neighbours.
    package mutating func setNeighbours(_ present: [BundleNeighbour], now: Moment) {
        let changes = neighbours.replace(with: present)
        for neighbour in changes.added.values { reactions.append(.neighbourAppeared(neighbour.peer)) }
        for endpoint in changes.removed { router.neighbourDown(endpoint, now: now) }
        for (endpoint, neighbour) in changes.added { router.neighbourUp(endpoint, link: neighbour.link, now: now) }
        for (endpoint, link) in changes.relinked { router.neighbourRelinked(endpoint, link: link, now: now) }
        collectReactions()
    }

    // MARK: Bundles

    package mutating func send(_ prepared: PreparedBundle, now: Moment) {
        do throws(BundleRejection) {
            if let neighbour = prepared.neighbour {
                try router.sendDirect(prepared.bundle, to: neighbour, now: now)
            } else {
                try router.send(prepared.bundle, now: now)
            }
        } catch {
            reactions.append(.rejected(prepared.id, error))
        }
        collectReactions()
    }

    /// Replaces a readable bundle of this node by the same one with another time of creation.
    /// - Returns: the id of the new bundle; nil for a bundle that cannot be replaced, which stays.
    mutating func redate(_ copy: BundleCopy, created: WallTime, now: Moment) -> BundleID? {
        defer { collectReactions() }
        return router.redate(copy, created: created, now: now)
    }

    /// Deletes a bundle of this node that another one replaces.
    mutating func discard(_ id: BundleID, now: Moment) {
        router.discard(id, now: now)
        collectReactions()
    }

    /// Ignores packets of peers that are no neighbours.
    package mutating func receive(_ packet: BundlePacket, from peer: PeerID, now: Moment) {
        guard reactions.count < Self.maximumReactionCount, let endpoint = neighbours.endpoint(of: peer) else { return }
        router.receive(packet, from: endpoint, now: now)
        collectReactions()
    }

    // MARK: Machine

    /// Finishes once the reactions that wait are performed.
    package mutating func stop() { isStopping = true }

    package var deadline: MonotonicInstant? { isStopping ? nil : router.deadline }
    package var hasReactions: Bool { !reactions.isEmpty }
    package var isFinished: Bool { isStopping }

    package mutating func advance(to now: Moment) {
        router.advance(to: now)
        collectReactions()
    }

    package mutating func drainReactions() -> [Reaction] {
        defer { reactions = [] }
        return reactions
    }

    private mutating func collectReactions() {
        reactions += router.drainReactions().map { .perform($0) }
    }
}

extension BundleRouter {
    /// Restores the state that a store has kept.
    package mutating func restore(from store: any BundleStore, now: Moment) throws(StorageError) {
        try store.removeExpired(now: now.wall)
        let stored = try store.bundles().compactMap { persisted -> StoredBundle? in
            guard let copy = try? BundleCopy(decoding: persisted.copy[...]) else { return nil }
            return StoredBundle(
                id: persisted.id, copy: copy, previousNode: persisted.previousNode,
                host: persisted.host.map { BundleHost(rawValue: $0) } ?? .unknown, forwardCount: persisted.forwardCount)
        }
        restore(stored, delivered: try store.deliveries(), now: now)
    }
}
