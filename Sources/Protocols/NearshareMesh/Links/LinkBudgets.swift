internal import NearshareBase

/// The rate limits of all links.
///
/// Each link has 1/12 of a source's rate to itself, and a quarter of that of sealed payloads: a person writes two texts in a second.
/// All its links together have one full rate in common, so a source never exceeds twice the rate, four times that of sealed payloads,
/// and a single link never 13/12 of it, or 5/4. A link whose neighbour sends little lives on its own share, whatever other links of
/// the same source send: behind one address there may be several nodes. The beginning of a link costs nothing: the link that had the
/// share before may have used it up.
///
/// Where a source has several links, work that costs processor time or writes to the disk (``LinkWork/isExpensive``) is charged to
/// the common account also when a share pays for it, up to a debt of one second. So all links together exceed the rate by their
/// bursts alone: they cause 5,000 frames, 600 checks of short signatures of all kinds, 200 pieces of long payloads and 8 MiB of
/// inflated bytes a second, rather than twice as many. Each link keeps its share, and a source's only link, such as that of a
/// relay, all that it had. Honest links need much less than one rate: a stream carries 50 fragments a second, a store that is
/// brought some 650 bundles of 200 bytes, and the file of one neighbour adds 2.3 MiB a second when it is text of which a quarter is
/// left. Bytes that are read, and what is relayed for known peers, are not charged twice: twelve files at once, at 0.8 MB a second
/// each, need more than one rate.
///
/// All sources whose neighbours are no contacts have one more full rate in common, of the work that costs processor time, of texts and
/// of what is relayed to everyone unchecked (``LinkWork/isSharedByUnknown``): addresses cost little, so twelve of them cause about as
/// much work as one (M2). Shares pay first here, too, and work that they pay for is charged to that rate up to a debt of one second, so
/// each link keeps a twelfth of a rate whatever the others send. Links on which a contact has proven its key are exempt, and so is the
/// only source. What this rate rejects is no excess of the neighbour: others have used it up.
///
/// Each link has 16 plain frames of up to 1 KiB that are read although both accounts are used up or in debt: what a newcomer sends
/// until its key is proven. A source that opens and closes links gains little by these: `MeshLinkPacer` serves at most 64 links of
/// one address within 2 s, which makes 512 frames and 512 KiB a second, a tenth and a sixteenth of the source's rates, and 144 links
/// a second of all addresses, 2.3 MiB.
struct LinkBudgets: Sendable {
    /// A part of a source's rates that one link at a time has to itself. The share survives the link, so that a link that is
    /// closed and opened again brings no other burst.
    private struct Share: Sendable {
        var rates: LinkRates
        /// When the last link with this share was closed; nil while a link has it.
        var freed: MonotonicInstant?
    }

    /// The rates of the links from one source.
    private struct Account: Sendable {
        /// The full rates, which the links have in common.
        var common: LinkRates
        var shares: [Share] = []
        var linkCount = 0
        /// When the last link was closed; nil while there are links.
        var closed: MonotonicInstant?
    }

    private struct Member: Sendable {
        let source: MeshLinkSource
        /// The index of the link's share; nil when other links have all of them.
        let share: Int?
        /// Whether no neighbour was found on the link yet.
        var isNew = true
        /// Whether a contact of the user has proven its key on the link.
        var isKnown = false
        /// Work that costs nothing, by its kind: what a newcomer needs to be known, to prove its key and to write a first text.
        var free: [LinkWork: Int] = [.signatures: 1, .directedSignatures: 4, .sealedPayloads: 2]
        /// Small frames that are read beyond the rates.
        var freeFrameCount = LinkBudgets.freeFrameCount
        /// Whether the frame that is processed is the neighbour's own: ``MeshFrame/isUnrelayed(_:)``.
        var isFrameUnrelayed = false
        /// The neighbour's own work beyond the link's limits; in debt where that is more than is tolerated.
        var excess: TokenBucket
    }

    private var accounts: [MeshLinkSource: Account] = [:]
    private var members: [MeshLinkID: Member] = [:]
    /// The rates that all sources without a contact have in common; nil before the first link.
    private var unknown: LinkRates?
    /// Whether links of several sources are no contacts'.
    private var hasSeveralUnknownSources = false

    func source(of link: MeshLinkID) -> MeshLinkSource? { members[link]?.source }

    func share(of link: MeshLinkID) -> MeshLinkShare? {
        members[link].map { MeshLinkShare(source: $0.source, number: $0.share) }
    }

