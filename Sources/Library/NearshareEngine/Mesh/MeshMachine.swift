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
    private var links: Set<MeshLinkID> = []
    private var lastLink: UInt64 = 0

    /// Limit on links, this node's and others' together.
    package static let maximumLinkCount = 16
    /// Time for the queued frames when the node leaves.
    package static let farewellTimeout = Duration.milliseconds(500)

    package init(_ router: MeshRouter) {
        self.router = router
    }

    // MARK: Links

    package var hasRoomForLinks: Bool { !isLeaving && links.count < Self.maximumLinkCount }

    /// Whether frames are to be written to a link.
    package func isOpen(_ link: MeshLinkID) -> Bool { links.contains(link) }

    /// - Returns: nil when there are too many links, or the node leaves.
    package mutating func linkUp(_ profile: MeshLinkProfile, now: Moment) -> MeshLinkID? {
        guard hasRoomForLinks else { return nil }
        lastLink += 1
        let id = MeshLinkID(rawValue: lastLink)
        links.insert(id)
        router.linkUp(id, profile, now: now)
        return id
    }

    /// The link no longer reads, so it needs no more frames.
    package mutating func stopWriting(to link: MeshLinkID) {
        links.remove(link)
        finishIfUnlinked()
    }

    package mutating func linkDown(_ link: MeshLinkID, now: Moment) {
        router.linkDown(link, now: now)
        links.remove(link)
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
