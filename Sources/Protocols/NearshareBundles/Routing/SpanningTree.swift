internal import NearshareBase

/// One node's view of the spanning tree over all connected nodes, whose root is the lowest endpoint ID.
///
///     epoch:         root increments it ──► neighbours select a parent for it and report ──► their neighbours ──► …
///     reachability:  each child reports the endpoints below it ──► parent merges them ──► … ──► root
///
/// A bundle for one endpoint is forwarded upwards until some node on the way reaches its destination below itself; a bundle for
/// everyone follows the links of the tree. What neighbours report about the tree cannot be verified: it decides where a bundle
/// is tried first, never whether it is stored or spread.
struct SpanningTree: Sendable {
    /// The last report of a neighbour about itself, and the last reports to it. The order of fields takes the least memory.
    struct Neighbour: Sendable {
        /// Nil until its first report.
        fileprivate(set) var position: TreePosition?
        /// Whether it has selected this node as its parent.
        fileprivate(set) var isChild = false
        fileprivate(set) var reachability = ReachabilityFilter.empty
        /// Generation of the filter in the last report to it; ``withdrawn`` for the empty one.
        fileprivate var reportedGeneration = Self.withdrawn
        fileprivate(set) var isRadio: Bool

        fileprivate static let withdrawn: Int32 = -1

        fileprivate init(isRadio: Bool) {
            self.isRadio = isRadio
        }
    }

    enum Reaction: Sendable, Hashable {
        case start(RouterTimer, JitteredDelay)
        /// Report the position to this neighbour.
        case report(to: EndpointID)
        /// Report the position and the summary vector to all neighbours.
        case reportToAll
        /// The neighbour has joined the tree below this node: earlier bundles for everyone have not reached it along the tree.
        case childJoined(EndpointID)
    }

    /// Failure detector of the root.
    private struct RootMonitor {
        /// When the current root was last known to increment the epoch.
        var lastEpochStart: MonotonicInstant
        /// When the epoch of the current root was last seen to increase; nil for a new root.
        var lastIncrement: MonotonicInstant?
        /// Roots that have stopped incrementing the epoch, with their last epochs.
        private(set) var silentRoots: [EndpointID: UInt32] = [:]

        mutating func recordSilence(of position: TreePosition) {
            if silentRoots.count >= Self.maximumSilentRootCount { silentRoots = [:] }
            silentRoots[position.root] = position.epoch
        }

        /// Whether the next epoch of the current root is not too early: a neighbour that makes epochs up would otherwise keep all
        /// nodes reporting (B9).
        func admitsEpoch(interval: Duration, now: MonotonicInstant) -> Bool {
            lastIncrement.map { now - $0 >= interval * Self.shortestEpoch } ?? true
        }

        /// Whether the root of a position still increments the epoch, as far as is known.
        func isAlive(rootOf position: TreePosition) -> Bool {
            silentRoots.isEmpty || silentRoots[position.root].map { position.epoch.isLater(than: $0) } ?? true
        }

        private static let maximumSilentRootCount = 16
        /// Share of the interval: an epoch may be delayed on its way to a node, and the next one not.
        private static let shortestEpoch = 0.25
    }

    /// The filter of this node: itself and everything that its children reach.
    private struct OwnReachability {
        /// Nil when it is long; then it is merged again for each report to the parent, because the children's filters contain
        /// the same data.
        var filter: ReachabilityFilter?
        var byteCount = 0
        var hash: Int?
        /// Incremented whenever the filter changes.
        var generation: Int32 = 0
        var isStale = true
        var isReportScheduled = false
        var lastReport: MonotonicInstant?
    }

    let local: EndpointID
    private(set) var neighbours: [EndpointID: Neighbour] = [:]
    private(set) var position: TreePosition
    private(set) var parent: EndpointID?
    /// When the parent last changed.
    private(set) var parentSince: MonotonicInstant
    private let epochInterval: Duration
    private var root: RootMonitor
    /// Distance from the root when the last path to it was lost.
    private var lostDistance: UInt16 = 0
    /// Deadline for the current parent to report the new epoch; nil while no selection is in progress.
    private var selectionDeadline: MonotonicInstant?
    /// Rate limit of selections, each of which all neighbours are told: claims of ever lower roots are made up at no cost (B9).
    private var selections: TokenBucket
    private var isEpochTimerRunning = false
    private var reachability = OwnReachability()

    init(local: EndpointID, epochInterval: Duration, now: Moment) {
        self.local = local
        self.epochInterval = epochInterval
        position = TreePosition(root: local, epoch: 0, distance: 0)
        root = RootMonitor(lastEpochStart: now.monotonic)
        parentSince = now.monotonic
        selections = TokenBucket(
            capacity: Self.selectionBurst, perSecond: Self.selectionsPerEpoch / (epochInterval / .seconds(1)),
            now: now.monotonic)
    }