    /// - Parameters:
    ///   - source: links from one source share their rates, also one after the other, so that a new link gives no new ones.
    ///   - settings: the rates.
    mutating func open(
        _ link: MeshLinkID, from source: MeshLinkSource, _ settings: MeshRouter.Settings, now: MonotonicInstant
    ) {
        accounts = accounts.filter { $0.value.closed.map { now - $0 < Self.accountLifetime } ?? true }
        var account = accounts[source] ?? Account(common: LinkRates(settings, now: now))
        account.linkCount += 1
        account.closed = nil
        let free = account.shares.indices.compactMap { index in account.shares[index].freed.map { (index, $0) } }
        var share = free.min { $0.1 < $1.1 }?.0
        if share == nil, account.shares.count < Self.shareCount {
            share = account.shares.count
            account.shares.append(Share(rates: LinkRates(settings, share: 1 / Double(Self.shareCount), now: now)))
        }
        if let share { account.shares[share].freed = nil }
        accounts[source] = account
        let excess = TokenBucket(capacity: Self.toleratedBurst, perSecond: Self.toleratedPerSecond, now: now)
        members[link] = Member(source: source, share: share, excess: excess)
        if unknown == nil { unknown = LinkRates(settings, now: now) }
        countUnknownSources()
    }

    /// Records whether the neighbour that has proven its key on a link is a contact of the user.
    mutating func setKnown(_ isKnown: Bool, on link: MeshLinkID) {
        members[link]?.isKnown = isKnown
        countUnknownSources()
    }

    private mutating func countUnknownSources() {
        hasSeveralUnknownSources = Set(members.values.lazy.filter { !$0.isKnown }.map(\.source)).count > 1
    }

    /// Whether the work of a link counts towards the rate that all sources without a contact have in common.
    private func isShared(_ work: LinkWork, of member: Member) -> Bool {
        hasSeveralUnknownSources && !member.isKnown && work.isSharedByUnknown
    }

    mutating func close(_ link: MeshLinkID, now: MonotonicInstant) {
        guard let member = members.removeValue(forKey: link), var account = accounts[member.source] else { return }
        countUnknownSources()
        account.linkCount -= 1
        if let share = member.share { account.shares[share].freed = now }
        if account.linkCount == 0 { account.closed = now }
        accounts[member.source] = account
        // A link without an address never returns.
        if case .link = member.source { accounts[member.source] = nil }
        guard accounts.count > Self.maximumAccountCount else { return }
        let closed = accounts.compactMap { source, account in account.closed.map { (source, $0) } }
        if let oldest = closed.min(by: { $0.1 < $1.1 }) { accounts[oldest.0] = nil }
    }

    /// Accounts for work before it is done.
    /// - Returns: false when it is not to be done.
    mutating func consume(_ work: LinkWork, _ cost: Double = 1, on link: MeshLinkID, now: MonotonicInstant) -> Bool {
        guard let member = members[link] else { return false }
        if let count = member.free[work], count > 0, cost <= 1 {
            members[link]?.free[work] = count - 1
            return true
        }
        if consumeShare(work, cost, of: member, now: now) { return true }
        let isAdmitted = accounts[member.source]?.common.consume(work, cost, now: now) == true
        let isBeyondShare = work == .frames && member.share != nil
        if member.isFrameUnrelayed, !work.isForOthers, !isAdmitted || isBeyondShare,
            excess(of: link, now: now) < Self.maximumExcess
        {
            members[link]?.excess.charge(1)
        }
        guard isAdmitted, isShared(work, of: member) else { return isAdmitted }
        return unknown?.consume(work, cost, now: now) == true
    }

    /// The number of a neighbour's own requests that were rejected, and of its own frames beyond the link's share, above what is
    /// tolerated: a neighbour that asks for little stays below, also where others use up the limits of its address.
    ///
    /// A neighbour's own are its frames with the ttl of a new packet, of which no relay makes one, whatever sender they name. Sealed
    /// ones are not counted, as a member that returns may bring a store of bundles in its session, and neither is
    /// ``LinkWork/isForOthers``. An honest relay has no excess whatever stands behind it: it passes a flood on with a lower ttl, and
    /// no signature tells it from one that lowers the ttl of its own packets. The budgets bound both.
    func excess(of link: MeshLinkID, now: MonotonicInstant) -> Double {
        guard var bucket = members[link]?.excess else { return 0 }
        return max(0, -bucket.balance(now: now))
    }

