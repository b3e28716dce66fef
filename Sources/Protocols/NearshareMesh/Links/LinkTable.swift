internal import NearshareBase

/// The open links of a node: their capacity, the frames queued for them, and the budgets of their neighbours.
struct LinkTable: Sendable {
    private struct Link: Sendable {
        let profile: MeshLinkProfile
        var outbox = LinkOutbox()
        var budget: LinkBudget
    }

    private var links: [MeshLinkID: Link] = [:]

    var isEmpty: Bool { links.isEmpty }
    var ids: Set<MeshLinkID> { Set(links.keys) }
    var profiles: [MeshLinkProfile] { links.values.map(\.profile) }

    func contains(_ id: MeshLinkID) -> Bool { links[id] != nil }
    func profile(of id: MeshLinkID) -> MeshLinkProfile? { links[id]?.profile }

    mutating func open(_ id: MeshLinkID, profile: MeshLinkProfile, budget: LinkBudget) {
        links[id] = Link(profile: profile, budget: budget)
    }

    mutating func close(_ id: MeshLinkID) { links[id] = nil }

    // MARK: Frames

    mutating func enqueue(_ frame: [UInt8], on id: MeshLinkID, priority: LinkOutbox.Priority) {
        links[id]?.outbox.append(frame, priority: priority)
    }

    mutating func dequeueFrame(for id: MeshLinkID) -> [UInt8]? { links[id]?.outbox.removeFirst() }

    func hasFrame(for id: MeshLinkID) -> Bool { links[id].map { !$0.outbox.isEmpty } ?? false }

    /// Whether the link is slower than its pacing: its fragments still wait to be written.
    func isCongested(_ id: MeshLinkID) -> Bool {
        (links[id]?.outbox.bulkByteCount ?? 0) >= Self.congestionByteCount
    }

    // MARK: Budgets

    /// The budget of a link; nil for a closed one.
    subscript(budget id: MeshLinkID) -> LinkBudget? {
        get { links[id]?.budget }
        _modify {
            var budget = links[id]?.budget
            yield &budget
            if let budget { links[id]?.budget = budget }
        }
    }

    // MARK: Selection

    /// The preferred one among several links to the same neighbour: a stream before a radio, then the newest, because an older
    /// one may be dead without notice. nil when none of them is open.
    func best(of candidates: Set<MeshLinkID>) -> MeshLinkID? {
        candidates.compactMap { id in profile(of: id).map { (id: id, isStream: !$0.isRadio) } }
            .max { ($0.isStream ? 1 : 0, $0.id.rawValue) < ($1.isStream ? 1 : 0, $1.id.rawValue) }?.id
    }

    private static let congestionByteCount = 256 << 10
}

/// The rate limits of the neighbour behind one link.
struct LinkBudget: Sendable {
    /// Frames processed.
    var frames: TokenBucket
    /// Bytes of frames, counted after decompression (R2).
    var bytes: TokenBucket
    /// Signatures checked. Checking one costs more than forging one (M2, R9).
    var signatures: TokenBucket
    /// Unsigned handshake messages answered (R9).
    var handshakes: TokenBucket
    /// Peers added that were not known before (R6).
    var newPeers: TokenBucket
    /// Frames that could not be decoded.
    var malformedFrameCount = 0

    init(_ settings: MeshRouter.Settings, now: MonotonicInstant) {
        frames = TokenBucket(capacity: settings.frameBurst, perSecond: settings.framesPerSecond, now: now)
        bytes = TokenBucket(capacity: settings.byteBurst, perSecond: settings.bytesPerSecond, now: now)
        signatures = TokenBucket(capacity: settings.signatureBurst, perSecond: settings.signaturesPerSecond, now: now)
        handshakes = TokenBucket(capacity: settings.handshakeBurst, perSecond: settings.handshakesPerSecond, now: now)
        newPeers = TokenBucket(capacity: settings.newPeerBurst, perSecond: settings.newPeersPerSecond, now: now)
    }

    /// Whether the neighbour sends so many malformed frames that the link should be closed.
    var isExhausted: Bool { malformedFrameCount > 64 }

    /// Accounts for the start of a frame.
    /// - Returns: false when the frame is to be dropped unread.
    mutating func admitFrame(now: MonotonicInstant) -> Bool { frames.consume(now: now) && bytes.consume(now: now) }

    /// Accounts for a signature over a payload of `byteCount` bytes: longer ones cost more.
    /// - Returns: false when it is not to be checked.
    mutating func admitSignature(byteCount: Int, now: MonotonicInstant) -> Bool {
        guard signatures.consume(now: now) else { return false }
        signatures.charge(Double(byteCount / Self.bytesPerSignature))
        return true
    }

    /// A payload of this size costs as much as one signature.
    private static let bytesPerSignature = 16_384
}
