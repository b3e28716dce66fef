package import NearshareBase
internal import NearshareCrypto

/// One node's part in carrying messages (`docs/PROTOCOL.md`, section 13): decides which to take, whom to hand them to, and when they
/// are done with.
///
/// A value without clock, chance, links or store of its own. Its owner tells it who is near (``neighbourUp(_:_:now:)``,
/// ``neighbourDown(_:now:)``), what comes (``receive(_:from:now:)``), what time it is (``advance(to:)``, at ``deadline``) and
/// what people send (``send(_:now:)``), and after each does what ``takeActions()`` says.
///
///     message ─► known? signed? in its time? ─► for us ─► opened, told, acknowledged
///                                          └─► for others ─► kept ─► routed ──no acknowledgement──► spreading
///                                                                  └──no way is known──────────────────┘
///
/// A message to somebody goes from neighbour to neighbour as long as somebody knows a way, and every node on it keeps a copy. Only
/// when no acknowledgement comes back that way, or nobody knows one, is it spread to all who are met.
package struct BundleRouter: Sendable {
    struct Neighbour {
        let link: BundleLink
        var place: SpanningTreeReport.Place?
        var isChild = false
        var reach = ReachabilityFilter.nobody
        /// Which summary and which reach it was told last.
        var toldGeneration: Int32?
        var toldReach: Int32?
        var unconfirmed: UnconfirmedReport?
        /// On their way to it, and not confirmed.
        var offers: [UInt64: Offer] = [:]
        /// What it has, by the first 8 bytes of the id, as far as it was told lately; in seconds of the monotonic clock.
        var has: [UInt64: UInt32] = [:]
        /// Waits to be offered, paced.
        var queue: [BundleID] = []
        var queuedUntil: MonotonicInstant
        /// Has come from it, and is to be confirmed.
        var receipts: [UInt64] = []
        var signatures: TokenBucket

        // These change it in its place in the table; a value that is read there is copied first, with all tables in it.

        /// - Returns: whether it was a child.
        mutating func take(_ report: SpanningTreeReport) -> Bool {
            defer { isChild = report.isToParent }
            place = report.place
            if let reach = report.reach { self.reach = reach }
            return isChild
        }

        /// - Returns: how many receipts wait now; nil where none is needed.
        mutating func note(receipt number: UInt64) -> Int? {
            guard !link.isReliable else { return nil }
            receipts.append(number)
            return receipts.count
        }

        mutating func takeReceipts() -> [UInt64] {
            defer { receipts = [] }
            return receipts
        }

        /// - Returns: what was offered, and has come.
        mutating func confirm(_ number: UInt64) -> Offer? {
            if unconfirmed?.token == number { unconfirmed = nil }
            return offers.removeValue(forKey: number)
        }
    }

    /// The last report to a neighbour over a link that loses packets. The next one says again what was in it.
    struct UnconfirmedReport {
        let token: UInt64
        let hasSummary: Bool
        let hasReach: Bool
        var attempts: UInt8
    }

    /// A message that a neighbour was handed over a link that loses packets.
    struct Offer {
        let id: BundleID
        var at: MonotonicInstant
        var attempts: UInt8
    }

    /// Somebody's messages came this way, so his go back on it.
    struct ReverseRoute {
        var next: EndpointID
        var hops: UInt16
        var at: MonotonicInstant
    }

    enum Due: Sendable {
        case round
        case adoption
        case reach
        case sweep
        case attempt
        case timeout(BundleID)
        case retry(BundleID, EndpointID)
        case receipts(EndpointID)
        case report(EndpointID, token: UInt64)
        case pace(EndpointID)
    }

    let keys: RouterKeys
    package let address: EndpointID
    package internal(set) var settings: BundleRouterSettings
    var random: any RandomNumberGenerator & Sendable
    var neighbours: [EndpointID: Neighbour] = [:]
    var entries: [BundleID: StoredBundleEntry] = [:]
    /// Which acknowledgement, among the entries, belongs to a message.
    var acknowledgements: [BundleID: BundleID] = [:]
    var known = KnownIDs(capacity: 8_192)
    var trails: [EndpointID: ReverseRoute] = [:]
    var due = DeadlineQueue<Due>()
    var actions: [BundleReaction] = []

    // The tree.
    var place: SpanningTreeReport.Place
    var parent: EndpointID?
    var lastRound: MonotonicInstant
    /// When the parent was another one, or none, last.
    var placedSince: MonotonicInstant
    /// How far the root was when the way to it was lost.
    var lostDistance: UInt16 = 0
    /// Roots that have fallen silent, and their last rounds.
    var silentRoots: [EndpointID: UInt32] = [:]
    /// A new round has come; until then the parent may say so too.
    var adoptionEnd: MonotonicInstant?
    /// Of this node, if it is short.
    var reach: ReachabilityFilter?
    var reachByteCount = 0
    var reachHash: Int?
    var reachGeneration = 0
    var isReachStale = true
    var isReachDue = false
    var lastReach: MonotonicInstant?
    var isAttemptDue = false
    var isRoundDue = false
    var isSweepDue = false
    var summary: (generation: Int, value: SummaryVector)?
    var summaryCount = 0
    var toldOfClock: MonotonicInstant?

    /// - Parameter random: the kernel's in a real node: keys are drawn from it.
    package init(
        keys: RouterKeys, settings: BundleRouterSettings = BundleRouterSettings(), random: any RandomNumberGenerator & Sendable,
        now: Moment
    ) {
        self.keys = keys
        self.settings = settings
        self.random = random
        address = keys.contact.address
        place = SpanningTreeReport.Place(root: address, round: 0, distance: 0)
        lastRound = now.monotonic
        placedSince = now.monotonic
    }

    // MARK: What its owner asks for

    /// What is to be done, in this order.
    package mutating func takeActions() -> [BundleReaction] {
        guard !actions.isEmpty else { return [] }
        defer { actions = [] }
        return actions
    }

    /// When ``advance(to:)`` is to be called, if nothing else happens before.
    package var deadline: MonotonicInstant? { due.nextDeadline }

    /// How many messages are being carried, ours and others'.
    package var carriedCount: Int { entries.count }
    package var neighbourCount: Int { neighbours.count }

    /// Bytes of memory that the carrier takes, reckoned from what it holds.
    package var byteCount: Int {
        func dictionary<Key, Value>(_ of: [Key: Value]) -> Int {
            of.capacity * (MemoryLayout<Key>.stride + MemoryLayout<Value>.stride)
        }
        var total = MemoryLayout<Self>.size + known.byteCount + due.byteCount
        total += dictionary(entries) + entries.values.reduce(0) { $0 + $1.heapByteCount }
        total += dictionary(acknowledgements) + dictionary(trails) + dictionary(neighbours)
        for neighbour in neighbours.values {
            total += neighbour.reach.bytes.count + dictionary(neighbour.offers) + dictionary(neighbour.has)
            total += 16 * neighbour.queue.capacity
        }
        return total + (reach?.bytes.count ?? 0) + (summary?.value.filter.bytes.count ?? 0)
    }

    // MARK: What people want

    /// Sends a message by mesh, or to everybody.
    /// - Throws: ``BundleRejection`` when too many of ours wait already.
    package mutating func send(_ message: OutgoingMessage, now: Moment) throws(BundleRejection) {
        try keepOwn(message, now: now)
        begin(message.id, except: nil, now: now)
    }

    /// Sends a message straight to a neighbour, and to nobody else. Where its hop limit is 1 and it was not sealed, it keeps its secret by
    /// going inside the session with that neighbour (``Bundle/goesInSession``), and can't be read by who learns keys later.
    /// - Throws: ``BundleRejection/notInRange``.
    package mutating func sendDirect(
        _ message: OutgoingMessage, to receiver: EndpointID, now: Moment
    ) throws(BundleRejection) {
        guard neighbours[receiver] != nil else { throw .notInRange }
        try keepOwn(message, now: now)
        entries[message.id]!.state = .direct(to: receiver)
        if !forward(message.id, to: receiver, .routed, now: now) { fail(message.id, now: now) }
    }

    /// Whether somebody is in range.
    package func isNear(_ receiver: EndpointID) -> Bool { neighbours[receiver] != nil }

    /// Whether a message to somebody has to take a Bluetooth hop, as far as it can be told here: there is no other link, or its
    /// first hop is one.
    package func needsRadio(to receiver: EndpointID?) -> Bool {
        guard !neighbours.isEmpty else { return false }
        if let receiver, let link = neighbours[receiver]?.link { return link.isRadio }
        return neighbours.values.allSatisfy { $0.link.isRadio }
    }

    private mutating func keepOwn(_ message: OutgoingMessage, now: Moment) throws(BundleRejection) {
        guard entries.values.count(where: { $0.isOwn }) < settings.quota.ownMessageCount else { throw .tooManyWaiting }
        let kept = StoredBundle(id: message.id, copy: message.copy, depositor: nil)
        entries[message.id] = StoredBundleEntry(kept, mark: address.mark(in: message.id))
        remember(message.id, until: message.copy.message.expiry, from: nil)
        actions.append(.keep(kept))
        scheduleSweep(now: now)
    }

    /// What was kept before a restart, and what was delivered.
    package mutating func restore(
        _ kept: [StoredBundle], delivered: [(id: BundleID, until: WallTime)], now: Moment
    ) {
        for (id, until) in delivered where until > now.wall { remember(id, until: until, from: nil) }
        for message in kept {
            let entry = StoredBundleEntry(message, mark: address.mark(in: message.id))
            remember(message.id, until: entry.expiry, from: message.depositor)
            entries[message.id] = entry
            if let acknowledged = entry.acknowledged { acknowledgements[acknowledged] = message.id }
            if message.copy.way == .spread || entry.destination == nil { startSpreading(message.id) }
        }
        sweep(now: now)
    }

    // MARK: What happens

    /// Somebody is near, with whom a packet can be exchanged.
    package mutating func neighbourUp(_ neighbour: EndpointID, _ link: BundleLink, now: Moment) {
        guard neighbour != address, neighbours[neighbour] == nil, neighbours.count < Self.maximumNeighbourCount else { return }
        if neighbours.isEmpty { lastRound = now.monotonic }
        scheduleRound(now: now)
        scheduleSweep(now: now)
        neighbours[neighbour] = Neighbour(
            link: link, queuedUntil: now.monotonic,
            signatures: TokenBucket(
                capacity: settings.signatureBurst, perSecond: settings.signaturesPerSecond, now: now.monotonic))
        report(to: neighbour, withSummary: true, now: now)
        // The lines of a conversation come in the order in which they were written.
        let waiting = entries.filter { $0.value.destination == neighbour && $0.value.state != .resting }
        for (id, _) in waiting.sorted(by: { $0.value.created < $1.value.created }) {
            forward(id, to: neighbour, .routed, now: now)
        }
        scheduleAttempt(now: now)
    }

    package mutating func neighbourDown(_ neighbour: EndpointID, now: Moment) {
        guard let gone = neighbours.removeValue(forKey: neighbour) else { return }
        if gone.isChild { reachChanged(now: now) }
        if parent == neighbour { loseParent(now: now) }
        for (id, entry) in entries where entry.state == .direct(to: neighbour) { fail(id, now: now) }
    }

    /// Does what has become due.
    package mutating func advance(to now: Moment) {
        while let event = due.popDue(now.monotonic) {
            switch event {
            case .round: endRound(now: now)
            case .adoption: adopt(now: now)
            case .reach: tellReach(now: now)
            case .sweep: sweep(now: now)
            case .attempt: attempt(now: now)
            case .timeout(let id): losePatience(id, now: now)
            case .retry(let id, let neighbour): retry(id, neighbour, now: now)
            case .receipts(let neighbour): confirm(to: neighbour)
            case .report(let neighbour, let token): reportAgain(to: neighbour, token, now: now)
            case .pace(let neighbour): pump(neighbour, now: now)
            }
        }
    }

    /// A packet from a neighbour. Reports and receipts must be known to come from it.
    package mutating func receive(_ packet: BundlePacket, from neighbour: EndpointID, now: Moment) {
        guard neighbours.index(forKey: neighbour) != nil else { return }
        switch packet {
        case .copy(let copy): take(copy, from: neighbour, now: now)
        case .report(let report): take(report, from: neighbour, now: now)
        case .receipt(let ids): take(receipt: ids, from: neighbour, now: now)
        }
    }

    // MARK: Odds and ends

    mutating func schedule(_ event: Due, in delay: Duration, now: Moment) {
        due.insert(event, at: now.monotonic + delay)
    }

    mutating func scheduleSweep(now: Moment) {
        guard !isSweepDue else { return }
        isSweepDue = true
        schedule(.sweep, in: Self.sweepInterval, now: now)
    }

    mutating func chance(_ low: Double, _ high: Double) -> Double { Double.random(in: low...high, using: &random) }

    mutating func remember(_ id: BundleID, until: WallTime, from depositor: EndpointID?) {
        known.insert(id, until: until, from: depositor) { [entries] in entries[$0] != nil }
    }

    /// Ends what can't be delivered.
    mutating func fail(_ id: BundleID, now: Moment) {
        guard let entry = entries[id] else { return }
        drop(id, now: now)
        if entry.isOwn, entry.acknowledged == nil, entry.lock != nil { actions.append(.tell(.expired(id))) }
    }

    mutating func drop(_ id: BundleID, now: Moment) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        if let acknowledged = entry.acknowledged, acknowledgements[acknowledged] == id {
            acknowledgements[acknowledged] = nil
        }
        actions.append(.drop([id]))
        // What went to everybody comes again and again; what went one way hardly does.
        known.shorten(id, to: WallTime(milliseconds: now.wall.milliseconds + Self.memoryOfRouted))
    }

    private static let memoryOfRouted: Int64 = 600_000
    static let sweepInterval = Duration.seconds(30)
    static let maximumNeighbourCount = 64
}

/// Why a message of ours is not taken.
package enum BundleRejection: Error, Sendable, Hashable, CustomStringConvertible {
    case tooManyWaiting
    case notInRange

    package var description: String {
        switch self {
        case .tooManyWaiting: "too many messages are waiting to be delivered; wait until some have arrived or expired"
        case .notInRange: "the receiver is not in range; come closer, or send it by mesh"
        }
    }
}
