internal import NearshareBase

/// The links of a node: all that run, and those that peers have opened, which share a number of slots (R3, Q6).
///
///     admitted ──proven key──► friend's, or untrusted ──► ended
///
/// A newcomer takes the slot of an untrusted link without use: the oldest one of its own source when that has too many,
/// otherwise the oldest one of the source with the most links. A link without a proven key can be evicted at once, the oldest
/// first: a newcomer has the time in which an attacker opens as many links as there are slots. Links over members are exempt for
/// ``grace``, as opening one costs a member only a few bytes. Where no link is unused, the one that makes the least progress gives
/// way if it is below ``ProgressMeter/minimumRate`` (R5): a nearshare sender tries again, and goes on from there.
///
/// Where all slots are in use, sources take turns: many addresses would hold all by transfers just above that rate, or by ones that
/// are renewed before they have a rate. A link below ``contendedRate``, or without a rate yet, gives way to a newcomer whose source
/// uses less of its limit, or has held slots for less time lately (``SlotTimes``). A faster link gives way only where its source has
/// at least two slots more than the newcomer's had: a few addresses cannot hold all slots, and each keeps one.
struct LinkRegistry {
    /// The number that identifies an admitted link's slot.
    typealias Slot = UInt64

    /// The slot of an incoming link, and what decides whether another link takes it.
    private struct Incoming {
        var source: LinkSource
        /// The time since which the link is not used; nil while it is used.
        var unusedSince: (MonotonicInstant) -> MonotonicInstant?
        /// The bytes a second that it moves while it is used; nil for one that stays however slow it is.
        var rate: (MonotonicInstant) -> Int? = { _ in nil }
        /// Whether it has a transfer that waits for its peer, also before there is a rate.
        var isMoving: () -> Bool = { false }
        var end: @Sendable () -> Void
        /// Whether it serves a request. Then a browser or a LocalSend device at the same source cannot take its slot.
        var isServing: (MonotonicInstant) -> Bool = { _ in false }
        var isProven = false
        var isFriend = false
        /// Whether the slot was given to another link.
        var isEvicted = false

        var isJoined: Bool { if case .joined = source { true } else { false } }
    }

    /// A link that needs a slot where none is free.
    private struct Newcomer {
        let source: LinkSource
        /// The slot that it has since before its key was proven; nil for a link that is not admitted yet.
        var slot: Slot?
        /// Whether the limit of its source is reached, so that only a link of the same source gives way.
        var isSourceFull = false
    }

    /// The decision which link gives way to a newcomer where no slot is free.
    private struct SlotContest {
        let newcomer: Newcomer
        /// The links that may give way.
        let candidates: [Slot: Incoming]
        /// The open links of each source, those that are no candidates included.
        let counts: [LinkSource: Int]
        let slotTimes: SlotTimes
        let limits: NodeLimits
        let now: MonotonicInstant

        /// The link that gives way; nil where the newcomer finds no slot.
        var victim: Slot? { oldestUnused ?? slowest }

        /// The oldest unused link of the source with the most links.
        private var oldestUnused: Slot? {
            let unused = candidates.compactMap { slot, link -> (slot: Slot, count: Int, since: MonotonicInstant)? in
                guard let since = link.unusedSince(now), !isInGrace(link, unusedSince: since) else { return nil }
                return (slot, count(of: link.source), since)
            }
            return unused.max { ($0.count, $1.since) < ($1.count, $0.since) }?.slot
        }

        private func isInGrace(_ link: Incoming, unusedSince since: MonotonicInstant) -> Bool {
            (link.isProven || link.source.isMember) && now - since < LinkRegistry.grace
        }

        /// The first of the links in use that give way: one below ``ProgressMeter/minimumRate`` before others, then one of the source
        /// with the most links, then the slowest. Of a source with twice as many links, a fast one goes before a slow one of another.
        private var slowest: Slot? {
            // Unused links within their grace give way in a second: no other transfer of the same source has to for them.
            if newcomer.isSourceFull, candidates.values.contains(where: { $0.unusedSince(now) != nil }) { return nil }
            let slow = candidates.compactMap { slot, link -> (slot: Slot, order: (Int, Int, Int, Duration))? in
                guard let rate = rate(of: link), givesWay(link, at: rate) else { return nil }
                let count = count(of: link.source)
                let weight = isFast(rate) ? count : 2 * count
                return (slot, (isTrickle(rate) ? 1 : 0, weight, -rate, slotTimes.time(of: link.source)))
            }
            return slow.max { $0.order < $1.order }?.slot
        }

