internal import NearshareBase

// A tree over all who are connected, the lowest address at its top. Each node knows whom it reaches below itself, so a message for
// somebody goes up until it can go down, and one for everybody goes along the tree's links alone.
//
//     root: counts a round up ──► all its neighbours, who adopt it, choose a parent, and tell theirs ──► …
//     reach: each child tells its parent whom it reaches ──► up to the root
//
// What neighbours say of the tree can't be checked. It decides where to try first, never whether a message is kept or spread.
extension BundleRouter {
    var isRoot: Bool { place.root == address }

    // MARK: Rounds

    mutating func scheduleRound(now: Moment) {
        guard !isRoundDue else { return }
        isRoundDue = true
        schedule(.round, in: settings.roundInterval * chance(0.9, 1.1), now: now)
    }

    /// The root counts up; the others look whether it still does.
    mutating func endRound(now: Moment) {
        isRoundDue = false
        guard !neighbours.isEmpty else { return }
        if isRoot {
            place.round &+= 1
            reportToAll(now: now)
        } else if now.monotonic - lastRound > settings.roundInterval * Self.roundsUntilSilent {
            if silentRoots.count >= Self.maximumSilentRootCount { silentRoots = [:] }
            silentRoots[place.root] = place.round
            becomeRoot(now: now)
        }
        scheduleRound(now: now)
    }

    private mutating func becomeRoot(now: Moment) {
        place = SpanningTreeReport.Place(root: address, round: place.root == address ? place.round &+ 1 : 0, distance: 0)
        parent = nil
        placedSince = now.monotonic
        lastRound = now.monotonic
        scheduleAdoption(now: now)
    }

    /// Where neighbours stand who know a way to a root that counts.
    private var usablePlaces: [(id: EndpointID, place: SpanningTreeReport.Place)] {
        var places: [(id: EndpointID, place: SpanningTreeReport.Place)] = []
        places.reserveCapacity(neighbours.count)
        for index in neighbours.indices {
            guard let place = neighbours.values[index].place, place.isUsable(for: address, silentRoots) else { continue }
            places.append((neighbours.keys[index], place))
        }
        return places
    }

    /// Waits a little, for the neighbour that is nearest to the root may not be the first to tell.
    private mutating func scheduleAdoption(now: Moment) {
        guard adoptionEnd == nil else { return }
        adoptionEnd = now.monotonic + Self.patienceWithParent
        schedule(.adoption, in: Self.adoptionDelay * chance(1, 2), now: now)
    }

    /// Chooses a parent by what all neighbours have told, and tells them.
    ///
    /// The tree stays as it is from round to round where it can, for whom one reaches is told along it: the parent is waited for,
    /// and another one is chosen only if it is nearer.
    mutating func adopt(now: Moment) {
        guard let end = adoptionEnd else { return }
        adoptionEnd = nil
        let offers = usablePlaces
        if let root = offers.map(\.place.root.rawValue).min(), root < address.rawValue {
            let ofRoot = offers.filter { $0.place.root.rawValue == root }
            var newest = ofRoot[0].place.round
            for offer in ofRoot where offer.place.round.isLater(than: newest) { newest = offer.place.round }
            if now.monotonic < end, let parent, let told = neighbours[parent]!.place, told.isUsable(for: address, silentRoots),
                told.root.rawValue == root,
                told.round != newest
            {
                adoptionEnd = end
                return schedule(.adoption, in: Self.adoptionDelay, now: now)
            }
            let isNew = place.root.rawValue != root || newest.isLater(than: place.round)
            // Who is further away than this node was may have its place from this node.
            let candidates = ofRoot.filter { $0.place.round == newest && (isNew || $0.place.distance < lostDistance) }
            guard isNew || parent == nil, let nearest = candidates.map(\.place.distance).min() else { return }
            let best = candidates.filter { $0.place.distance == nearest }
            let next = best.contains { $0.id == parent } ? parent! : best.min { $0.id.rawValue < $1.id.rawValue }!.id
            if isNew { lastRound = now.monotonic }
            place = SpanningTreeReport.Place(root: EndpointID(rawValue: root), round: newest, distance: nearest + 1)
            changeParent(to: next, now: now)
        } else if !isRoot {
            place = SpanningTreeReport.Place(root: address, round: 0, distance: 0)
            lastRound = now.monotonic
            changeParent(to: nil, now: now)
        }
        reportToAll(now: now)
    }

