internal import NearshareBase

/// Decides to which neighbours stored bundles are forwarded, and repeats copies until they are confirmed.
///
///     routed      neighbour? reverse route? below a neighbour in the tree? parent? ──► one copy ──unacknowledged──► epidemic
///     epidemic    one copy to each tree neighbour, then to every neighbour whose summary vector lacks the bundle
struct Forwarder: Sendable {
    /// The copies exchanged with one neighbour.
    private struct Neighbour {
        var link: BundleLink
        /// Bytes of copies that its summary vectors may still request: each bundle twice, and some more with time (B2).
        private(set) var requestCredit: Int32 = Forwarder.spareRequestCredit
        /// Copies that it has not confirmed, by the first 8 bytes of the bundle's ID.
        var unconfirmed: [UInt64: SentCopy] = [:]
        /// Bundles that it is known to hold, with the second of the monotonic clock in which this was learnt.
        private(set) var holdings: [UInt64: UInt32] = [:]
        /// The number of holdings at which old ones are removed next.
        private var sweepCount = Forwarder.minimumSweepCount
        /// Bundles that it lacks, which are forwarded at a limited rate.
        var queue: [BundleID] = []
        var queueEnd: MonotonicInstant
        /// Bundles and reports received from it, to be confirmed together.
        var receipts: [UInt64] = []

        /// - Parameter epidemicByteCount: of the bundles that are offered to it at first.
        init(link: BundleLink, epidemicByteCount: Int, now: MonotonicInstant) {
            self.link = link
            queueEnd = now
            addRequestCredit(Forwarder.requestCount * epidemicByteCount)
        }

        mutating func addRequestCredit(_ byteCount: Int) {
            requestCredit = Int32(clamping: min(Int(requestCredit) + byteCount, Forwarder.maximumRequestCredit))
        }

        /// - Returns: false when the neighbour has requested too much.
        mutating func consumeRequestCredit(_ byteCount: Int) -> Bool {
            guard Int(requestCredit) >= byteCount else { return false }
            requestCredit = Int32(clamping: Int(requestCredit) - byteCount)
            return true
        }

        /// Whether it holds the bundle, or has been sent a copy.
        func isHeldOrSent(_ id: BundleID) -> Bool { holdings[id.short] != nil || unconfirmed[id.short] != nil }

        /// Records a holding. Beyond the limit all are forgotten: its next summary vector restores them (B9).
        mutating func insertHolding(of number: UInt64, at second: UInt32) {
            holdings[number] = second
            guard holdings.count > sweepCount else { return }
            removeOldHoldings(now: second)
            if holdings.count > Forwarder.maximumHoldingCount { holdings = [:] }
            sweepCount = max(Forwarder.minimumSweepCount, 2 * holdings.count)
        }

        mutating func removeOldHoldings(now second: UInt32) {
            let oldest = second - min(Forwarder.holdingSeconds, second)
            guard holdings.values.contains(where: { $0 < oldest }) else { return }
            holdings = holdings.filter { $0.value >= oldest }
        }
    }

    /// A copy over a link that loses packets.
    private struct SentCopy {
        let id: BundleID
        let firstSent: MonotonicInstant
        var attemptCount: UInt8
    }

    let settings: BundleRouterSettings
    private var neighbours: [EndpointID: Neighbour] = [:]
    private var routes = ReverseRoutes()
    private var isRetryScheduled = false

    init(settings: BundleRouterSettings) {
        self.settings = settings
    }

    // MARK: Neighbours

    var neighbourCount: Int { neighbours.count }
    var routeCount: Int { routes.count }

    /// Bytes on the heap.
    var byteCount: Int {
        neighbours.values.reduce(neighbours.tableByteCount + routes.byteCount) {
            $0 + $1.unconfirmed.tableByteCount + $1.holdings.tableByteCount + 16 * $1.queue.capacity
        }
    }

    /// - Parameter epidemicByteCount: of the bundles under epidemic forwarding, which it may request.
    mutating func addNeighbour(_ id: EndpointID, link: BundleLink, epidemicByteCount: Int, now: Moment) {
        neighbours[id] = Neighbour(link: link, epidemicByteCount: epidemicByteCount, now: now.monotonic)
    }

