package import NearshareBase

/// One node's part in storing and forwarding bundles (`docs/PROTOCOL.md`, section 13): decides which to accept, to which
/// neighbours to forward them, and when to delete them.
///
/// A value without clock, randomness, links or store of its own. Its driver reports neighbours (``neighbourUp(_:link:now:)``,
/// ``neighbourDown(_:now:)``), packets (``receive(_:from:now:)``), the time (``advance(to:)``, at ``deadline``) and bundles to
/// send (``send(_:now:)``), and after each performs the reactions of ``drainReactions()``.
///
///     bundle ─► seen? signed? in its lifetime? ─► for this node ─► opened, delivered, acknowledged
///                                             └─► for others ─► stored ─► routed ──no acknowledgement──► epidemic
///                                                                      └──no route is known──────────────────┘
///
/// A bundle for one endpoint is forwarded from neighbour to neighbour as long as a route is known, and every node on the path
/// stores a copy. Only when no acknowledgement comes back, or no route is known, every node that is met is offered one.
///
/// The parts own the state and are tested alone; this type orders their calls, and draws the random numbers:
///
///     SpanningTree     neighbours' positions, epoch, parent, reachability
///     ReportExchange   what each neighbour was told, and has not confirmed
///     BundleIndex      what is stored, duplicates, quotas, expiry
///     Forwarder        next hops, copies and their confirmation, receipts
///     BundleBudgets    rates of the work that neighbours cause
package struct BundleRouter: Sendable {
    let keys: RouterKeys
    package let address: EndpointID
    var random: any RandomNumberGenerator & Sendable
    var tree: SpanningTree
    var exchange = ReportExchange()
    var index: BundleIndex
    var forwarder: Forwarder
    var budgets: BundleBudgets
    private var timers = DeadlineQueue<RouterTimer>()
    private var reactions: [BundleReaction] = []
    private var isSweepScheduled = false
    /// Lead of the wall clock over the monotonic one when a neighbour last had this node's time; nil before the first neighbour.
    private var confirmedClockLead: Int64?
    var clockWarnings = ClockWarnings()

    /// - Parameter random: the kernel's in a real node, as keys are drawn from it.
    package init(
        keys: RouterKeys, settings: BundleRouterSettings = BundleRouterSettings(),
        random: any RandomNumberGenerator & Sendable, now: Moment
    ) {
        self.keys = keys
        self.random = random
        let salt = self.random.next()
        address = keys.publicKeys.address
        tree = SpanningTree(local: address, epochInterval: settings.epochInterval, now: now)
        index = BundleIndex(local: address, quota: settings.quota, salt: salt, isContact: settings.isContact)
        forwarder = Forwarder(settings: settings)
        budgets = BundleBudgets(settings: settings)
    }

    // MARK: State

    var settings: BundleRouterSettings { forwarder.settings }

    /// Removes and returns the pending reactions, in order.
    package mutating func drainReactions() -> [BundleReaction] {
        guard !reactions.isEmpty else { return [] }
        defer { reactions = [] }
        return reactions
    }

    /// When ``advance(to:)`` must be called if there is no other event before.
    package var deadline: MonotonicInstant? { timers.nextDeadline }

    /// The destination of a stored bundle; nil for everyone, for an unnamed one, and for a bundle that is not stored.
    package func destination(of id: BundleID) -> EndpointID? { index[id]?.destination }

    /// Whether a stored bundle is sent only in the session with its destination, see ``Bundle/requiresSession``.
    package func isDirect(_ id: BundleID) -> Bool { index[id]?.requiresSession == true }

    /// Stored bundles, this node's own and others'.
    package var bundleCount: Int { index.count }
    package var neighbourCount: Int { forwarder.neighbourCount }

    /// Bytes of memory, calculated from the tables of all parts.
    package var byteCount: Int {
        MemoryLayout<Self>.size + timers.byteCount + tree.byteCount + exchange.byteCount + index.byteCount
            + forwarder.byteCount + budgets.byteCount
    }

    package func isNeighbour(_ endpoint: EndpointID) -> Bool { forwarder.isNeighbour(endpoint) }

    /// Whether a bundle has to take a Bluetooth hop, as far as this node knows: its destination or all neighbours are behind
    /// one.
    package func needsRadio(to destination: EndpointID?) -> Bool {
        guard forwarder.neighbourCount > 0 else { return false }
        if let destination, let link = forwarder.link(to: destination) { return link.isRadio }
        return forwarder.areAllLinksRadio
    }

    // MARK: Sending

    /// Sends a bundle to an endpoint or to everyone.
    /// - Throws: ``BundleRejection/tooManyWaiting``.
    package mutating func send(_ bundle: OutgoingBundle, now: Moment) throws(BundleRejection) {
        try storeOwn(bundle, now: now)
        start(bundle.id, now: now)
    }

    /// Sends a bundle to a neighbour, which does not forward it. With a hop limit of 1 and a readable body it travels inside
    /// the session with that neighbour (``Bundle/requiresSession``), so that keys learnt later do not open it.
    /// - Throws: ``BundleRejection/notInRange``.
    package mutating func sendDirect(
        _ bundle: OutgoingBundle, to destination: EndpointID, now: Moment
    ) throws(BundleRejection) {
        guard forwarder.isNeighbour(destination) else { throw .notInRange }
        try storeOwn(bundle, now: now)
        index.update(bundle.id) { $0.state = .direct(to: destination) }
        let (isForwarded, effects) = forwarder.forward(bundle.id, to: destination, index: &index, now: now)
        apply(effects, now: now)
        if !isForwarded { fail(bundle.id, now: now) }
    }

    private mutating func storeOwn(_ bundle: OutgoingBundle, now: Moment) throws(BundleRejection) {
        guard !index.isFullOfOwn else { throw .tooManyWaiting }
        store(StoredBundle(id: bundle.id, copy: bundle.copy, previousNode: nil), now: now)
    }

    /// Replaces a readable bundle of this node by the same one with another time of creation.
    /// - Parameter copy: of the stored bundle.
    /// - Returns: the id of the new bundle; nil where none is stored, and for a bundle with a sealed part, which stays.
    package mutating func redate(_ copy: BundleCopy, created: WallTime, now: Moment) -> BundleID? {
        let old = copy.bundle.id
        guard index[old]?.isOwn == true,
            let bundle = OutgoingBundle(redating: copy.bundle, from: keys, created: created, random: &random)
        else { return nil }
        delete(old, now: now)
        store(StoredBundle(id: bundle.id, copy: bundle.copy, previousNode: nil), now: now)
        index.register(acknowledgement: bundle.id)
        start(bundle.id, now: now)
        return bundle.id
    }

    /// Deletes a bundle of this node that another one replaces. Its progress is not reported any more.
    package mutating func discard(_ id: BundleID, now: Moment) {
        if index[id]?.isOwn == true { delete(id, now: now) }
    }

    /// Restores the state after a restart.
    /// - Parameters:
    ///   - stored: the bundles in the store.
    ///   - delivered: bundles that were delivered here, with their expiry.
    package mutating func restore(_ stored: [StoredBundle], delivered: [(id: BundleID, expiry: WallTime)], now: Moment) {
        for var bundle in stored {
            // The numbers of links begin again.
            if bundle.host.isLink { bundle.host = .unknown }
            index.insert(bundle)
            index.register(acknowledgement: bundle.id)
            if bundle.copy.forwarding == .epidemic || index[bundle.id]?.destination == nil {
                index.startEpidemic(bundle.id)
            }
        }
        // Those that expire last, and no more than there is room for: a full table is searched for each.
        let remembered = delivered.filter { $0.expiry > now.wall }.sorted { $0.expiry > $1.expiry }
        for (id, expiry) in remembered.prefix(index.seen.freeCount) { index.recordSeen(id, expiry: expiry, from: nil) }
        sweep(now: now)
    }

    // MARK: Neighbours

    /// Adds a node in range. Beyond 64 neighbours it is ignored (B9).
    package mutating func neighbourUp(_ neighbour: EndpointID, link: BundleLink, now: Moment) {
        guard neighbour != address, !forwarder.isNeighbour(neighbour),
            forwarder.neighbourCount < Self.maximumNeighbourCount
        else { return }
        apply(tree.addNeighbour(neighbour, isRadio: link.isRadio, now: now), now: now)
        scheduleSweep(now: now)
        index.setHost(link.host, of: neighbour)
        exchange.addNeighbour(neighbour)
        forwarder.addNeighbour(neighbour, link: link, epidemicByteCount: index.epidemicByteCount, now: now)
        confirmClock(now: now)
        checkCreationTimes(now: now)
        report(.positionAndSummary, to: neighbour, now: now)
        forwardWaiting(to: neighbour, now: now)
    }

    private mutating func forwardWaiting(to neighbour: EndpointID, now: Moment) {
        for id in index.bundles(for: neighbour) {
            apply(forwarder.forward(id, to: neighbour, index: &index, now: now).effects, now: now)
        }
        apply(forwarder.scheduleRetry(index: index), now: now)
    }

    /// Records that a neighbour is reached by another link. Where it is of another kind, forwards what the old one was too narrow
    /// for.
    package mutating func neighbourRelinked(_ neighbour: EndpointID, link: BundleLink, now: Moment) {
        guard let old = forwarder.setLink(link, to: neighbour) else { return }
        index.setHost(link.host, of: neighbour)
        guard link.isRadio != old.isRadio else { return }
        tree.setRadio(link.isRadio, of: neighbour)
        report(.positionAndSummary, to: neighbour, now: now)
        forwardWaiting(to: neighbour, now: now)
    }

    package mutating func neighbourDown(_ neighbour: EndpointID, now: Moment) {
        guard forwarder.removeNeighbour(neighbour) else { return }
        index.removeHost(of: neighbour)
        exchange.removeNeighbour(neighbour)
        apply(tree.removeNeighbour(neighbour, now: now), now: now)
        for id in index.bundles(in: .direct(to: neighbour)) { fail(id, now: now) }
    }

    // MARK: Time

    /// Handles everything that is due.
    package mutating func advance(to now: Moment) {
        while let timer = timers.popDue(now.monotonic) {
            switch timer {
            case .epochEnd: apply(tree.endEpoch(now: now), now: now)
            case .parentSelection: apply(tree.selectParent(now: now), now: now)
            case .reachabilityReport: apply(tree.reachabilityReportDue(now: now), now: now)
            case .sweep: sweep(now: now)
            case .waitingRetry: for id in forwarder.retryDue(index: index) { start(id, now: now) }
            case .acknowledgementTimeout(let id):
                apply(forwarder.acknowledgementTimedOut(id, index: &index, tree: tree, now: now), now: now)
            case .retransmission(let id, let neighbour, let attemptCount):
                let effects = forwarder.retransmit(
                    id, to: neighbour, after: attemptCount, index: &index, tree: tree, now: now)
                apply(effects, now: now)
            case .resend(let id, let neighbour):
                apply(forwarder.resend(id, to: neighbour, index: &index, now: now), now: now)
            case .receipts(let neighbour): apply(forwarder.sendReceipts(to: neighbour), now: now)
            case .reportRetransmission(let neighbour, let token):
                if let request = exchange.retransmission(of: token, to: neighbour) { report(request, to: neighbour, now: now) }
            case .pacing(let neighbour):
                apply(forwarder.sendQueued(to: neighbour, index: &index, now: now), now: now)
            }
        }
    }

    /// Removes expired entries.
    private mutating func sweep(now: Moment) {
        isSweepScheduled = false
        for id in index.expired(now: now) { fail(id, now: now) }
        checkCreationTimes(now: now)
        index.sweep(now: now)
        forwarder.sweep(now: now)
        budgets.sweep(now: now.monotonic)
        if !index.isEmpty || forwarder.neighbourCount > 0 { scheduleSweep(now: now) }
    }

    /// Looks for this node's own bundles that were created while the clock was ahead. Only while there is a neighbour that has this
    /// node's time. A clock that is behind until it is set would otherwise turn all times of creation back, and what was sent would
    /// expire when it is, or be delivered again under another id.
    private mutating func checkCreationTimes(now: Moment) {
        guard forwarder.neighbourCount > 0, !hasClockStepped(now: now) else { return }
        let (ahead, due) = index.markAhead(after: WallTime(milliseconds: now.wall.milliseconds + Self.clockTolerance))
        if !ahead.isEmpty { react(.emit(.createdAhead(ahead))) }
        for id in due { start(id, now: now) }
    }

    /// Records that a neighbour has this node's time: the mesh accepts no packet from one whose clock differs.
    mutating func confirmClock(now: Moment) {
        let hadStepped = hasClockStepped(now: now)
        confirmedClockLead = Self.clockLead(now)
        if hadStepped { checkCreationTimes(now: now) }
    }

    /// Whether the wall clock was set since a neighbour last had this node's time. A sleep counts as well: the monotonic clock stops
    /// there, which would hide that the wall clock was set back by less than the length of the sleep.
    private func hasClockStepped(now: Moment) -> Bool {
        confirmedClockLead.map { $0.distance(to: Self.clockLead(now)).magnitude > UInt(Self.clockTolerance) } ?? false
    }

    private static func clockLead(_ now: Moment) -> Int64 {
        now.wall.milliseconds - now.monotonic.nanoseconds / 1_000_000
    }

    mutating func scheduleSweep(now: Moment) {
        guard !isSweepScheduled else { return }
        isSweepScheduled = true
        schedule(.sweep, after: JitteredDelay(Self.sweepInterval), now: now)
    }

    // MARK: Effects

    mutating func react(_ reaction: BundleReaction) {
        reactions.append(reaction)
    }

    mutating func apply(_ effects: [RouterEffect], now: Moment) {
        for effect in effects {
            switch effect {
            case .start(let timer, let delay): schedule(timer, after: delay, now: now)
            case .react(let reaction): reactions.append(reaction)
            }
        }
    }

    mutating func apply(_ treeReactions: [SpanningTree.Reaction], now: Moment) {
        for reaction in treeReactions {
            switch reaction {
            case .start(let timer, let delay): schedule(timer, after: delay, now: now)
            case .report(let neighbour): report(.position, to: neighbour, now: now)
            case .reportToAll:
                for neighbour in tree.neighbours.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
                    report(.positionAndSummary, to: neighbour, now: now)
                }
            case .childJoined(let neighbour):
                if exchange.isSummaryDue(to: neighbour, seen: index.seen) {
                    report(.positionAndSummary, to: neighbour, now: now)
                }
            }
        }
    }

    private mutating func schedule(_ timer: RouterTimer, after delay: JitteredDelay, now: Moment) {
        timers.insert(timer, at: delay.end(from: now.monotonic, using: &random))
    }

    mutating func report(_ request: ReportExchange.Request, to neighbour: EndpointID, now: Moment) {
        guard forwarder.link(to: neighbour) != nil else { return }
        let effects = exchange.report(
            request, to: neighbour, tree: &tree, seen: index.seen, now: now.monotonic, random: &random)
        apply(effects, now: now)
    }

    /// Starts to forward a bundle that is stored.
    mutating func start(_ id: BundleID, now: Moment) {
        apply(forwarder.start(id, index: &index, tree: tree, now: now), now: now)
    }

    // MARK: Stored bundles

    mutating func store(_ bundle: StoredBundle, now: Moment) {
        index.insert(bundle)
        reactions.append(.store(bundle))
        scheduleSweep(now: now)
    }

    /// Deletes a bundle that cannot be delivered.
    mutating func fail(_ id: BundleID, now: Moment) {
        guard let entry = delete(id, now: now) else { return }
        if entry.isOwn, !entry.isAcknowledgement, entry.hashLock != nil { reactions.append(.emit(.expired(id))) }
    }

    @discardableResult
    mutating func delete(_ id: BundleID, now: Moment) -> BundleEntry? {
        guard let entry = index.remove(id, now: now) else { return nil }
        reactions.append(.delete([id]))
        return entry
    }

    private static let sweepInterval = Duration.seconds(30)
    private static let maximumNeighbourCount = 64
}