    private mutating func changeParent(to next: EndpointID?, now: Moment) {
        guard next != parent else { return }
        placedSince = now.monotonic
        if (next == nil) != (parent == nil) { isReachStale = true }
        parent = next
        if let next { neighbours[next]!.toldReach = nil }
    }

    /// Another neighbour that is nearer to the root takes its place, for then there is no circle; else the next round brings one.
    mutating func loseParent(now: Moment) {
        parent = nil
        placedSince = now.monotonic
        let others = usablePlaces.filter {
            $0.place.root == place.root && $0.place.round == place.round && $0.place.distance < place.distance
        }
        guard let best = others.min(by: { ($0.place.distance, $0.id.rawValue) < ($1.place.distance, $1.id.rawValue) }) else {
            lostDistance = place.distance
            place.distance = SpanningTreeReport.Place.detached
            return
        }
        place.distance = best.place.distance + 1
        changeParent(to: best.id, now: now)
        report(to: best.id, withSummary: false, now: now)
        reachChanged(now: now)
    }

    /// Neighbours over which what is for everybody goes at once. Out of the tree it is the one who is nearest to a root; all others
    /// learn of it from the next summary.
    var treeNeighbours: [EndpointID] {
        let linked = neighbours.keys.filter { $0 == parent || neighbours[$0]!.isChild }
        guard linked.isEmpty else { return linked.sorted { $0.rawValue < $1.rawValue } }
        let nearest = neighbours.min {
            ($0.value.place?.distance ?? .max, $0.key.rawValue) < ($1.value.place?.distance ?? .max, $1.key.rawValue)
        }
        return nearest.map { [$0.key] } ?? []
    }

    // MARK: Reach

    mutating func reachChanged(now: Moment) {
        isReachStale = true
        guard let parent, !isReachDue else { return }
        isReachDue = true
        // What grows large is told more seldom: a kilobyte a second, on a radio a fifth of it.
        let pause = Self.reachPause + .milliseconds((neighbours[parent]!.link.isRadio ? 5 : 1) * reachByteCount)
        let earliest = lastReach.map { $0 + pause } ?? now.monotonic
        due.insert(.reach, at: max(now.monotonic + Self.reachDelay * chance(0.5, 1), earliest))
    }

    mutating func tellReach(now: Moment) {
        isReachDue = false
        guard let parent else { return }
        lastReach = now.monotonic
        report(to: parent, withSummary: false, now: now)
    }

    private mutating func refreshReach() {
        guard isReachStale else { return }
        isReachStale = false
        // The root has nobody to tell it to.
        let next = mergedReach(isTold: parent != nil)
        let hash = next.hashValue
        reachByteCount = next.bytes.count
        guard hash != reachHash else { return }
        reachHash = hash
        reachGeneration += 1
        // What is long stands at the children's already, and is made anew for the parent alone.
        reach = reachByteCount <= Self.sharedReachByteCount ? next : nil
    }

    private func mergedReach(isTold: Bool) -> ReachabilityFilter {
        var marks = [ReachabilityFilter.mark(of: address)]
        for neighbour in neighbours.values where neighbour.isChild { marks += neighbour.reach.marks }
        // Too many to be told: then only this node itself, and messages for the others go further up.
        let isTold = isTold || marks.count <= Self.sharedReachByteCount
        return (isTold ? ReachabilityFilter(marks: marks) : nil) ?? ReachabilityFilter(marks: [marks[0]])!
    }

    // MARK: Reports

