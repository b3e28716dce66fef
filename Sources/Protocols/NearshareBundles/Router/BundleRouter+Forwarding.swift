internal import NearshareBase

extension BundleRouter {
    /// Starts with a message that is kept now.
    mutating func begin(
        _ id: BundleID, except neighbour: EndpointID?, preferred: EndpointID? = nil, isSpread: Bool = false,
        now: Moment
    ) {
        guard let entry = entries[id] else { return }
        if entry.destination == nil || (isSpread && neighbours[entry.destination!] == nil) {
            spread(id, except: neighbour, now: now)
        } else {
            route(id, except: neighbour.map { [$0] } ?? [], preferred: preferred, now: now)
        }
    }

    // MARK: Towards somebody

    /// Hands a message to the neighbour who is nearest to its receiver; where none is known to be, it is spread.
    /// - Parameter preferred: for an acknowledgement, the one from whom its message came.
    mutating func route(
        _ id: BundleID, except: Set<EndpointID>, preferred: EndpointID? = nil, now: Moment
    ) {
        guard let destination = entries[id]?.destination, !neighbours.isEmpty else { return }
        var except = except
        var preferred = preferred
        while true {
            guard let next = preferred ?? nextHop(to: destination, except: except) else { return missHop(id, now: now) }
            preferred = nil
            guard let neighbour = neighbours[next] else { continue }
            if next == destination || !isHandled(id, neighbour) {
                entries[id]!.state = .routed(to: next)
                if forward(id, to: next, .routed, now: now) { break }
            }
            // It has been there before, or its link takes only smaller ones.
            except.insert(next)
        }
        if let entry = entries[id], entry.acknowledged == nil { schedulePatience(id, now: now) }
    }

    /// Nobody knows a way.
    private mutating func missHop(_ id: BundleID, now: Moment) {
        guard isStill(now), !entries[id]!.isSecondTry else { return spread(id, except: nil, now: now) }
        entries[id]!.isSecondTry = true
        entries[id]!.state = .waiting
        schedule(.timeout(id), in: Self.secondTryDelay, now: now)
    }

    private mutating func schedulePatience(_ id: BundleID, now: Moment) {
        schedule(.timeout(id), in: settings.timeout * chance(1, 1.5), now: now)
    }

    /// No acknowledgement has come. Where nobody moves, something small went wrong, and its sender tries once more.
    mutating func losePatience(_ id: BundleID, now: Moment) {
        switch entries[id]?.state {
        case .waiting where entries[id]!.isSecondTry: route(id, except: [], now: now)
        case .routed where isStill(now) && !entries[id]!.isSecondTry:
            entries[id]!.isSecondTry = true
            if entries[id]!.isOwn { route(id, except: [], now: now) } else { schedulePatience(id, now: now) }
        case .routed: spread(id, except: nil, now: now)
        default: return
        }
    }

    /// The tree here has been as it is for some rounds: nobody moves.
    private func isStill(_ now: Moment) -> Bool {
        now.monotonic - placedSince > settings.roundInterval * Self.stillRounds
    }

    private func nextHop(to destination: EndpointID, except: Set<EndpointID>) -> EndpointID? {
        if neighbours[destination] != nil, !except.contains(destination) { return destination }
        if let trail = trails[destination], neighbours[trail.next] != nil, !except.contains(trail.next) { return trail.next }
        let mark = ReachabilityFilter.mark(of: destination)
        // The fewer somebody reaches, the nearer is he to each of them.
        var best: (id: EndpointID, size: Int)?
        for (id, neighbour) in neighbours
        where !except.contains(id) && neighbour.reach.bytes.count < best?.size ?? .max && neighbour.reach.contains(mark) {
            best = (id, neighbour.reach.bytes.count)
        }
        if let best { return best.id }
        guard let parent, !except.contains(parent) else { return nil }
        return parent
    }

    // MARK: To everybody

