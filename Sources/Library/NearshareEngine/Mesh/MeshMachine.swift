package import NearshareBase
package import NearshareMesh

/// A ``MeshRouter`` with its open links, from the first link until this node has left the mesh.
///
///     running ──leave──► leaving ──last link closed, or farewell timeout──► finished
package struct MeshMachine: Machine {
    private enum Phase: Sendable {
        case running
        /// The node has announced that it leaves; queued frames still go out, until this time.
        case leaving(until: MonotonicInstant)
        case finished
    }

    package var router: MeshRouter
    private var phase = Phase.running
    private struct Link: Sendable {
        /// The address of the neighbour that opened the link; nil for one that this node opened, and for a radio.
        let address: String?
        let opened: MonotonicInstant
    }

    private var links: [MeshLinkID: Link] = [:]
    private var lastLink: UInt64 = 0
    /// Links that gave way to others, and are to be closed.
    private var replaced: [MeshLinkID] = []

    /// Limit on links, this node's and others' together.
    package static let maximumLinkCount = 16
    /// Limit on links that others opened; the rest is for those that this node opens.
    package static let maximumIncomingLinkCount = 12
    /// Time in which a neighbour proves its key, before its link may give way to another.
    package static let acquaintanceTimeout = Duration.seconds(5)
    /// Time for the queued frames when the node leaves.
    package static let farewellTimeout = Duration.milliseconds(500)

    package init(_ router: MeshRouter) {
        self.router = router
    }

    // MARK: Links

    package var hasRoomForLinks: Bool { !isLeaving && links.count < Self.maximumLinkCount }

    /// Whether frames are to be written to a link.
    package func isOpen(_ link: MeshLinkID) -> Bool { links[link] != nil }

    /// Adds a link. When there are too many, one that others opened gives way: first one whose neighbour has not proven its key,
    /// then one of an address with several (R3).
    /// - Parameter address: of a neighbour that opened the link; nil for a link of this node, and for a radio.
    /// - Returns: nil when there are too many links, or the node leaves.
    package mutating func linkUp(_ profile: MeshLinkProfile, from address: String? = nil, now: Moment) -> MeshLinkID? {
        guard !isLeaving else { return nil }
        let incomingCount = links.values.count { $0.address != nil }
        if links.count >= Self.maximumLinkCount || (address != nil && incomingCount >= Self.maximumIncomingLinkCount) {
            guard let link = replaceable(by: address, now: now.monotonic) else { return nil }
            links[link] = nil
            replaced.append(link)
            router.linkDown(link, now: now)
        }
        lastLink += 1
        let id = MeshLinkID(rawValue: lastLink)
        links[id] = Link(address: address, opened: now.monotonic)
        router.linkUp(id, profile, from: address.map { .address($0) }, now: now)
        return id
    }

    private func replaceable(by address: String?, now: MonotonicInstant) -> MeshLinkID? {
        var counts: [String: Int] = [:]
        for link in links.values { if let address = link.address { counts[address, default: 0] += 1 } }
        // An address takes no place from others while it has several.
        let own = address.flatMap { counts[$0] } ?? 0
        func isWorse(_ count: Int) -> Bool { count > max(1, own) }
        let candidates = links.compactMap { id, link -> (id: MeshLinkID, count: Int, isAcquainted: Bool)? in
            guard let address = link.address, let count = counts[address] else { return nil }
            let isAcquainted = router.isAcquainted(id) || now - link.opened < Self.acquaintanceTimeout
            guard isWorse(count) || (!isAcquainted && count >= own) else { return nil }
            return (id, count, isAcquainted)
        }
        return candidates.min {
            ($0.isAcquainted ? 1 : 0, -$0.count, $0.id.rawValue) < ($1.isAcquainted ? 1 : 0, -$1.count, $1.id.rawValue)
        }?.id
    }

    /// Removes and returns the links that gave way to others.
    package mutating func drainReplaced() -> [MeshLinkID] {
        defer { replaced = [] }
        return replaced
    }

    /// The link no longer reads, so it needs no more frames.
    package mutating func stopWriting(to link: MeshLinkID) {
        links[link] = nil
        finishIfUnlinked()
    }

    package mutating func linkDown(_ link: MeshLinkID, now: Moment) {
        router.linkDown(link, now: now)
        links[link] = nil
        finishIfUnlinked()
    }

    // MARK: Leaving

    /// Whether the node leaves, or has left.
    package var isLeaving: Bool { if case .running = phase { false } else { true } }

    /// Announces to the neighbours that this node leaves. Links accept no more frames than are queued then.
    package mutating func leave(now: Moment) {
        guard !isLeaving else { return }
        router.leave(now: now)
        phase = .leaving(until: now.monotonic + Self.farewellTimeout)
        finishIfUnlinked()
    }

    private mutating func finishIfUnlinked() {
        if case .leaving = phase, links.isEmpty { phase = .finished }
    }

    // MARK: Machine

    package var deadline: MonotonicInstant? {
        switch phase {
        case .running: router.deadline
        case .leaving(let end): min(router.deadline ?? end, end)
        case .finished: nil
        }
    }

    package var hasReactions: Bool { router.hasEvents }

    package var isFinished: Bool { if case .finished = phase { true } else { false } }

    package mutating func advance(to now: Moment) {
        router.advance(to: now)
        if case .leaving(let end) = phase, now.monotonic >= end { phase = .finished }
    }

    package mutating func drainReactions() -> [MeshEvent] { router.drainEvents() }
}