    var isRoot: Bool { position.root == local }
    var silentRootCount: Int { root.silentRoots.count }

    /// Whether the parent has stayed the same for several epochs: the nodes here do not move.
    func isStable(now: Moment) -> Bool {
        now.monotonic - parentSince > epochInterval * Self.stableEpochCount
    }

    /// Bytes on the heap.
    var byteCount: Int {
        neighbours.tableByteCount + neighbours.values.reduce(0) { $0 + $1.reachability.bytes.count }
            + (reachability.filter?.bytes.count ?? 0)
    }

    // MARK: Neighbours

    mutating func addNeighbour(_ id: EndpointID, isRadio: Bool, now: Moment) -> [Reaction] {
        if neighbours.isEmpty { root.lastEpochStart = now.monotonic }
        neighbours[id] = Neighbour(isRadio: isRadio)
        return startEpochTimer()
    }

    mutating func setRadio(_ isRadio: Bool, of id: EndpointID) { neighbours[id]?.isRadio = isRadio }

    mutating func removeNeighbour(_ id: EndpointID, now: Moment) -> [Reaction] {
        guard let removed = neighbours.removeValue(forKey: id) else { return [] }
        var reactions: [Reaction] = []
        if removed.isChild { reactions += reachabilityChanged(now: now) }
        if parent == id { reactions += replaceParent(now: now) }
        return reactions
    }

    mutating func receive(_ report: SpanningTreeReport, from id: EndpointID, now: Moment) -> [Reaction] {
        guard let index = neighbours.index(forKey: id) else { return [] }
        let wasChild = neighbours.values[index].isChild
        neighbours.values[index].position = report.position
        neighbours.values[index].isChild = report.isToParent
        if let filter = report.reachability { neighbours.values[index].reachability = filter }
        var reactions: [Reaction] = []
        if wasChild != report.isToParent || (report.isToParent && report.reachability != nil) {
            reactions += reachabilityChanged(now: now)
        }
        if isUsable(report.position), isBetter(report.position, now: now) { reactions += scheduleSelection(now: now) }
        if !wasChild, report.isToParent { reactions.append(.childJoined(id)) }
        return reactions
    }

    // MARK: Epochs

    private mutating func startEpochTimer() -> [Reaction] {
        guard !isEpochTimerRunning else { return [] }
        isEpochTimerRunning = true
        return [.start(.epochEnd, JitteredDelay(epochInterval, by: 0.9...1.1))]
    }

    /// The root increments the epoch; every other node checks that the root still does.
    mutating func endEpoch(now: Moment) -> [Reaction] {
        isEpochTimerRunning = false
        guard !neighbours.isEmpty else { return [] }
        var reactions: [Reaction] = []
        if isRoot {
            position.epoch &+= 1
            reactions.append(.reportToAll)
        } else if now.monotonic - root.lastEpochStart > epochInterval * Self.epochsUntilSilent {
            root.recordSilence(of: position)
            reactions += becomeRoot(now: now)
        }
        return reactions + startEpochTimer()
    }

    private mutating func becomeRoot(now: Moment) -> [Reaction] {
        position = TreePosition(root: local, epoch: isRoot ? position.epoch &+ 1 : 0, distance: 0)
        parent = nil
        parentSince = now.monotonic
        root.lastEpochStart = now.monotonic
        return scheduleSelection(now: now)
    }

    // MARK: Parent selection

    /// Whether the neighbour at this position knows a path to a root that is alive.
    private func isUsable(_ position: TreePosition) -> Bool {
        position.distance < Self.maximumDistance && position.root != local && root.isAlive(rootOf: position)
    }

    /// Whether a neighbour's position calls for a new selection.
    private func isBetter(_ other: TreePosition, now: Moment) -> Bool {
        if other.root != position.root { return other.root.rawValue < position.root.rawValue }
        if other.epoch.isLater(than: position.epoch) { return root.admitsEpoch(interval: epochInterval, now: now.monotonic) }
        return position.isDetached && other.epoch == position.epoch && parent == nil && other.distance < lostDistance
    }

    private var candidates: [(id: EndpointID, position: TreePosition)] {
        var candidates: [(id: EndpointID, position: TreePosition)] = []
        candidates.reserveCapacity(neighbours.count)
        for (id, neighbour) in neighbours {
            guard let position = neighbour.position, isUsable(position) else { continue }
            candidates.append((id, position))
        }
        return candidates
    }