    /// Accounts for work that was done. The link's share pays where it holds the whole cost; otherwise the common accounts do,
    /// which may go into debt. Work during such a debt is charged to the share as well.
    mutating func charge(_ work: LinkWork, _ cost: Double, on link: MeshLinkID, now: MonotonicInstant) {
        guard let member = members[link], !consumeShare(work, cost, of: member, now: now) else { return }
        let isShared = isShared(work, of: member)
        let isInDebt =
            accounts[member.source]?.common.isInDebt(work, now: now) == true
            || isShared && unknown?.isInDebt(work, now: now) == true
        if let share = member.share, isInDebt { accounts[member.source]?.shares[share].rates.charge(work, cost) }
        accounts[member.source]?.common.charge(work, cost)
        if isShared { unknown?.charge(work, cost) }
    }

    /// Accounts for work that a link's share pays.
    /// - Returns: false when the share holds less than the whole cost.
    private mutating func consumeShare(
        _ work: LinkWork, _ cost: Double, of member: Member, now: MonotonicInstant
    ) -> Bool {
        guard let share = member.share, accounts[member.source]?.shares[share].rates.consume(work, cost, now: now) == true
        else { return false }
        if work.isExpensive, let count = accounts[member.source]?.linkCount, count > 1 {
            accounts[member.source]?.common.drain(work, cost, now: now)
        }
        if isShared(work, of: member) { unknown?.drain(work, cost, now: now) }
        return true
    }

    /// Accounts for the start of a frame. The work that follows on the link is that of this frame.
    /// - Parameters:
    ///   - isPlain: whether the frame costs no more than its bytes: ``MeshFrame/isPlain(_:)``.
    ///   - isUnrelayed: whether the frame is the neighbour's own: ``MeshFrame/isUnrelayed(_:)``.
    /// - Returns: false when the frame is to be dropped unread.
    mutating func admitFrame(
        byteCount: Int, isPlain: Bool, isUnrelayed: Bool, on link: MeshLinkID, now: MonotonicInstant
    ) -> Bool {
        members[link]?.isFrameUnrelayed = isUnrelayed
        if consume(.frames, on: link, now: now), consume(.bytes, on: link, now: now) { return true }
        guard isPlain, byteCount <= Self.freeFrameByteCount, let count = members[link]?.freeFrameCount, count > 0 else {
            return false
        }
        members[link]?.freeFrameCount = count - 1
        return true
    }

    /// Accounts for a signature over a payload of `byteCount` bytes. Long payloads, of which few bytes on the air may hold many, have
    /// an account of their own besides: they use up nothing that short ones of the same source need (R2).
    /// - Returns: false when it is not to be checked.
    mutating func admitSignature(
        _ work: LinkWork = .signatures, byteCount: Int, on link: MeshLinkID, now: MonotonicInstant
    ) -> Bool {
        let isLong = byteCount >= Self.bytesPerSignature
        if isLong, !consume(.longPayloads, on: link, now: now) { return false }
        guard consume(work, on: link, now: now) else { return false }
        if isLong { charge(.longPayloads, Double(byteCount / Self.bytesPerSignature), on: link, now: now) }
        return true
    }

    /// Admits compressing a payload of `byteCount` bytes again, to find the bytes that its sender has signed (M20).
    /// ``chargeRecompression(byteCount:isSigned:on:now:)`` follows.
    /// - Returns: false when that is not to be done.
    mutating func admitRecompression(byteCount: Int, on link: MeshLinkID, now: MonotonicInstant) -> Bool {
        byteCount <= Self.freeRecompressedByteCount || consume(.recompression, on: link, now: now)
    }

    /// Accounts for a payload that was compressed again, at two levels.
    /// - Parameter isSigned: whether that has found a valid signature. Forged ones cost their sender nothing, so they count twice.
    mutating func chargeRecompression(byteCount: Int, isSigned: Bool, on link: MeshLinkID, now: MonotonicInstant) {
        guard byteCount > Self.freeRecompressedByteCount else { return }
        charge(.recompression, Double(byteCount) * (isSigned ? 2 : 4), on: link, now: now)
    }

