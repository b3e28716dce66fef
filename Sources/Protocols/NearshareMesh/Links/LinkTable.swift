internal import NearshareBase

/// The open links of a node: their capacity, the frames queued for them, and the budgets of their neighbours.
struct LinkTable: Sendable {
    private struct Link: Sendable {
        let profile: MeshLinkProfile
        let source: MeshLinkSource
        var outbox = LinkOutbox()
        /// Frames that could not be decoded.
        var malformedFrameCount = 0
    }

    /// The budget of the links from one source, and when the last of them was closed.
    private struct Account: Sendable {
        var budget: LinkBudget
        var linkCount = 0
        var closed: MonotonicInstant?
    }

    private var accounts: [MeshLinkSource: Account] = [:]
    private var links: [MeshLinkID: Link] = [:]
    /// Memory of the frames in all outboxes.
    private(set) var byteCount = 0

    var isEmpty: Bool { links.isEmpty }
    var ids: Set<MeshLinkID> { Set(links.keys) }
    var profiles: [MeshLinkProfile] { links.values.map(\.profile) }

    func contains(_ id: MeshLinkID) -> Bool { links[id] != nil }
    func profile(of id: MeshLinkID) -> MeshLinkProfile? { links[id]?.profile }

    /// - Parameter source: links from one source share a budget, also one after the other, so that a new link gives no new one.
    mutating func open(
        _ id: MeshLinkID, profile: MeshLinkProfile, from source: MeshLinkSource? = nil, budget: LinkBudget,
        now: MonotonicInstant
    ) {
        close(id, now: now)
        let source = source ?? .link(id)
        accounts = accounts.filter { $0.value.closed.map { now - $0 < Self.accountLifetime } ?? true }
        var account = accounts[source] ?? Account(budget: budget)
        account.linkCount += 1
        account.closed = nil
        accounts[source] = account
        links[id] = Link(profile: profile, source: source)
    }

    mutating func close(_ id: MeshLinkID, now: MonotonicInstant) {
        guard let link = links.removeValue(forKey: id) else { return }
        byteCount -= link.outbox.byteCount
        guard var account = accounts[link.source] else { return }
        account.linkCount -= 1
        if account.linkCount == 0 { account.closed = now }
        accounts[link.source] = account
        // A link without an address never returns.
        if case .link = link.source { accounts[link.source] = nil }
        if accounts.count > Self.maximumAccountCount,
            let oldest = accounts.filter({ $0.value.closed != nil }).min(by: { $0.value.closed ?? now < $1.value.closed ?? now }
            )
        {
            accounts[oldest.key] = nil
        }
    }

    // MARK: Frames

    /// Queues a frame. When all outboxes together are full, the larger ones get no more but urgent frames.
    mutating func enqueue(
        _ frame: [UInt8], on id: MeshLinkID, priority: LinkOutbox.Priority, origin: LinkOutbox.Origin = .own
    ) {
        guard let before = links[id]?.outbox.byteCount else { return }
        let isUrgent = priority == .urgent && origin == .own
        guard isUrgent || byteCount + frame.count <= Self.byteCapacity || before < Self.byteCapacity / (2 * links.count) else {
            return
        }
        links[id]?.outbox.append(frame, priority: priority, origin: origin)
        byteCount += (links[id]?.outbox.byteCount ?? before) - before
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

    // MARK: Budgets

    /// The budget of a link; nil for a closed one.
    subscript(budget id: MeshLinkID) -> LinkBudget? {
        get { links[id].flatMap { accounts[$0.source]?.budget } }
        _modify {
            let source = links[id]?.source
            var budget = source.flatMap { accounts[$0]?.budget }
            yield &budget
            if let source, let budget { accounts[source]?.budget = budget }
        }
    }

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
    /// Time for which the budget of an address is kept after its last link.
    private static let accountLifetime = Duration.seconds(120)
    private static let maximumAccountCount = 256
    /// Limit on the frames in all outboxes (R1).
    static let byteCapacity = 24 << 20
}

/// The rate limits of the neighbour behind one link, or of one address. Each kind of work has a bucket of its own, so that what comes from afar
/// over an honest neighbour, and costs its sender nothing, cannot use up what that neighbour's public messages need.
struct LinkBudget: Sendable {
    /// Frames processed.
    var frames: TokenBucket
    /// Bytes of frames, counted after decompression (R2).
    var bytes: TokenBucket
    /// Signatures of public packets checked. Checking one costs more than forging one (M2, R9).
    var signatures: TokenBucket
    /// Signatures of packets for this node checked.
    var directedSignatures: TokenBucket
    /// Signatures of packets for other nodes checked, which decide how they are relayed.
    var relayedSignatures: TokenBucket
    /// Unsigned handshake messages answered (R9).
    var handshakes: TokenBucket
    /// Pings answered.
    var pings: TokenBucket
    /// Peers added that were not known before (R6), by their distance.
    private var newPeers: NewPeerBudget
    /// Packets relayed whose signature this node cannot check, and their bytes.
    private var relayedFrames: TokenBucket
    private var relayedBytes: TokenBucket
    /// Bytes of public texts, after decompression.
    var publicTexts: TokenBucket
    /// Bytes of bundle packets.
    var bundles: TokenBucket
    init(_ settings: MeshRouter.Settings, now: MonotonicInstant) {
        func bucket(_ capacity: Double, _ perSecond: Double) -> TokenBucket {
            TokenBucket(capacity: capacity, perSecond: perSecond, now: now)
        }
        frames = bucket(settings.frameBurst, settings.framesPerSecond)
        bytes = bucket(settings.byteBurst, settings.bytesPerSecond)
        signatures = bucket(settings.signatureBurst, settings.signaturesPerSecond)
        directedSignatures = bucket(settings.signatureBurst, settings.signaturesPerSecond)
        relayedSignatures = bucket(settings.signatureBurst / 2, settings.signaturesPerSecond / 2)
        handshakes = bucket(settings.handshakeBurst, settings.handshakesPerSecond)
        pings = bucket(20, 5)
        newPeers = NewPeerBudget(settings, now: now)
        relayedFrames = bucket(settings.relayedFrameBurst, settings.relayedFramesPerSecond)
        relayedBytes = bucket(settings.relayedByteBurst, settings.relayedBytesPerSecond)
        publicTexts = bucket(settings.publicTextBurst, settings.publicTextBytesPerSecond)
        bundles = bucket(settings.bundleByteBurst, settings.bundleBytesPerSecond)
    }