    mutating func reportToAll(now: Moment) {
        for neighbour in neighbours.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            report(to: neighbour, withSummary: true, now: now)
        }
    }

    /// Tells a neighbour our place, and what else has changed since it was told last.
    mutating func report(
        to neighbour: EndpointID, withSummary: Bool, isAnswer: Bool = false, attempts: Int = 0, now: Moment
    ) {
        refreshReach()
        // Counted up by one at a time, of which only the last is of interest.
        let generation = Int32(truncatingIfNeeded: known.generation)
        let lost = neighbours[neighbour]!.unconfirmed
        if lost?.hasReach == true { neighbours[neighbour]!.toldReach = nil }
        var report = SpanningTreeReport(place: place, isToParent: parent == neighbour, isAnswer: isAnswer)
        let isSummaryOld = isAnswer || neighbours[neighbour]!.toldGeneration != generation
        if lost?.hasSummary == true || withSummary && isSummaryOld {
            neighbours[neighbour]!.toldGeneration = generation
            report.summary = currentSummary()
        }
        // A short one is worth telling to all: it shortens the way. What was told before must not stay when it has grown long.
        let isTold = parent == neighbour || reach != nil
        let told = isTold ? Int32(truncatingIfNeeded: reachGeneration) : -1
        if neighbours[neighbour]!.toldReach ?? -1 != told {
            neighbours[neighbour]!.toldReach = told
            report.reach = isTold ? reach ?? mergedReach(isTold: true) : .nobody
        }
        if !neighbours[neighbour]!.link.isReliable {
            let token = random.next()
            report.token = token
            neighbours[neighbour]!.unconfirmed = UnconfirmedReport(
                token: token, hasSummary: report.summary != nil, hasReach: report.reach != nil, attempts: UInt8(attempts))
            schedule(
                .report(neighbour, token: token), in: Self.reportRetryDelay * (Double(1 << attempts) * chance(1, 1.2)), now: now
            )
        }
        actions.append(.send(.report(report), to: neighbour))
    }

    mutating func reportAgain(to neighbour: EndpointID, _ token: UInt64, now: Moment) {
        guard let lost = neighbours[neighbour]?.unconfirmed, lost.token == token else { return }
        guard lost.attempts < Self.maximumReportAttemptCount else { return }
        report(to: neighbour, withSummary: lost.hasSummary, attempts: Int(lost.attempts) + 1, now: now)
    }

    private mutating func currentSummary() -> SummaryVector {
        if let summary, summary.generation == known.generation, summary.value.shareCount == 1 { return summary.value }
        summaryCount += 1
        let value = SummaryVector(of: known.spread, turn: summaryCount, salt: UInt32(truncatingIfNeeded: random.next()))
        summary = (known.generation, value)
        return value
    }

    mutating func take(_ report: SpanningTreeReport, from neighbour: EndpointID, now: Moment) {
        if let token = report.token { receipt(token, to: neighbour, now: now) }
        let wasChild = neighbours[neighbour]!.take(report)
        if wasChild != report.isToParent || (report.isToParent && report.reach != nil) { reachChanged(now: now) }
        if report.place.isUsable(for: address, silentRoots),
            report.place.isBetter(than: place, withParent: parent != nil, lostAt: lostDistance)
        {
            scheduleAdoption(now: now)
        }
        // What has come for everybody since it was met went along the tree, of which it was no part so far.
        if !wasChild, report.isToParent, neighbours[neighbour]!.toldGeneration != Int32(truncatingIfNeeded: known.generation) {
            self.report(to: neighbour, withSummary: true, now: now)
        }
        if let summary = report.summary { compare(summary, isAnswer: report.isAnswer, of: neighbour, now: now) }
    }

    private static let roundsUntilSilent = 2.5
    private static let adoptionDelay = Duration.milliseconds(200)
    private static let patienceWithParent = Duration.seconds(20)
    private static let reportRetryDelay = Duration.milliseconds(600)
    private static let maximumReportAttemptCount = 4
    private static let maximumSilentRootCount = 16
    private static let reachDelay = Duration.seconds(1)
    private static let reachPause = Duration.seconds(2)
    private static let sharedReachByteCount = 1_024
}

// Of places, not of carriers: a carrier is large, and all of it is copied for a question that changes nothing.
extension SpanningTreeReport.Place {
    /// Its owner knows a way to a root that counts.
    fileprivate func isUsable(for reader: EndpointID, _ silentRoots: [EndpointID: UInt32]) -> Bool {
        guard distance < Self.maximumDistance, root != reader else { return false }
        return silentRoots.isEmpty || silentRoots[root].map { round.isLater(than: $0) } ?? true
    }

    /// Whether a neighbour with this place calls for another one than `own`.
    /// - Parameter lostDistance: how far the root was when the way to it was lost.
    fileprivate func isBetter(than own: Self, withParent hasParent: Bool, lostAt lostDistance: UInt16) -> Bool {
        if root != own.root { return root.rawValue < own.root.rawValue }
        if round.isLater(than: own.round) { return true }
        return own.distance == Self.detached && round == own.round && !hasParent && distance < lostDistance
    }

    /// No way is longer than messages may go.
    private static let maximumDistance: UInt16 = 1_000
}

extension UInt32 {
    /// Of rounds, which begin again at 0 some day.
    fileprivate func isLater(than other: UInt32) -> Bool { Int32(bitPattern: self &- other) > 0 }
}