        /// Bytes a second; just below ``contendedRate`` for a transfer without a rate yet, nil for a link that stays however slow.
        private func rate(of link: Incoming) -> Int? {
            link.rate(now) ?? (link.isMoving() ? LinkRegistry.contendedRate - 1 : nil)
        }

        private func isTrickle(_ rate: Int) -> Bool { rate < ProgressMeter.minimumRate }

        private func isFast(_ rate: Int) -> Bool { rate >= LinkRegistry.contendedRate }

        private func givesWay(_ link: Incoming, at rate: Int) -> Bool {
            // A source that holds more keeps at least as many links as the newcomer's has then: they end up with equal numbers.
            if isTrickle(rate) || count(of: link.source) > newcomerCount { return true }
            return !isFast(rate) && isNewcomersTurn(before: link.source)
        }

        /// Whether another source uses more of its limit than the newcomer's, or has held slots for longer.
        private func isNewcomersTurn(before source: LinkSource) -> Bool {
            guard !newcomer.isSourceFull, source != newcomer.source else { return false }
            return share(of: source, count: count(of: source)) > share(of: newcomer.source, count: newcomerCount)
                || slotTimes.isBefore(newcomer.source, source)
        }

        private func count(of source: LinkSource) -> Int { counts[source, default: 0] }

        /// The links of the newcomer's source, itself included.
        private var newcomerCount: Int { count(of: newcomer.source) + (newcomer.slot == nil ? 1 : 0) }

        /// The part of a source's limit that its links use.
        private func share(of source: LinkSource, count: Int) -> Double {
            Double(count) / Double(limits.links(from: source))
        }
    }

    enum Admission {
        case refused
        /// - Parameter evict: ends the link that had the slot before; to be called without a lock.
        case admitted(Slot, evict: (@Sendable () -> Void)?)
    }

    /// The time for which a link with a proven key, or of a member, keeps its slot without use: no other peer can push out one
    /// before its first offer.
    static let grace = Duration.seconds(1)
    /// Bytes a second below which a transfer gives way to another source where all slots are in use. Holding all slots of untrusted
    /// peers above it takes 3 MiB a second, and as many addresses as there are slots.
    static let contendedRate = 64 << 10

    private var slotTimes = SlotTimes()
    private var drivers: [ObjectIdentifier: LinkDriver] = [:]
    private var incoming: [Slot: Incoming] = [:]
    private var lastSlot: Slot = 0

    // MARK: Incoming links

    /// Admits a link that a peer has opened.
    /// - Parameters:
    ///   - isForeign: whether it is a browser's or a LocalSend device's.
    ///   - end: ends the link before it has a driver.
    mutating func admit(
        from source: LinkSource, isForeign: Bool = false, limits: NodeLimits, now: MonotonicInstant,
        end: @escaping @Sendable () -> Void
    ) -> Admission {
        recordSlotTimes(now: now)
        let open = incoming.filter { !$0.value.isEvicted && !$0.value.isJoined }
        // Links that were evicted may take a moment to end.
        guard incoming.values.count(where: { !$0.isJoined }) / 2 < limits.links else { return .refused }
        let isFromFullSource = open.values.count { $0.source == source && !$0.isFriend } >= limits.links(from: source)
        var evicted: (@Sendable () -> Void)?
        if isFromFullSource || open.count >= limits.links {
            let newcomer = Newcomer(source: source, isSourceFull: isFromFullSource)
            evicted = evict(for: newcomer, limits: limits, now: now) { link in
                !(isFromFullSource && isForeign && link.isServing(now))
            }
            if evicted == nil { return .refused }
        }
        lastSlot += 1
        incoming[lastSlot] = Incoming(source: source, unusedSince: { _ in now }, end: end)
        return .admitted(lastSlot, evict: evicted)
    }