    /// Offers a message to all who are met from now on, and hands it at once to the neighbours in the tree.
    mutating func spread(_ id: BundleID, except: EndpointID?, now: Moment) {
        guard entries[id] != nil else { return }
        startSpreading(id)
        for neighbour in treeNeighbours where neighbour != except { forward(id, to: neighbour, .spread, now: now) }
    }

    mutating func startSpreading(_ id: BundleID) {
        entries[id]!.state = .spreading
        known.markSpread(id)
    }

    /// What a neighbour lacks is offered to it; where it has what we lack, it is told what we have.
    mutating func compare(
        _ summary: SummaryVector, isAnswer: Bool, of neighbour: EndpointID, now: Moment
    ) {
        let members = summary.members
        // Of what the neighbour has, what is here too.
        var isMatched = [Bool](repeating: false, count: members.values.count)
        var missing: [BundleID] = []
        for id in known.spread {
            guard let value = members.value(of: id) else { continue }
            if let place = members.place(of: value) {
                isMatched[place] = true
            } else if entries[id]?.isSpreading == true, !isHandled(id, neighbours[neighbour]!) {
                missing.append(id)
            }
        }
        if isMatched.contains(false), !isAnswer { report(to: neighbour, withSummary: true, isAnswer: true, now: now) }
        guard !missing.isEmpty else { return }
        neighbours[neighbour]!.queue = inTurn(missing)
        let time = missing.map { Int(entries[$0]!.sharingTime) }.max()!
        neighbours[neighbour]!.queuedUntil = now.monotonic + .milliseconds(min(time, settings.profile.sharingTime))
        pump(neighbour, now: now)
    }

    /// Of each sender one after the other, so that who sends much holds up only himself; the oldest first.
    private func inTurn(_ ids: [BundleID]) -> [BundleID] {
        var counts: [EndpointID: Int] = [:]
        return ids.sorted { (entries[$0]!.created, $0.short) < (entries[$1]!.created, $1.short) }
            .map { id -> (turn: Int, id: BundleID) in
                let turn = counts[entries[id]!.sender, default: 0]
                counts[entries[id]!.sender] = turn + 1
                return (turn, id)
            }
            .sorted { ($0.turn, entries[$0.id]!.created, $0.id.short) < ($1.turn, entries[$1.id]!.created, $1.id.short) }
            .map(\.id)
    }

    /// Offers as much as a link takes, for as long as the sharing time lasts.
    mutating func pump(_ neighbour: EndpointID, now: Moment) {
        guard let record = neighbours[neighbour], !record.queue.isEmpty else { return }
        guard now.monotonic <= record.queuedUntil else {
            neighbours[neighbour]!.queue = []
            return
        }
        var left = record.link.isRadio ? Self.radioPaceByteCount : Self.paceByteCount
        var count = 0
        for id in record.queue where left > 0 {
            count += 1
            guard let entry = entries[id], entry.isSpreading else { continue }
            guard !isHandled(id, neighbours[neighbour]!) else { continue }
            if forward(id, to: neighbour, .spread, now: now) { left -= Int(entry.byteCount) }
        }
        neighbours[neighbour]!.queue.removeFirst(count)
        if !neighbours[neighbour]!.queue.isEmpty { schedule(.pace(neighbour), in: Self.pace, now: now) }
    }

    // MARK: One copy

    /// Hands a copy to a neighbour, within the message's limits and ours.
    /// - Returns: false when a limit forbids it.
    @discardableResult
    mutating func forward(
        _ id: BundleID, to neighbour: EndpointID, _ way: BundleCopy.Way, now: Moment
    ) -> Bool {
        guard let entry = entries[id], let link = neighbours[neighbour]?.link else { return false }
        guard !isHandled(id, neighbours[neighbour]!) else { return true }
        guard mayForward(entry), entry.fitsRadio || !link.isRadio else { return false }
        // Who gets it with its last hop can't hand it on: that is the receiver, or it is lost on somebody.
        if let destination = entry.destination, destination != neighbour, entry.hops + 1 >= entry.hopLimit { return false }
        // The tracklist never keeps a message from its receiver: anybody on the way could have put him there.
        if entry.destination != neighbour, entry.carriers.contains(neighbour.mark(in: id)) { return false }
        handOver(id, to: neighbour, way)
        if link.isReliable {
            noteOwner(neighbour, of: id, now: now)
            handedOver(id, now: now)
        } else {
            neighbours[neighbour]!.offers[id.short] = Offer(id: id, at: now.monotonic, attempts: 1)
            schedule(.retry(id, neighbour), in: Self.retryDelay * chance(1, 1.2), now: now)
        }
        return true
    }