    /// Accounts for a packet that this node relays without knowing whether it is genuine. Packets for known peers have rates of their
    /// own: lines by made-up senders, which a relay passes on, use up nothing that its own answers and files need (M10).
    /// - Returns: false when it is not to be relayed.
    mutating func admitRelay(
        byteCount: Int, isForKnownPeer: Bool, on link: MeshLinkID, now: MonotonicInstant
    ) -> Bool {
        let (frames, bytes): (LinkWork, LinkWork) =
            isForKnownPeer ? (.relayedDirectedFrames, .relayedDirectedBytes) : (.relayedFrames, .relayedBytes)
        return consume(frames, on: link, now: now) && consume(bytes, Double(byteCount), on: link, now: now)
    }

    /// Accounts for a peer that was not known before. The first neighbour of a link is always admitted: each link has one. A relay
    /// can lower a ttl but never raise it, so peers that are nearer have rates of their own: an attacker further away cannot use
    /// up what a newcomer nearby needs.
    /// - Parameter ttl: of its announcement.
    mutating func admitNewPeer(ttl: UInt8, on link: MeshLinkID, now: MonotonicInstant) -> Bool {
        switch ttl {
        case MeshPacket.maximumTTL...:
            if members[link]?.isNew == true {
                members[link]?.isNew = false
                return true
            }
            return consume(.newNeighbours, on: link, now: now)
        case MeshPacket.maximumTTL - 1: return consume(.newNearPeers, on: link, now: now)
        default: return consume(.newFarPeers, on: link, now: now)
        }
    }

    /// The shares of one source: one for each link that its nodes may open.
    private static let shareCount = MeshRouter.maximumIncomingLinkCount
    /// Time for which the rates of an address are kept after its last link.
    private static let accountLifetime = Duration.seconds(120)
    private static let maximumAccountCount = 256
    /// Frames of a link that are read beyond the rates: its neighbour's announcement, proof, handshake and first texts.
    static let freeFrameCount = 16
    /// Limit on each of them; a padded handshake or short text has a quarter of this.
    static let freeFrameByteCount = 1_024
    /// Pieces of work beyond its limits that a link may ask for, at once and in a second.
    private static let toleratedBurst = 100.0
    private static let toleratedPerSecond = 10.0
    /// Limit on the excess that is counted: a link that sends little again has none after 100 s.
    private static let maximumExcess = 1_000.0
    /// A payload of this size costs as much as one signature.
    private static let bytesPerSignature = 16_384
    /// Payloads up to this size, such as announcements and most texts, are compressed again at no cost besides that of the
    /// signature: a flood of large ones does not keep them from being checked.
    private static let freeRecompressedByteCount = 1_024
}

/// The kinds of work that a neighbour causes. Each has a rate of its own, so that what comes from afar over an honest neighbour,
/// and costs its sender nothing, cannot use up what that neighbour's public messages need.
enum LinkWork: Int, CaseIterable, Sendable {
    /// Processing frames.
    case frames
    /// Bytes of frames, before decompression.
    case bytes
    /// Bytes that decompression adds to those of the frames (R2): what others of the same address have inflated keeps no plain
    /// frame from being read.
    case inflatedBytes
    /// Checking signatures of public packets, which costs more than forging one (M2, R9).
    case signatures
    /// Checking signatures of long payloads of all kinds, counted like as many short ones as take the same time.
    case longPayloads
    /// Checking signatures of public packets that this node has asked for to complete its store.
    case syncedSignatures
    /// Checking signatures of packets for this node.
    case directedSignatures
    /// Checking signatures of packets for other nodes, which decide how they are relayed.
    case relayedSignatures
    /// Bytes of payloads that are compressed again to check signatures (M20).
    case recompression
    /// Answering unsigned handshake messages (R9).
    case handshakes
    /// Answering pings.
    case pings
    /// Adding peers that were not known before (R6): those at the other end of the link, of which there is one.
    case newNeighbours
    /// Adding peers next to the one at the other end of the link.
    case newNearPeers
    /// Adding peers further away.
    case newFarPeers
    /// Relaying packets, to everyone or for a node that is not known, whose signature this node cannot check: each is written to all
    /// other links.
    case relayedFrames
    /// Bytes of such packets.
    case relayedBytes
    /// Relaying packets for a known peer.
    case relayedDirectedFrames
    /// Bytes of packets for known peers that are relayed.
    case relayedDirectedBytes
    /// Storing fragments of packets to everyone for neighbours that miss them.
    case storedFragments
    /// Bytes of public texts, after decompression.
    case publicTexts
    /// Handling sealed payloads of peers that are no contacts: each has a rate of its own, but identities cost nothing (M12).
    case sealedPayloads
    /// Bytes of bundle packets, sealed ones as well, of peers that are no contacts: identities cost nothing, and each bundle is
    /// checked and stored (B11).
    case bundles