    /// Sets how the use and the progress of a link are known, and how it is ended.
    mutating func attach(
        _ slot: Slot, unusedSince: @escaping (MonotonicInstant) -> MonotonicInstant?,
        rate: @escaping (MonotonicInstant) -> Int? = { _ in nil }, isMoving: @escaping () -> Bool = { false },
        isServing: @escaping (MonotonicInstant) -> Bool = { _ in false }, end: @escaping @Sendable () -> Void
    ) {
        incoming[slot]?.unusedSince = unusedSince
        incoming[slot]?.rate = rate
        incoming[slot]?.isMoving = isMoving
        incoming[slot]?.isServing = isServing
        incoming[slot]?.end = end
    }

    /// Records that a link's key is proven, and whether the peer is a friend. When untrusted links exceed the slots not kept for
    /// friends, evicts one of them, this one if no other gives way.
    /// - Returns: ends that link; to be called without a lock.
    mutating func classify(
        _ slot: Slot, isFriend: Bool, limits: NodeLimits, now: MonotonicInstant
    ) -> (@Sendable () -> Void)? {
        recordSlotTimes(now: now)
        incoming[slot]?.isProven = true
        incoming[slot]?.isFriend = isFriend
        let untrusted = incoming.filter {
            $0.value.isProven && !$0.value.isFriend && !$0.value.isEvicted && !$0.value.isJoined
        }
        guard !isFriend, untrusted.count > limits.links - limits.linksKeptForFriends, let source = incoming[slot]?.source
        else { return nil }
        let newcomer = Newcomer(source: source, slot: slot)
        if let evicted = evict(for: newcomer, limits: limits, now: now, where: { $0.isProven }) { return evicted }
        incoming[slot]?.isEvicted = true
        return incoming[slot]?.end
    }

    /// Records that a link has joined a session: it takes no slot of its address any more. So that a member cannot open links
    /// without bound, that holds for a few of each member.
    mutating func recordMember(_ id: PeerID, _ slot: Slot, limits: NodeLimits, now: MonotonicInstant) {
        recordSlotTimes(now: now)
        let count = incoming.values.count { $0.source == .joined(id) }
        if count < limits.links(from: .joined(id)) { incoming[slot]?.source = .joined(id) }
    }

    /// Evicts the link that gives way to a newcomer, as ``SlotContest`` decides.
    private mutating func evict(
        for newcomer: Newcomer, limits: NodeLimits, now: MonotonicInstant, where isCandidate: (Incoming) -> Bool
    ) -> (@Sendable () -> Void)? {
        let open = incoming.filter { !$0.value.isEvicted && !$0.value.isFriend && !$0.value.isJoined }
        let candidates = open.filter { slot, link in
            slot != newcomer.slot && (!newcomer.isSourceFull || link.source == newcomer.source) && isCandidate(link)
        }
        let contest = SlotContest(
            newcomer: newcomer, candidates: candidates,
            counts: Dictionary(grouping: open.values, by: \.source).mapValues(\.count),
            slotTimes: slotTimes, limits: limits, now: now)
        guard let victim = contest.victim else { return nil }
        incoming[victim]?.isEvicted = true
        return incoming[victim]?.end
    }

    /// Accounts for the time since the last change. Called before each change of the holders, so that a source has held its slots until
    /// then.
    private mutating func recordSlotTimes(now: MonotonicInstant) {
        let holders = incoming.values.filter { $0.isProven && !$0.isFriend && !$0.isEvicted && !$0.isJoined }.map(\.source)
        slotTimes.record(Set(holders), now: now)
    }

    /// Records that an admitted link has ended.
    mutating func release(_ slot: Slot, now: MonotonicInstant) {
        guard incoming[slot] != nil else { return }
        recordSlotTimes(now: now)
        incoming[slot] = nil
    }

    /// The number of incoming links that have a slot.
    var incomingCount: Int { incoming.values.count { !$0.isEvicted } }

    // MARK: All links

    /// The links that run.
    var running: [LinkDriver] { Array(drivers.values) }

    mutating func insert(_ driver: LinkDriver) { drivers[ObjectIdentifier(driver)] = driver }

    mutating func remove(_ driver: LinkDriver) { drivers[ObjectIdentifier(driver)] = nil }
}
