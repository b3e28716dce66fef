internal import NearshareBase

/// The open links of a node: their capacity, the frames queued for them, and the budgets of their neighbours.
struct LinkTable: Sendable {
    private struct Link: Sendable {
        let profile: MeshLinkProfile
        var outbox = LinkOutbox()
        /// Frames that could not be decoded.
        var malformedFrameCount = 0
    }

    private var links: [MeshLinkID: Link] = [:]
    /// The work that the neighbours may cause.
    var budgets = LinkBudgets()
    /// Memory of the frames in all outboxes.
    private(set) var byteCount = 0

    var isEmpty: Bool { links.isEmpty }
    var ids: Set<MeshLinkID> { Set(links.keys) }
    var profiles: [MeshLinkProfile] { links.values.map(\.profile) }

    func contains(_ id: MeshLinkID) -> Bool { links[id] != nil }
    func profile(of id: MeshLinkID) -> MeshLinkProfile? { links[id]?.profile }
    func source(of id: MeshLinkID) -> MeshLinkSource? { budgets.source(of: id) }
    func share(of id: MeshLinkID) -> MeshLinkShare? { budgets.share(of: id) }
    func hasLink(from source: MeshLinkSource) -> Bool { links.keys.contains { budgets.source(of: $0) == source } }

    /// - Parameters:
    ///   - source: links from one source share their rates, also one after the other, so that a new link gives no new ones.
    ///   - settings: the rates.
    mutating func open(
        _ id: MeshLinkID, profile: MeshLinkProfile, from source: MeshLinkSource? = nil, _ settings: MeshRouter.Settings,
        now: MonotonicInstant
    ) {
        close(id, now: now)
        budgets.open(id, from: source ?? .link(id), settings, now: now)
        links[id] = Link(profile: profile)
    }

    mutating func close(_ id: MeshLinkID, now: MonotonicInstant) {
        guard let link = links.removeValue(forKey: id) else { return }
        byteCount -= link.outbox.byteCount
        budgets.close(id, now: now)
    }

    // MARK: Frames

    /// Queues a frame. When all outboxes together are full, or those of the links of one source, the larger ones get no more but
    /// urgent frames.
    mutating func enqueue(
        _ frame: [UInt8], on id: MeshLinkID, priority: LinkOutbox.Priority, origin: LinkOutbox.Origin = .own
    ) {
        guard let before = links[id]?.outbox.byteCount else { return }
        let isUrgent = priority == .urgent && origin == .own
        guard isUrgent || hasRoom(for: frame.count, on: id, holding: before) else { return }
        links[id]?.outbox.append(frame, priority: priority, origin: origin)
        byteCount += (links[id]?.outbox.byteCount ?? before) - before
    }

    /// - Parameter heldByteCount: memory of the link's outbox.
    private func hasRoom(for frameByteCount: Int, on id: MeshLinkID, holding heldByteCount: Int) -> Bool {
        // The links of one source hold no more than all.
        guard byteCount + frameByteCount > Self.byteCapacityPerSource else { return true }
        let isBelowTotal = byteCount + frameByteCount <= Self.byteCapacity
        guard isBelowTotal || heldByteCount < Self.byteCapacity / (2 * links.count) else { return false }
        let source = budgets.source(of: id)
        var (linkCount, sourceByteCount) = (0, 0)
        for (other, link) in links where budgets.source(of: other) == source {
            linkCount += 1
            sourceByteCount += link.outbox.byteCount
        }
        return sourceByteCount + frameByteCount <= Self.byteCapacityPerSource
            || heldByteCount < Self.byteCapacityPerSource / (2 * max(1, linkCount))
    }

    mutating func dequeueFrame(for id: MeshLinkID) -> [UInt8]? {
        guard let before = links[id]?.outbox.byteCount, before > 0 else { return nil }
        defer { byteCount += (links[id]?.outbox.byteCount ?? 0) - before }
        return links[id]?.outbox.removeFirst()
    }

    func hasFrame(for id: MeshLinkID) -> Bool { links[id].map { !$0.outbox.isEmpty } ?? false }

    /// Whether the link is slower than its pacing: its fragments still wait to be written.
    func isCongested(_ id: MeshLinkID) -> Bool {
        (links[id]?.outbox.bulkByteCount ?? 0) >= Self.congestionByteCount
    }

    /// Whether a fragment of this node waits to be written to the link.
    func hasWaitingFragments(_ id: MeshLinkID) -> Bool { (links[id]?.outbox.bulkByteCount ?? 0) > 0 }

    // MARK: Malformed frames

    mutating func recordMalformedFrame(on id: MeshLinkID) { links[id]?.malformedFrameCount += 1 }

    /// Whether the neighbour sends so many malformed frames that the link should be closed.
    func isExhausted(_ id: MeshLinkID) -> Bool { (links[id]?.malformedFrameCount ?? 0) > Self.maximumMalformedFrameCount }

    // MARK: Selection

    /// The preferred one among several links to the same neighbour: a stream before a radio, then the newest, because an older
    /// one may be dead without notice. nil when none of them is open.
    func best(of candidates: Set<MeshLinkID>) -> MeshLinkID? {
        candidates.compactMap { id in profile(of: id).map { (id: id, isStream: !$0.isRadio) } }
            .max { ($0.isStream ? 1 : 0, $0.id.rawValue) < ($1.isStream ? 1 : 0, $1.id.rawValue) }?.id
    }

    private static let congestionByteCount = 256 << 10
    private static let maximumMalformedFrameCount = 64
    /// Limit on the frames in all outboxes (R1).
    static let byteCapacity = 24 << 20
    /// Limit on the frames in the outboxes of one source, which may read none of them on any of its links: what two other sources
    /// may have relayed in four seconds, and more than the files that this node sends to twelve links, of which each has 256 KiB
    /// waiting. A link that holds little gets more, which adds at most half of it for all links of the source.
    static let byteCapacityPerSource = 8 << 20
}
