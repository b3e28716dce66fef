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
        /// The machine of the neighbour that opened the link; nil for one that this node opened, and for a radio.
        let address: String?
        let opened: MonotonicInstant
        /// Whether the opening was counted for the neighbour that has proven its key.
        var isCounted = false
    }

    private var links: [MeshLinkID: Link] = [:]
    private var openings = LinkOpenings<String>()
    /// Link openings of neighbours that have proven their keys.
    private var returns = LinkOpenings<PeerID>()
    /// When a link of each address last took the slot of a proven neighbour at the same address.
    private var displacements: [String: MonotonicInstant] = [:]
    private var lastLink: UInt64 = 0
    /// Links that gave way to others, and are to be closed.
    private var replaced: [MeshLinkID] = []

    /// Limit on links, this node's and others' together.
    package static let maximumLinkCount = 16
    /// Limit on links that others opened; the rest is for those that this node opens.
    package static let maximumIncomingLinkCount = MeshRouter.maximumIncomingLinkCount
    /// Links of untrusted neighbours among them that stay for ``untrustedLinkTimeout``. The rest is for friends, and for newcomers,
    /// whose keys are not proven yet.
    package static let maximumUntrustedLinkCount = 6
    /// Time in which a neighbour that has announced itself proves its key, and in which its link gives way as one of the last.
    package static let proofTimeout = Duration.seconds(2)
    /// Time after a proven neighbour has given way to another link of its address, in which no further one does that came once and
    /// asks for little. Keys cost nothing, so an address with a new one each time, as behind one NAT, pushes out one neighbour in
    /// this time: a newcomer stays for as many of these times as there are links beyond ``maximumUntrustedLinkCount``. A neighbour
    /// that has given way for its excess, and returns at once, finds only its like to displace.
    package static let displacementPause = Duration.seconds(2)
    /// Time after which an untrusted neighbour's link may give way to another, as on the direct path (Q6).
    package static let untrustedLinkTimeout = Duration.seconds(60)
    /// Time in which a silent link gives way only after those of neighbours that return, and of addresses with several, and in
    /// which one whose neighbour has announced itself gives way to none.
    package static let announcementTimeout = Duration.milliseconds(250)
    /// Time for the queued frames when the node leaves.
    package static let farewellTimeout = Duration.milliseconds(500)

    package init(_ router: MeshRouter) {
        self.router = router
    }

    // MARK: Links

    package var hasRoomForLinks: Bool { !isLeaving && links.count < Self.maximumLinkCount }

    /// Whether frames are to be written to a link.
    package func isOpen(_ link: MeshLinkID) -> Bool { links[link] != nil }

    /// Adds a link. When there are too many, one that others opened gives way (R3).
    /// - Parameters:
    ///   - address: of a neighbour that opened the link; nil for a link of this node, and for a radio.
    ///   - friends: peers whose links never give way.
    /// - Returns: nil when there are too many links, or the node leaves.
    package mutating func linkUp(
        _ profile: MeshLinkProfile, from address: String? = nil, friends: Set<PeerID> = [], now: Moment
    ) -> MeshLinkID? {
        guard !isLeaving else { return nil }
        for link in links.keys { countReturn(on: link, now: now.monotonic) }
        let incomingCount = links.values.count { $0.address != nil }
        if links.count >= Self.maximumLinkCount || (address != nil && incomingCount >= Self.maximumIncomingLinkCount) {
            guard let link = replaceable(by: address, friends, now: now.monotonic) else { return nil }
            links[link] = nil
            replaced.append(link)
            router.linkDown(link, now: now)
        }
        lastLink += 1
        let id = MeshLinkID(rawValue: lastLink)
        if let address { openings.record(address, now: now.monotonic) }
        links[id] = Link(address: address, opened: now.monotonic)
        router.linkUp(id, profile, from: address.map { .address($0) }, now: now)
        return id
    }

    /// The link that gives way to a new one: the oldest of those that give way first, and among these of the address with most
    /// links in the last minute, closed ones included. An address takes no slot from one that had fewer, and from a proven
    /// neighbour none from one that had as many: a peer that returns pushes out none that came once. The same holds for keys: a
    /// neighbour that has returned within a minute gives way before one that came once, and one that asks for more than its limits
    /// permit before others of its address, the one with the largest excess first. The latter counts as one that has returned when
    /// it comes again within a minute, however long it was there: it keeps a slot only until another link needs one.
    private mutating func replaceable(by address: String?, _ friends: Set<PeerID>, now: MonotonicInstant) -> MeshLinkID? {
        let counts = openings.counts(including: links.values.compactMap(\.address), now: now)
        let own = address.flatMap { counts[$0] } ?? 0
        let returns = returns.counts(now: now)
        displacements = displacements.filter { now - $0.value < Self.displacementPause }
        let isPaused = address.map { displacements[$0] != nil } ?? false
        var untrustedCount = 0
        var isOwnUnproven = false
        let candidates = links.sorted { $0.key.rawValue < $1.key.rawValue }
            .compactMap { id, link -> (id: MeshLinkID, order: Int, count: Int, excess: Double)? in
                guard let holder = link.address, let count = counts[holder] else { return nil }
                let isOwn = holder == address
                let age = now - link.opened
                let excess = isOwn ? router.excess(of: id, now: now) : 0
                let order: Int?
                let authentication = router.linkAuthentication(of: id)
                if isOwn, !authentication.isProven { isOwnUnproven = true }
                switch authentication {
                case .silent: order = age >= Self.announcementTimeout ? 0 : 3
                case .claimed where age >= Self.proofTimeout: order = 1
                // A contact's signing key is pinned, so no other peer proves to have its id.
                case .proven(let peer, isContact: true) where friends.contains(peer): order = nil
                case .claimed: order = count > max(1, own) ? 2 : age >= Self.announcementTimeout ? 5 : nil
                case .proven where excess > 0: order = 1
                case .proven(let peer, _) where returns[peer, default: 0] > 1: order = 1
                case .proven:
                    untrustedCount += 1
                    let isOver = untrustedCount > Self.maximumUntrustedLinkCount && age >= Self.proofTimeout
                    guard isOwn ? !isPaused : count > own else { return nil }
                    order = count > max(1, own) ? 2 : age >= Self.untrustedLinkTimeout ? 4 : isOver ? 6 : nil
                }
                return count >= own ? order.map { (id, $0, count, excess) } : nil
            }
        let first = candidates.min {
            ($0.order, -$0.count, -$0.excess, $0.id.rawValue) < ($1.order, -$1.count, -$1.excess, $1.id.rawValue)
        }
        // An address takes the slot of a neighbour that came once when it has proven who is at the end of all its other links.
        guard let first, !isOwnUnproven || !router.linkAuthentication(of: first.id).isProven || first.order < 3 else {
            return nil
        }
        if let address, links[first.id]?.address == address,
            case .proven(let peer, _) = router.linkAuthentication(of: first.id)
        {
            displacements[address] = now
            if first.excess > 0 { self.returns.record(peer, now: now) }
        }
        return first.id
    }

    /// Counts the opening of a link once, as soon as its neighbour has proven a key.
    private mutating func countReturn(on link: MeshLinkID, now: MonotonicInstant) {
        guard links[link]?.isCounted == false, case .proven(let peer, _) = router.linkAuthentication(of: link) else { return }
        links[link]?.isCounted = true
        returns.record(peer, now: now)
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
        countReturn(on: link, now: now.monotonic)
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

    package mutating func drainReactions() -> [MeshReaction] {
        router.drainEvents().map { MeshReaction(event: $0, source: router.source(of: $0)) }
    }
}