    /// Collects reports for a short time, because the neighbour nearest to the root may not be the first to report.
    private mutating func scheduleSelection(now: Moment) -> [Reaction] {
        guard selectionDeadline == nil else { return [] }
        selectionDeadline = now.monotonic + Self.parentTimeout
        let delay = selections.consume(now: now.monotonic) ? Self.selectionDelay : Self.limitedSelectionDelay
        return [.start(.parentSelection, JitteredDelay(delay, by: 1...2))]
    }

    /// Selects a parent by what all neighbours have reported.
    ///
    /// The tree stays the same from epoch to epoch where it can, because reachability is reported along it: the present parent
    /// is waited for, and another one is selected only if it is nearer to the root.
    mutating func selectParent(now: Moment) -> [Reaction] {
        guard let deadline = selectionDeadline else { return [] }
        selectionDeadline = nil
        let candidates = candidates
        guard let lowest = candidates.map(\.position.root.rawValue).min(), lowest < local.rawValue else {
            if !isRoot {
                position = TreePosition(root: local, epoch: 0, distance: 0)
                root.lastEpochStart = now.monotonic
                changeParent(to: nil, now: now)
            }
            return [.reportToAll]
        }
        let belowLowest = candidates.filter { $0.position.root.rawValue == lowest }
        let newest = belowLowest.dropFirst().reduce(belowLowest[0].position.epoch) {
            $1.position.epoch.isLater(than: $0) ? $1.position.epoch : $0
        }
        if now.monotonic < deadline, let parent, let reported = neighbours[parent]?.position, isUsable(reported),
            reported.root.rawValue == lowest, reported.epoch != newest
        {
            selectionDeadline = deadline
            return [.start(.parentSelection, JitteredDelay(Self.selectionDelay))]
        }
        let isNewEpoch = position.root.rawValue != lowest || newest.isLater(than: position.epoch)
        // A neighbour that is further away than this node was may have its position from this node, which would be a loop.
        let eligible = belowLowest.filter {
            $0.position.epoch == newest && (isNewEpoch || $0.position.distance < lostDistance)
        }
        guard isNewEpoch || parent == nil, let distance = eligible.map(\.position.distance).min() else { return [] }
        let nearest = eligible.filter { $0.position.distance == distance }.map(\.id)
        let next = nearest.first { $0 == parent } ?? nearest.min { $0.rawValue < $1.rawValue }
        if isNewEpoch {
            root.lastEpochStart = now.monotonic
            root.lastIncrement = position.root.rawValue == lowest ? now.monotonic : nil
        }
        position = TreePosition(root: EndpointID(rawValue: lowest), epoch: newest, distance: distance + 1)
        changeParent(to: next, now: now)
        return [.reportToAll]
    }

    private mutating func changeParent(to next: EndpointID?, now: Moment) {
        guard next != parent else { return }
        parentSince = now.monotonic
        if (next == nil) != (parent == nil) { reachability.isStale = true }
        parent = next
        if let next { forgetReportedReachability(by: next) }
    }

    /// Selects another neighbour that is nearer to the root than this node, which excludes a loop. Without one the node stays
    /// detached until the next epoch.
    private mutating func replaceParent(now: Moment) -> [Reaction] {
        parent = nil
        parentSince = now.monotonic
        let nearer = candidates.filter {
            $0.position.root == position.root && $0.position.epoch == position.epoch
                && $0.position.distance < position.distance
        }
        let best = nearer.min { ($0.position.distance, $0.id.rawValue) < ($1.position.distance, $1.id.rawValue) }
        guard let best else {
            lostDistance = position.distance
            position.distance = TreePosition.detachedDistance
            return []
        }
        position.distance = best.position.distance + 1
        changeParent(to: best.id, now: now)
        // The pause before the next filter depends on the length of the present one.
        refreshReachability()
        return [.report(to: best.id)] + reachabilityChanged(now: now)
    }

    // MARK: Forwarding

    /// The neighbours to which a bundle for everyone is forwarded at once. Outside the tree that is the neighbour nearest to a
    /// root; all others learn of the bundle from the next summary vector.
    var broadcastNeighbours: [EndpointID] {
        let linked = neighbours.filter { $0.key == parent || $0.value.isChild }.map(\.key)
        guard linked.isEmpty else { return linked.sorted { $0.rawValue < $1.rawValue } }
        let nearest = neighbours.min {
            ($0.value.position?.distance ?? .max, $0.key.rawValue) < ($1.value.position?.distance ?? .max, $1.key.rawValue)
        }
        return nearest.map { [$0.key] } ?? []
    }