    /// It has it, or is being handed it.
    func isHandled(_ id: BundleID, _ neighbour: Neighbour) -> Bool {
        neighbour.has[id.short] != nil || neighbour.offers[id.short] != nil
    }

    private func mayForward(_ entry: StoredBundleEntry) -> Bool {
        Int(entry.forwards) < min(Int(entry.maximumPropagation), settings.profile.maximumPropagation)
            && Int(entry.hops) < min(Int(entry.hopLimit), settings.profile.hopLimit)
    }

    private mutating func handOver(_ id: BundleID, to neighbour: EndpointID, _ way: BundleCopy.Way) {
        let entry = entries[id]!
        entries[id]!.forwards += 1
        // To the receiver himself it never goes on.
        let way = entry.destination == neighbour ? .routed : way
        actions.append(.forward(id, to: neighbour, hops: Int(entry.hops) + 1, way: way, carriers: entry.carriers))
    }

    /// A neighbour has it for certain.
    mutating func handedOver(_ id: BundleID, now: Moment) {
        guard let entry = entries[id] else { return }
        if entry.isOwn, !entry.isSent, entry.acknowledged == nil {
            entries[id]!.isSent = true
            actions.append(.tell(.sent(id)))
        }
        // Nobody acknowledges an acknowledgement; our own rest in case that they are asked for again.
        guard entry.acknowledged != nil, case .routed = entry.state else { return }
        if entry.isOwn { entries[id]!.state = .resting } else { drop(id, now: now) }
    }

    /// Sends again what nobody has confirmed, with longer and longer pauses, as long as the sharing time lasts.
    mutating func retry(_ id: BundleID, _ neighbour: EndpointID, now: Moment) {
        guard let entry = entries[id], let offer = neighbours[neighbour]?.offers[id.short] else {
            return
        }
        let isLate = now.monotonic - offer.at > .milliseconds(min(Int(entry.sharingTime), settings.profile.sharingTime))
        guard !isLate, offer.attempts < Self.maximumAttemptCount, mayForward(entry) else {
            neighbours[neighbour]!.offers[id.short] = nil
            // Not there any more, it seems.
            if entry.state == .routed(to: neighbour) { route(id, except: [neighbour], now: now) }
            return
        }
        handOver(id, to: neighbour, entry.isSpreading ? .spread : .routed)
        neighbours[neighbour]!.offers[id.short]!.attempts += 1
        schedule(.retry(id, neighbour), in: Self.retryDelay * Double(1 << offer.attempts), now: now)
    }

    // MARK: What waits

    mutating func scheduleAttempt(now: Moment) {
        guard !isAttemptDue, entries.values.contains(where: { $0.state == .waiting }) else { return }
        isAttemptDue = true
        // Until neighbours have told whom they reach.
        schedule(.attempt, in: Self.attemptDelay, now: now)
    }

    /// Tries again what nobody could take before.
    mutating func attempt(now: Moment) {
        isAttemptDue = false
        for (id, entry) in entries.sorted(by: { $0.value.created < $1.value.created }) where entry.state == .waiting {
            begin(id, except: nil, now: now)
        }
    }

    private static let paceByteCount = 32 << 10
    private static let radioPaceByteCount = 2 << 10
    private static let pace = Duration.milliseconds(250)
    private static let retryDelay = Duration.milliseconds(500)
    private static let maximumAttemptCount: UInt8 = 5
    private static let secondTryDelay = Duration.seconds(10)
    private static let stillRounds = 3.0
    private static let attemptDelay = Duration.seconds(3)
}