    /// Whether a neighbour causes the work for other nodes, or brings at once what has waited for this one, and may honestly cause
    /// more than is admitted: packets, peers and answers from behind it, bundles, and texts that waited for its return.
    var isForOthers: Bool {
        switch self {
        case .syncedSignatures, .relayedSignatures, .newNearPeers, .newFarPeers, .relayedFrames, .relayedBytes,
            .relayedDirectedFrames, .relayedDirectedBytes, .storedFragments, .sealedPayloads, .bundles:
            true
        default: false
        }
    }

    /// Whether all sources without a contact have one rate in common (M2): also for texts, of which storing one takes milliseconds,
    /// and for relaying to everyone, which wakes the writers of all other links and uses up what the next nodes admit from this one.
    var isSharedByUnknown: Bool {
        switch self {
        case .publicTexts, .sealedPayloads, .relayedFrames, .relayedBytes: true
        default: isExpensive
        }
    }

    /// Whether the work takes more of the processor, or of the disk, than of memory or of other links.
    var isExpensive: Bool {
        switch self {
        case .frames, .inflatedBytes, .signatures, .longPayloads, .syncedSignatures, .directedSignatures, .relayedSignatures,
            .recompression, .handshakes, .bundles:
            true
        default: false
        }
    }
}

/// A rate limiter for each kind of work.
private struct LinkRates: Sendable {
    private var buckets: [TokenBucket]

    private static let sealedPayloadFactor = 3.0

    /// - Parameter share: the part of the rates and bursts in the settings.
    init(_ settings: MeshRouter.Settings, share: Double = 1, now: MonotonicInstant) {
        buckets = LinkWork.allCases.map { work in
            let (burst, perSecond) = settings.rate(of: work)
            // A bucket that never holds a whole token would admit nothing.
            let rateShare = work == .sealedPayloads ? min(1, share * Self.sealedPayloadFactor) : share
            return TokenBucket(capacity: max(min(1, burst), burst * share), perSecond: perSecond * rateShare, now: now)
        }
    }

    mutating func consume(_ work: LinkWork, _ cost: Double = 1, now: MonotonicInstant) -> Bool {
        buckets[work.rawValue].consume(cost, now: now)
    }

    mutating func charge(_ work: LinkWork, _ cost: Double) { buckets[work.rawValue].charge(cost) }

    mutating func drain(_ work: LinkWork, _ cost: Double, now: MonotonicInstant) {
        buckets[work.rawValue].drain(cost, now: now)
    }

    /// Whether more work was charged than the bucket held.
    mutating func isInDebt(_ work: LinkWork, now: MonotonicInstant) -> Bool { buckets[work.rawValue].balance(now: now) < 0 }
}

extension MeshRouter.Settings {
    /// The rate of one kind of work of one source, of which each of its links has a share besides.
    fileprivate func rate(of work: LinkWork) -> (burst: Double, perSecond: Double) {
        switch work {
        case .frames: (frameBurst, framesPerSecond)
        case .bytes, .inflatedBytes: (byteBurst, bytesPerSecond)
        case .signatures, .longPayloads, .directedSignatures: (signatureBurst, signaturesPerSecond)
        case .syncedSignatures, .relayedSignatures: (signatureBurst / 2, signaturesPerSecond / 2)
        case .recompression: (recompressedByteBurst, recompressedBytesPerSecond)
        case .handshakes: (handshakeBurst, handshakesPerSecond)
        case .pings: (20, 5)
        case .newNeighbours: (min(32, newPeerBurst), min(0.5, newPeersPerSecond))
        case .newNearPeers: (newPeerBurst / 2, newPeersPerSecond)
        case .newFarPeers: (newPeerBurst, newPeersPerSecond)
        case .relayedFrames, .relayedDirectedFrames, .storedFragments: (relayedFrameBurst, relayedFramesPerSecond)
        case .relayedBytes, .relayedDirectedBytes: (relayedByteBurst, relayedBytesPerSecond)
        case .publicTexts: (publicTextBurst, publicTextBytesPerSecond)
        case .sealedPayloads: (sealedPayloadBurst, sealedPayloadsPerSecond)
        case .bundles: (bundleByteBurst, bundleBytesPerSecond)
        }
    }
}