    /// - Returns: the link before; nil when it is no neighbour.
    mutating func setLink(_ link: BundleLink, to id: EndpointID) -> BundleLink? {
        guard let old = self.link(to: id) else { return nil }
        change(id) { $0.link = link }
        return old
    }

    /// - Returns: false when it was none.
    mutating func removeNeighbour(_ id: EndpointID) -> Bool { neighbours.removeValue(forKey: id) != nil }

    func isNeighbour(_ id: EndpointID) -> Bool { neighbours.index(forKey: id) != nil }

    func link(to id: EndpointID) -> BundleLink? { neighbours[id]?.link }

    var areAllLinksRadio: Bool { neighbours.values.allSatisfy { $0.link.isRadio } }

    /// Changes a neighbour in place in the table, without a copy of its state.
    @discardableResult
    private mutating func change<Result>(_ id: EndpointID, _ body: (inout Neighbour) -> Result) -> Result? {
        guard let index = neighbours.index(forKey: id) else { return nil }
        return body(&neighbours.values[index])
    }

    // MARK: Routed forwarding

    /// Starts to forward a bundle that has just been stored.
    /// - Parameters:
    ///   - neighbour: the neighbour that sent it; nil for this node.
    ///   - preferred: the first choice of a next hop; for an acknowledgement the previous node of its bundle.
    ///   - isEpidemic: whether it was received under epidemic forwarding.
    mutating func start(
        _ id: BundleID, from neighbour: EndpointID? = nil, preferring preferred: EndpointID? = nil,
        isEpidemic: Bool = false, index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id] else { return [] }
        guard let destination = entry.destination, !isEpidemic || isNeighbour(destination) else {
            return spread(id, from: neighbour, index: &index, tree: tree, now: now)
        }
        return route(
            id, excluding: neighbour.map { [$0] } ?? [], preferring: preferred, index: &index, tree: tree, now: now)
    }

    /// Forwards a bundle to the neighbour nearest to its destination; if none is known to be nearer, epidemic forwarding
    /// begins.
    mutating func route(
        _ id: BundleID, excluding excluded: Set<EndpointID>, preferring preferred: EndpointID? = nil,
        index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let destination = index[id]?.destination, !neighbours.isEmpty else { return [] }
        var effects: [RouterEffect] = []
        var excluded = excluded
        var preferred = preferred
        while true {
            guard let next = preferred ?? nextHop(to: destination, excluding: excluded, tree: tree) else {
                return missRoute(id, index: &index, tree: tree, now: now)
            }
            preferred = nil
            if isNeighbour(next), next == destination || !isHeldOrSent(id, by: next) {
                index.update(id) { $0.state = .routed(to: next) }
                if forward(id, to: next, .routed, index: &index, now: now, effects: &effects) { break }
            }
            // The next node is out of range, the bundle has visited it before, or its link takes only smaller bundles.
            excluded.insert(next)
        }
        if let entry = index[id], !entry.isAcknowledgement { effects.append(acknowledgementTimer(id)) }
        return effects
    }

    private func nextHop(
        to destination: EndpointID, excluding excluded: Set<EndpointID>, tree: SpanningTree
    ) -> EndpointID? {
        if isNeighbour(destination), !excluded.contains(destination) { return destination }
        if let next = routes.nextHop(to: destination), isNeighbour(next), !excluded.contains(next) { return next }
        return tree.nextHop(to: destination, excluding: excluded)
    }

    private mutating func missRoute(
        _ id: BundleID, index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id] else { return [] }
        guard tree.isStable(now: now), !entry.isSecondAttempt else {
            return spread(id, from: nil, index: &index, tree: tree, now: now)
        }
        index.update(id) {
            $0.isSecondAttempt = true
            $0.state = .waiting
        }
        return [.start(.acknowledgementTimeout(id), JitteredDelay(Self.secondAttemptDelay))]
    }

    private func acknowledgementTimer(_ id: BundleID) -> RouterEffect {
        .start(.acknowledgementTimeout(id), JitteredDelay(settings.acknowledgementTimeout, by: 1...1.5))
    }

    /// Handles a missing acknowledgement. Where nodes do not move the sender tries a second time; elsewhere epidemic forwarding
    /// begins.
    mutating func acknowledgementTimedOut(
        _ id: BundleID, index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id] else { return [] }
        switch entry.state {
        case .waiting where entry.isSecondAttempt:
            return route(id, excluding: [], index: &index, tree: tree, now: now)
        case .routed where tree.isStable(now: now) && !entry.isSecondAttempt:
            index.update(id) { $0.isSecondAttempt = true }
            guard entry.isOwn else { return [acknowledgementTimer(id)] }
            return route(id, excluding: [], index: &index, tree: tree, now: now)
        case .routed: return spread(id, from: nil, index: &index, tree: tree, now: now)
        default: return []
        }
    }

    // MARK: Epidemic forwarding

    /// Offers a bundle to every neighbour from now on, and forwards it at once along the tree.
    mutating func spread(
        _ id: BundleID, from neighbour: EndpointID?, index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id] else { return [] }
        if !entry.isEpidemic {
            for place in neighbours.indices {
                neighbours.values[place].addRequestCredit(Self.requestCount * entry.byteCount)
            }
        }
        index.startEpidemic(id)
        var effects: [RouterEffect] = []
        for next in tree.broadcastNeighbours where next != neighbour {
            forward(id, to: next, .epidemic, index: &index, now: now, effects: &effects)
        }
        return effects
    }

    /// Compares a neighbour's summary vector with the bundles that are forwarded here.
    /// - Returns: the bundles that the neighbour lacks, and whether it lists any that this node has not seen.
    func compare(
        _ summary: SummaryVector, of neighbour: EndpointID, index: BundleIndex
    ) -> (missing: [BundleID], hasUnseen: Bool) {
        guard let record = neighbours[neighbour] else { return ([], false) }
        let members = summary.members
        var isSeen = [Bool](repeating: false, count: members.values.count)
        var missing: [BundleID] = []
        for id in index.seen.epidemic {
            guard let value = members.value(of: id) else { continue }
            if let position = members.position(of: value) {
                isSeen[position] = true
            } else if index[id]?.isEpidemic == true, !record.isHeldOrSent(id) {
                missing.append(id)
            }
        }
        return (missing, isSeen.contains(false))
    }

    /// Replaces the queue of a neighbour by these bundles, for as long as their sharing time.
    mutating func replaceQueue(
        of neighbour: EndpointID, with ids: [BundleID], index: inout BundleIndex, now: Moment
    ) -> [RouterEffect] {
        guard let longest = ids.compactMap({ index[$0]?.sharingTime }).max() else { return [] }
        let queue = index.roundRobin(ids)
        let end = now.monotonic + .milliseconds(min(longest, settings.profile.sharingTimeMilliseconds))
        change(neighbour) {
            $0.queue = queue
            $0.queueEnd = end
        }
        return sendQueued(to: neighbour, index: &index, now: now)
    }

    /// Forwards as much of a neighbour's queue as its link accepts at once.
    mutating func sendQueued(to id: EndpointID, index: inout BundleIndex, now: Moment) -> [RouterEffect] {
        guard let link = link(to: id), let queue = neighbours[id]?.queue, let end = neighbours[id]?.queueEnd, !queue.isEmpty
        else { return [] }
        guard now.monotonic <= end else {
            change(id) { $0.queue = [] }
            return []
        }
        var effects: [RouterEffect] = []
        var budget = link.isRadio ? Self.radioPacingByteCount : Self.pacingByteCount
        var takenCount = 0
        for bundle in queue where budget > 0 {
            takenCount += 1
            guard let entry = index[bundle], entry.isEpidemic, !entry.isAhead, !isHeldOrSent(bundle, by: id) else { continue }
            // A neighbour that forgets what it has received would otherwise draw every bundle again and again (B2).
            guard change(id, { $0.consumeRequestCredit(entry.byteCount) }) == true else {
                takenCount = queue.count
                break
            }
            if forward(bundle, to: id, .epidemic, index: &index, now: now, effects: &effects) {
                budget -= entry.byteCount
            }
        }
        let isEmpty =
            change(id) {
                $0.queue.removeFirst(takenCount)
                return $0.queue.isEmpty
            } ?? true
        if !isEmpty { effects.append(.start(.pacing(id), JitteredDelay(Self.pacingInterval))) }
        return effects
    }

    // MARK: Copies

    /// Forwards a copy to a neighbour outside the order of routes.
    mutating func forward(
        _ id: BundleID, to neighbour: EndpointID, index: inout BundleIndex, now: Moment
    ) -> (isForwarded: Bool, effects: [RouterEffect]) {
        var effects: [RouterEffect] = []
        let isForwarded = forward(id, to: neighbour, .routed, index: &index, now: now, effects: &effects)
        return (isForwarded, effects)
    }

    /// Forwards a copy to a neighbour, within the limits of the bundle and of this node.
    /// - Returns: false when a limit forbids it.
    @discardableResult
    private mutating func forward(
        _ id: BundleID, to neighbour: EndpointID, _ mode: BundleCopy.ForwardingMode, index: inout BundleIndex,
        now: Moment, effects: inout [RouterEffect]
    ) -> Bool {
        guard let entry = index[id], !entry.isAhead, let link = link(to: neighbour) else { return false }
        guard !isHeldOrSent(id, by: neighbour) else { return true }
        guard isWithinLimits(entry), entry.fitsRadio || !link.isRadio else { return false }
        // A node that gets a copy on its last hop cannot forward it, so only the destination can use it.
        if let destination = entry.destination, destination != neighbour, entry.hopCount + 1 >= entry.hopLimit { return false }
        // Any node on the path could have put anything into the list of visited nodes: it never withholds a bundle from its
        // destination, and nothing under epidemic forwarding, where summary vectors tell what a neighbour has (B4).
        if mode == .routed, entry.destination != neighbour, entry.visitedTags.contains(neighbour.visitTag(in: id)) {
            return false
        }
        effects.append(copy(of: id, entry, to: neighbour, mode, index: &index))
        change(neighbour) { $0.unconfirmed[id.short] = SentCopy(id: id, firstSent: now.monotonic, attemptCount: 1) }
        effects.append(
            .start(.retransmission(id, to: neighbour, after: 1), JitteredDelay(Self.retransmissionDelay, by: 1...1.2)))
        return true
    }

    private func isWithinLimits(_ entry: BundleEntry) -> Bool {
        Int(entry.forwardCount) < min(entry.maximumPropagation, settings.profile.maximumPropagation)
            && entry.hopCount < min(entry.hopLimit, settings.profile.hopLimit)
    }

    private func copy(
        of id: BundleID, _ entry: BundleEntry, to neighbour: EndpointID, _ mode: BundleCopy.ForwardingMode,
        index: inout BundleIndex
    ) -> RouterEffect {
        index.update(id) { $0.forwardCount += 1 }
        // The destination does not forward it.
        let mode = entry.destination == neighbour ? .routed : mode
        return .react(
            .forward(
                id, to: neighbour, hopCount: entry.hopCount + 1, forwarding: mode, visitedTags: entry.visitedTags))
    }

    /// Records that a neighbour certainly holds the bundle.
    private mutating func confirmed(_ id: BundleID, index: inout BundleIndex, now: Moment) -> [RouterEffect] {
        guard let entry = index[id] else { return [] }
        var effects: [RouterEffect] = []
        if entry.isOwn, !entry.isSent, !entry.isAcknowledgement {
            index.update(id) { $0.isSent = true }
            effects.append(.react(.emit(.sent(id))))
        }
        // An acknowledgement is not acknowledged. This node's own are retained for senders that ask again.
        guard entry.isAcknowledgement, case .routed = entry.state else { return effects }
        if entry.isOwn {
            index.update(id) { $0.state = .retained }
        } else if index.remove(id, now: now) != nil {
            effects.append(.react(.delete([id])))
        }
        return effects
    }

    /// Repeats a copy that is not confirmed, at growing intervals, as long as the sharing time lasts. Older copies of the same
    /// source for the same destination are repeated before it, because the timers are random: the lines of a conversation would
    /// arrive in another order than they were written.
    /// - Parameter attemptCount: of the copy when the timer was started; a timer for an earlier attempt has no effect.
    mutating func retransmit(
        _ id: BundleID, to neighbour: EndpointID, after attemptCount: UInt8, index: inout BundleIndex, tree: SpanningTree,
        now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id], neighbours[neighbour]?.unconfirmed[id.short]?.attemptCount == attemptCount else {
            return []
        }
        let older = index.bundles(before: entry).filter { other in
            (neighbours[neighbour]?.unconfirmed[other.short]?.attemptCount).map { $0 <= attemptCount } ?? false
        }
        return (older + [id]).flatMap { repeatCopy(of: $0, to: neighbour, index: &index, tree: tree, now: now) }
    }

    private mutating func repeatCopy(
        of id: BundleID, to neighbour: EndpointID, index: inout BundleIndex, tree: SpanningTree, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id], let last = neighbours[neighbour]?.unconfirmed[id.short] else { return [] }
        let sharingTime = Duration.milliseconds(min(entry.sharingTime, settings.profile.sharingTimeMilliseconds))
        guard now.monotonic - last.firstSent <= sharingTime, last.attemptCount < Self.maximumAttemptCount,
            isWithinLimits(entry)
        else {
            change(neighbour) { $0.unconfirmed[id.short] = nil }
            // The neighbour seems to be out of range, or does not know this node yet.
            guard entry.state == .routed(to: neighbour) else { return [offerAgain(id, to: neighbour)] }
            return route(id, excluding: [neighbour], index: &index, tree: tree, now: now) + [offerAgain(id, to: neighbour)]
        }
        let copy = copy(of: id, entry, to: neighbour, entry.isEpidemic ? .epidemic : .routed, index: &index)
        change(neighbour) { $0.unconfirmed[id.short]?.attemptCount += 1 }
        let delay = JitteredDelay(Self.retransmissionDelay * Double(1 << last.attemptCount))
        return [copy, .start(.retransmission(id, to: neighbour, after: last.attemptCount + 1), delay)]
    }

    private func offerAgain(_ id: BundleID, to neighbour: EndpointID) -> RouterEffect {
        .start(.resend(id, to: neighbour), JitteredDelay(Self.resendDelay, by: 1...1.5))
    }

    /// Offers a bundle again that a neighbour has not confirmed, if it is still in range: its own summary vector was compared while
    /// the last copy was unconfirmed, and it sends no other one before it changes.
    mutating func resend(
        _ id: BundleID, to neighbour: EndpointID, index: inout BundleIndex, now: Moment
    ) -> [RouterEffect] {
        guard let entry = index[id], !isHeldOrSent(id, by: neighbour) else { return [] }
        var effects: [RouterEffect] = []
        // In the order of their creation, like copies that are repeated sooner.
        for id in index.bundles(before: entry) + [id] {
            guard let entry = index[id], isNeighbour(neighbour), !isHeldOrSent(id, by: neighbour),
                entry.isEpidemic || entry.destination == neighbour, isWithinLimits(entry)
            else { continue }
            forward(id, to: neighbour, entry.isEpidemic ? .epidemic : .routed, index: &index, now: now, effects: &effects)
        }
        return effects
    }

    // MARK: Waiting bundles

    /// Retries bundles that no neighbour could take, once new neighbours had time to report their reachability.
    mutating func scheduleRetry(index: BundleIndex) -> [RouterEffect] {
        guard !isRetryScheduled, index.hasWaiting else { return [] }
        isRetryScheduled = true
        return [.start(.waitingRetry, JitteredDelay(Self.waitingRetryDelay))]
    }

    /// - Returns: the bundles to forward again.
    mutating func retryDue(index: BundleIndex) -> [BundleID] {
        isRetryScheduled = false
        return index.bundles(in: .waiting)
    }

    // MARK: Receipts

    /// Confirms a bundle or a report to the neighbour that sent it.
    /// - Parameter number: the first 8 bytes of a bundle's ID, or the token of a report.
    mutating func confirm(_ number: UInt64, to neighbour: EndpointID) -> [RouterEffect] {
        let count = change(neighbour) { record -> Int in
            record.receipts.append(number)
            return record.receipts.count
        }
        switch count {
        case nil: return []
        case 1: return [.start(.receipts(to: neighbour), JitteredDelay(Self.receiptDelay))]
        case let count? where count >= BundlePacket.maximumReceiptCount: return sendReceipts(to: neighbour)
        default: return []
        }
    }

    mutating func sendReceipts(to neighbour: EndpointID) -> [RouterEffect] {
        let receipts = change(neighbour) { record -> [UInt64] in
            defer { record.receipts = [] }
            return record.receipts
        }
        guard let receipts, !receipts.isEmpty else { return [] }
        return [.react(.send(.receipt(receipts), to: neighbour))]
    }

    /// Handles a neighbour's confirmation of the copy with this number.
    mutating func receiveReceipt(
        _ number: UInt64, from neighbour: EndpointID, index: inout BundleIndex, now: Moment
    ) -> [RouterEffect] {
        let id = change(neighbour) { record -> BundleID? in
            guard let copy = record.unconfirmed.removeValue(forKey: number) else { return nil }
            record.insertHolding(of: number, at: now.second)
            return copy.id
        }
        guard case let id?? = id else { return [] }
        return confirmed(id, index: &index, now: now)
    }

    // MARK: Holdings

    /// Whether the neighbour holds the bundle, or has been sent a copy.
    func isHeldOrSent(_ id: BundleID, by neighbour: EndpointID) -> Bool { neighbours[neighbour]?.isHeldOrSent(id) ?? false }

    mutating func recordHolding(of id: BundleID, by neighbour: EndpointID, now: Moment) {
        let second = now.second
        change(neighbour) {
            $0.unconfirmed[id.short] = nil
            $0.insertHolding(of: id.short, at: second)
        }
    }

    mutating func recordRoute(to source: EndpointID, through neighbour: EndpointID, hopCount: Int, now: Moment) {
        routes.record(source: source, through: neighbour, hopCount: hopCount, now: now) { [neighbours] in
            neighbours[$0] != nil
        }
    }

    /// Removes old routes and holdings.
    mutating func sweep(now: Moment) {
        routes.removeExpired(now: now)
        for index in neighbours.indices {
            neighbours.values[index].removeOldHoldings(now: now.second)
            neighbours.values[index].addRequestCredit(Self.sweepRequestCredit)
        }
    }

    /// Times that a neighbour may request each bundle under epidemic forwarding, on average (B2).
    private static let requestCount = 2
    private static let spareRequestCredit: Int32 = 16_384
    /// Bytes that are added at each sweep.
    private static let sweepRequestCredit = 2_048
    private static let maximumRequestCredit = 16_777_216
    private static let pacingByteCount = 32 << 10
    private static let radioPacingByteCount = 2 << 10
    private static let pacingInterval = Duration.milliseconds(250)
    private static let retransmissionDelay = Duration.milliseconds(500)
    private static let maximumAttemptCount: UInt8 = 5
    /// Time after which a neighbour that confirmed nothing is tried again; longer than the interval of its announcements.
    private static let resendDelay = Duration.seconds(20)
    private static let secondAttemptDelay = Duration.seconds(10)
    private static let waitingRetryDelay = Duration.seconds(3)
    private static let receiptDelay = Duration.milliseconds(100)
    private static let holdingSeconds: UInt32 = 20
    private static let minimumSweepCount = 40
    private static let maximumHoldingCount = 4096
}

extension Moment {
    /// The second of the monotonic clock, at half the size of an instant.
    var second: UInt32 { UInt32(clamping: monotonic.nanoseconds / 1_000_000_000) }
}
