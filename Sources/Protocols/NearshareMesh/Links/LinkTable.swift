internal import NearshareBase

/// The open links of a node: their capacity, the frames queued for them, and the budgets of their neighbours.
struct LinkTable: Sendable {
    private struct Link: Sendable {
        let profile: MeshLinkProfile
        let source: MeshLinkSource
        /// The link's share of the rates of its source.
        var rates: LinkRates
        var outbox = LinkOutbox()
        /// Frames that could not be decoded.
        var malformedFrameCount = 0
    }

    /// The rates of the links from one source, and when the last of them was closed.
    private struct Account: Sendable {
        var rates: LinkRates
        /// New links that get a share of their own: otherwise each one would bring another burst.
        var openings: TokenBucket
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
    func source(of id: MeshLinkID) -> MeshLinkSource? { links[id]?.source }

    /// - Parameters:
    ///   - source: links from one source share their rates, also one after the other, so that a new link gives no new ones.
    ///   - settings: the rates.
    mutating func open(
        _ id: MeshLinkID, profile: MeshLinkProfile, from source: MeshLinkSource? = nil, _ settings: MeshRouter.Settings,
        now: MonotonicInstant
    ) {
        close(id, now: now)
        let source = source ?? .link(id)
        accounts = accounts.filter { $0.value.closed.map { now - $0 < Self.accountLifetime } ?? true }
        var account =
            accounts[source]
            ?? Account(
                rates: LinkRates(settings, now: now),
                openings: TokenBucket(capacity: Double(Self.shareCount), perSecond: Self.openingsPerSecond, now: now))
        account.linkCount += 1
        account.closed = nil
        let share = account.openings.consume(now: now) ? 1 / Double(Self.shareCount) : 0
        accounts[source] = account
        let rates = LinkRates(settings, share: share, now: now)
        links[id] = Link(profile: profile, source: source, rates: rates)
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

    /// Whether a fragment of this node waits to be written to the link.
    func hasWaitingFragments(_ id: MeshLinkID) -> Bool { (links[id]?.outbox.bulkByteCount ?? 0) > 0 }

    // MARK: Budgets

    /// The budget of a link; nil for a closed one.
    subscript(budget id: MeshLinkID) -> LinkBudget? {
        get { links[id].flatMap { link in accounts[link.source].map { LinkBudget(own: link.rates, common: $0.rates) } } }
        _modify {
            var budget = self[budget: id]
            yield &budget
            guard let budget, let source = links[id]?.source else { return }
            links[id]?.rates = budget.own
            accounts[source]?.rates = budget.common
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

    /// The part of its source's rates that each link has for itself: as many links as a neighbour may open.
    private static let shareCount = 12
    private static let openingsPerSecond = 1.0
    private static let congestionByteCount = 256 << 10
    private static let maximumMalformedFrameCount = 64
    /// Time for which the budget of an address is kept after its last link.
    private static let accountLifetime = Duration.seconds(120)
    private static let maximumAccountCount = 256
    /// Limit on the frames in all outboxes (R1).
    static let byteCapacity = 24 << 20
}

/// The rate limits of a link: rates of its own, a share of those of its source, and what all links of the source have in common.
/// A link whose neighbour sends little lives on its own share, whatever other links of the same source send: behind one address
/// there may be several nodes.
struct LinkBudget: Sendable {
    fileprivate(set) var own: LinkRates
    fileprivate(set) var common: LinkRates

    init(own: LinkRates, common: LinkRates) {
        (self.own, self.common) = (own, common)
    }

    /// Accounts for work before it is done.
    /// - Returns: false when it is not to be done.
    mutating func consume(
        _ rate: WritableKeyPath<LinkRates, TokenBucket>, _ cost: Double = 1, now: MonotonicInstant
    ) -> Bool {
        own[keyPath: rate].consume(cost, now: now) || common[keyPath: rate].consume(cost, now: now)
    }

    /// Accounts for work that was done. What exceeds the link's share is a debt of the source, and of the link once the source has
    /// debts.
    mutating func charge(_ rate: WritableKeyPath<LinkRates, TokenBucket>, _ cost: Double, now: MonotonicInstant) {
        guard !own[keyPath: rate].consume(cost, now: now) else { return }
        if !common[keyPath: rate].consume(now: now) { own[keyPath: rate].charge(cost) }
        common[keyPath: rate].charge(cost)
    }

    /// Accounts for the start of a frame.
    /// - Returns: false when the frame is to be dropped unread.
    mutating func admitFrame(now: MonotonicInstant) -> Bool { consume(\.frames, now: now) && consume(\.bytes, now: now) }

    /// Accounts for a signature over a payload of `byteCount` bytes: longer ones cost more.
    /// - Returns: false when it is not to be checked.
    mutating func admitSignature(
        _ rate: WritableKeyPath<LinkRates, TokenBucket> = \.signatures, byteCount: Int, now: MonotonicInstant
    ) -> Bool {
        guard consume(rate, now: now) else { return false }
        charge(rate, Double(byteCount / Self.bytesPerSignature), now: now)
        return true
    }

    /// Accounts for a packet that this node relays without knowing whether it is genuine.
    /// - Returns: false when it is not to be relayed.
    mutating func admitRelay(byteCount: Int, now: MonotonicInstant) -> Bool {
        consume(\.relayedFrames, now: now) && consume(\.relayedBytes, Double(byteCount), now: now)
    }

    /// Accounts for a peer that was not known before. A relay can lower a ttl but never raise it, so peers that are nearer have
    /// rates of their own: an attacker further away cannot use up what a newcomer nearby needs.
    /// - Parameter ttl: of its announcement.
    mutating func admitNewPeer(ttl: UInt8, now: MonotonicInstant) -> Bool {
        switch ttl {
        case MeshPacket.maximumTTL...: consume(\.newNeighbours, now: now)
        case MeshPacket.maximumTTL - 1: consume(\.newNearPeers, now: now)
        default: consume(\.newFarPeers, now: now)
        }
    }

    /// A payload of this size costs as much as one signature.
    private static let bytesPerSignature = 16_384
}

/// The rates of one link, or of all links of one source. Each kind of work has a bucket of its own, so that what comes from afar
/// over an honest neighbour, and costs its sender nothing, cannot use up what that neighbour's public messages need.
struct LinkRates: Sendable {
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
    /// Peers added that were not known before (R6): those at the other end of the link, of which there is one, those next to it,
    /// and those further away.
    var newNeighbours: TokenBucket
    var newNearPeers: TokenBucket
    var newFarPeers: TokenBucket
    /// Packets relayed whose signature this node cannot check, and their bytes.
    var relayedFrames: TokenBucket
    var relayedBytes: TokenBucket
    /// Bytes of public texts, after decompression.
    var publicTexts: TokenBucket
    /// Bytes of bundle packets.
    var bundles: TokenBucket

    /// - Parameters:
    ///   - share: the part of the rates and bursts in the settings.
    init(_ settings: MeshRouter.Settings, share: Double = 1, now: MonotonicInstant) {
        func bucket(_ capacity: Double, _ perSecond: Double) -> TokenBucket {
            TokenBucket(capacity: capacity * share, perSecond: perSecond * share, now: now)
        }
        frames = bucket(settings.frameBurst, settings.framesPerSecond)
        bytes = bucket(settings.byteBurst, settings.bytesPerSecond)
        signatures = bucket(settings.signatureBurst, settings.signaturesPerSecond)
        directedSignatures = bucket(settings.signatureBurst, settings.signaturesPerSecond)
        relayedSignatures = bucket(settings.signatureBurst / 2, settings.signaturesPerSecond / 2)
        handshakes = bucket(settings.handshakeBurst, settings.handshakesPerSecond)
        pings = bucket(20, 5)
        newNeighbours = bucket(min(32, settings.newPeerBurst), min(0.5, settings.newPeersPerSecond))
        newNearPeers = bucket(settings.newPeerBurst / 2, settings.newPeersPerSecond)
        newFarPeers = bucket(settings.newPeerBurst, settings.newPeersPerSecond)
        relayedFrames = bucket(settings.relayedFrameBurst, settings.relayedFramesPerSecond)
        relayedBytes = bucket(settings.relayedByteBurst, settings.relayedBytesPerSecond)
        publicTexts = bucket(settings.publicTextBurst, settings.publicTextBytesPerSecond)
        bundles = bucket(settings.bundleByteBurst, settings.bundleBytesPerSecond)
    }
}