    /// The neighbour with the smallest filter that contains a destination, which is likely to be the nearest to it; otherwise
    /// the parent.
    func nextHop(to destination: EndpointID, excluding excluded: Set<EndpointID>) -> EndpointID? {
        let tag = ReachabilityFilter.tag(of: destination)
        var best: (id: EndpointID, size: Int)?
        for (id, neighbour) in neighbours
        where !excluded.contains(id) && neighbour.reachability.bytes.count < best?.size ?? .max
            && neighbour.reachability.contains(tag)
        {
            best = (id, neighbour.reachability.bytes.count)
        }
        if let best { return best.id }
        guard let parent, !excluded.contains(parent) else { return nil }
        return parent
    }

    // MARK: Reachability

    private mutating func reachabilityChanged(now: Moment) -> [Reaction] {
        reachability.isStale = true
        guard let parent, !reachability.isReportScheduled else { return [] }
        reachability.isReportScheduled = true
        // Limits long filters to about a kilobyte a second, and to a fifth of that over radio.
        let isRadio = neighbours[parent]?.isRadio ?? false
        let pause = Self.reachabilityInterval + .milliseconds((isRadio ? 5 : 1) * reachability.byteCount)
        let earliest = reachability.lastReport.map { $0 + pause } ?? now.monotonic
        return [
            .start(.reachabilityReport, JitteredDelay(Self.reachabilityDelay, by: 0.5...1, notBefore: earliest))
        ]
    }

    mutating func reachabilityReportDue(now: Moment) -> [Reaction] {
        reachability.isReportScheduled = false
        guard let parent else { return [] }
        reachability.lastReport = now.monotonic
        return [.report(to: parent)]
    }

    /// The filter to include in a report to a neighbour; nil when the neighbour has the current one.
    mutating func reachabilityUpdate(for id: EndpointID) -> ReachabilityFilter? {
        refreshReachability()
        guard let index = neighbours.index(forKey: id) else { return nil }
        // A short filter is reported to all neighbours, because it shortens paths. One that has become long must not stay valid
        // there.
        let isIncluded = parent == id || reachability.filter != nil
        let generation = isIncluded ? reachability.generation : Neighbour.withdrawn
        guard neighbours.values[index].reportedGeneration != generation else { return nil }
        neighbours.values[index].reportedGeneration = generation
        return isIncluded ? reachability.filter ?? mergedReachability(isLimited: false) : .empty
    }

    /// The neighbour may not have received the last filter.
    mutating func forgetReportedReachability(by id: EndpointID) {
        guard let index = neighbours.index(forKey: id) else { return }
        neighbours.values[index].reportedGeneration = Neighbour.withdrawn
    }

    private mutating func refreshReachability() {
        guard reachability.isStale else { return }
        reachability.isStale = false
        let merged = mergedReachability(isLimited: parent == nil)
        let hash = merged.hashValue
        reachability.byteCount = merged.bytes.count
        guard hash != reachability.hash else { return }
        reachability.hash = hash
        reachability.generation &+= 1
        reachability.filter = merged.bytes.count <= Self.sharedFilterByteCount ? merged : nil
    }

    /// - Parameter isLimited: a root has no parent to report to, and merges only what it would report to all neighbours.
    private func mergedReachability(isLimited: Bool) -> ReachabilityFilter {
        let own = ReachabilityFilter.tag(of: local)
        var tags = [own]
        for neighbour in neighbours.values where neighbour.isChild { tags += neighbour.reachability.tags }
        if isLimited, tags.count > Self.sharedFilterByteCount { tags = [own] }
        // Beyond the limit of a filter only this node is reported, and bundles for the others travel further up.
        return ReachabilityFilter(tags: tags) ?? ReachabilityFilter(tag: own)
    }

    private static let epochsUntilSilent = 2.5
    private static let stableEpochCount = 3.0
    private static let selectionDelay = Duration.milliseconds(200)
    /// The same when there were many selections.
    private static let limitedSelectionDelay = Duration.seconds(5)
    private static let selectionBurst = 20.0
    private static let selectionsPerEpoch = 6.0
    /// Time for which a selection waits for the current parent.
    private static let parentTimeout = Duration.seconds(20)
    private static let reachabilityDelay = Duration.seconds(1)
    private static let reachabilityInterval = Duration.seconds(2)
    private static let sharedFilterByteCount = 1_024
    /// Limit on the length of a path, beyond which no bundle travels.
    private static let maximumDistance: UInt16 = 1_000
}

extension UInt32 {
    /// Serial-number comparison (RFC 1982) of epochs, which wrap around.
    fileprivate func isLater(than other: UInt32) -> Bool { Int32(bitPattern: self &- other) > 0 }
}