    /// Accounts for the start of a frame.
    /// - Returns: false when the frame is to be dropped unread.
    mutating func admitFrame(now: MonotonicInstant) -> Bool { frames.consume(now: now) && bytes.consume(now: now) }

    /// Accounts for a signature over a payload of `byteCount` bytes: longer ones cost more.
    /// - Returns: false when it is not to be checked.
    mutating func admitSignature(
        _ bucket: WritableKeyPath<LinkBudget, TokenBucket> = \.signatures, byteCount: Int, now: MonotonicInstant
    ) -> Bool {
        guard self[keyPath: bucket].consume(now: now) else { return false }
        self[keyPath: bucket].charge(Double(byteCount / Self.bytesPerSignature))
        return true
    }

    /// Accounts for a packet that this node relays without knowing whether it is genuine.
    /// - Returns: false when it is not to be relayed.
    mutating func admitRelay(byteCount: Int, now: MonotonicInstant) -> Bool {
        relayedFrames.consume(now: now) && relayedBytes.consume(Double(byteCount), now: now)
    }

    /// Accounts for a peer that was not known before.
    /// - Parameter ttl: of its announcement.
    mutating func admitNewPeer(ttl: UInt8, now: MonotonicInstant) -> Bool { newPeers.admit(ttl: ttl, now: now) }

    /// A payload of this size costs as much as one signature.
    private static let bytesPerSignature = 16_384
}

/// The rate at which a link adds peers. A relay can lower a ttl but never raise it, so peers that are nearer have buckets of
/// their own: an attacker further away cannot use up what a newcomer nearby needs. The other end of a link is one node.
struct NewPeerBudget: Sendable {
    /// Unrelayed announcements.
    private var neighbours: TokenBucket
    /// Announcements of the neighbour's neighbours.
    private var near: TokenBucket
    private var far: TokenBucket

    init(_ settings: MeshRouter.Settings, now: MonotonicInstant) {
        func bucket(_ capacity: Double, _ perSecond: Double) -> TokenBucket {
            TokenBucket(capacity: capacity, perSecond: perSecond, now: now)
        }
        neighbours = bucket(min(32, settings.newPeerBurst), min(0.5, settings.newPeersPerSecond))
        near = bucket(settings.newPeerBurst / 2, settings.newPeersPerSecond)
        far = bucket(settings.newPeerBurst, settings.newPeersPerSecond)
    }

    mutating func admit(ttl: UInt8, now: MonotonicInstant) -> Bool {
        switch ttl {
        case MeshPacket.maximumTTL...: neighbours.consume(now: now)
        case MeshPacket.maximumTTL - 1: near.consume(now: now)
        default: far.consume(now: now)
        }
    }
}
