package import NearshareBase

/// The members of a session, and how each is reached. Every member keeps a roster. Members exchange their rosters, and newer
/// entries take precedence, so that all rosters converge.
///
///     a member as seen from this one:   not connected ──► connecting ◄──► connected (directly or by a relay)
///                                             └── another member is a relay ──►┘
///
/// The parts are ``MemberTable``, ``JoinOrder``, ``Reachability`` and ``DiscoveredAddresses``.
package struct SessionRoster: Sendable {
    /// The limits and the topology of a session.
    package struct Settings: Sendable, Hashable {
        /// Limit on members, this one included.
        package var maximumMemberCount = 8
        /// The time after which an unreachable member is removed.
        package var absenceTimeout = Duration.seconds(30)
        /// The members between which there are direct links.
        package var topology = SessionTopology.automatic

        /// The defaults.
        package init() {}
    }

    /// A connection attempt that is due.
    package enum ConnectionAttempt: Sendable, Hashable {
        /// Connect to the member's addresses.
        case connect(SessionMember)
        /// Connect through a relay, which has links to both members.
        case relay(SessionMember, through: PeerID)

        /// The member to reach.
        package var member: SessionMember {
            switch self {
            case .connect(let member), .relay(let member, _): member
            }
        }

        /// The relay; nil for a direct attempt.
        package var relay: PeerID? {
            switch self {
            case .connect: nil
            case .relay(_, let relay): relay
            }
        }
    }

    /// A claim of another member that a connected member is gone.
    private struct DepartureClaim {
        let incarnation: UInt32
        let time: MonotonicInstant
    }

    /// The session.
    package let id: SessionID
    /// The member that has started the session; nil until another member has named it.
    package private(set) var founder: SessionFounder?
    /// The keys of members that the founder has removed.
    private var removed: [Fingerprint] = []
    /// The settings of the program.
    package let settings: Settings
    private var table: MemberTable
    private var joinOrder = JoinOrder()
    private var reachability = Reachability()
    private var departureClaims: [PeerID: DepartureClaim] = [:]
    /// The member from which a member was first heard of, none for a member that this one
    /// has admitted itself before any other announced it.
    private var announcers: [PeerID: (member: PeerID, time: MonotonicInstant)] = [:]
    private var changes = SessionChangeQueue()
    /// Members to which a link is needed that the topology does not require.
    private var demandedLinks: Set<PeerID> = []
    /// The members to which all others keep links, each with the time since which this roster has chosen it; empty in a mesh.
    private var hubs: [PeerID: MonotonicInstant] = [:]
    private var discovered = DiscoveredAddresses()
    /// The time of the latest updates to other members.
    private var updateTime: MonotonicInstant?

    /// Starts with this member alone.
    package init(id: SessionID, own: SessionMember, founder: SessionFounder? = nil, settings: Settings = Settings()) {
        self.id = id
        self.founder = founder
        self.settings = settings
        table = MemberTable(own: own, maximumMemberCount: settings.maximumMemberCount)
    }

    // MARK: Reading

    /// Returns and removes the changes since the last call.
    package mutating func drainChanges() -> [SessionChange] { changes.drain() }

    /// Returns the frames with news for members with a direct link. Changes within one interval are sent together.
    package mutating func drainUpdates(
        for neighbours: [PeerID], now: MonotonicInstant
    ) -> [(member: PeerID, frame: SessionFrame)] {
        guard areUpdatesDue(now: now) else { return [] }
        let isUrgent = !isUpdateTime(now)
        if !isUrgent { updateTime = now }
        return table.drainUpdates(for: neighbours, isUrgent: isUrgent).map { ($0.member, .roster(id, $0.entries)) }
    }

    /// Whether ``drainUpdates(for:now:)`` has something to send.
    package func areUpdatesDue(now: MonotonicInstant) -> Bool {
        table.hasUrgentUpdates || (table.hasUpdates && isUpdateTime(now))
    }

    private func isUpdateTime(_ now: MonotonicInstant) -> Bool { updateTime.map { now - $0 >= updateInterval } ?? true }

    /// The least time between two updates. It grows with the number of members, so that the bytes for all changes of a forming
    /// session stay in bounds.
    private var updateInterval: Duration {
        max(Self.minimumUpdateInterval, Self.updateIntervalPerMember * table.otherIDs.count)
    }

    /// The frame for a member that has just been connected.
    package var rosterFrame: SessionFrame { .roster(id, table.all) }

    /// The frame for a member that has just been connected through a relay: gossip goes over direct links only.
    package var ownEntryFrame: SessionFrame { .roster(id, [table.ownEntry]) }

    /// The ids of the other members, in ascending order.
    package var memberIDs: [PeerID] { table.otherIDs }

    /// The other members, by id.
    package var others: [SessionMember] { table.others }

    /// A member, this one included; nil for a peer that is not in the session.
    package func member(_ id: PeerID) -> SessionMember? { table.member(id) }

    /// A member's connectivity.
    package func state(of id: PeerID) -> MemberState { reachability.state(of: id) }

    /// Whether there is a link to a member, direct or relayed. A member that is reached through others gets one on demand.
    package func isLinked(_ id: PeerID) -> Bool { reachability.linkState(of: id).isConnected }

    /// Whether the limit on members is reached.
    package var isFull: Bool { table.isFull }

    // MARK: Joining and leaving

    /// Admits a peer after one side has accepted the other's invitation.
    package mutating func admit(_ member: SessionMember, now: MonotonicInstant) {
        var member = member
        member.incarnation = table.nextIncarnation(of: member)
        member.presence = .present
        let wasAlone = table.otherIDs.isEmpty
        store(member, now: now)
        // In a room, both have come on their own.
        if founder != nil, !wasAlone { joinOrder.recordLaterMember(member.id) }
        table.markUrgent(member.id)
        updateTopology(now: now)
    }

    /// The member that has announced a member, and so vouches for its key; nil for one that this member has admitted
    /// itself before any other announced it.
    package func announcer(of id: PeerID) -> PeerID? { announcers[id]?.member }

    /// Forgets that another member vouches for a member's key.
    /// - Parameter age: a later word is kept: the member may not have heard of this one yet.
    package mutating func forgetAnnouncer(of id: PeerID, olderThan age: Duration = .zero, now: MonotonicInstant) {
        if let announcer = announcers[id], now - announcer.time >= age { announcers[id] = nil }
    }

    /// Merges the roster of another member. Claims about this member that are not true any more are refuted.
    package mutating func receive(_ members: [SessionMember], from announcer: PeerID, now: MonotonicInstant) {
        let known = Set(table.presentIDs)
        // News leave out the entry of the member that they are sent to.
        let isWhole = members.contains { $0.id == table.own }
        defer {
            let new = table.presentIDs.filter { !known.contains($0) }
            if isWhole { joinOrder.recordRoster(new) }
            if founder != nil, joinOrder.isLaterMember(now: now) { for id in new { joinOrder.recordLaterMember(id) } }
        }
        for member in members where member.presence == .gone || !isRemoved(member.fingerprint) {
            let before = table.member(member.id)
            defer { if table.isKnown(member) { table.recordKnowledge(of: member.id, by: announcer) } }
            switch table.classify(member) {
            case .ignored: break
            case .aboutOwn: table.refute(member)
            case .newer:
                if member.presence == .gone, before != nil, hasLink(to: member.id, now: now) {
                    if departureClaims[member.id] == nil {
                        departureClaims[member.id] = DepartureClaim(incarnation: member.incarnation, time: now)
                    }
                } else {
                    store(member, now: now)
                    if member.presence == .present, before == nil { announcers[member.id] = (announcer, now) }
                    if let before, before.addresses != member.addresses, !member.addresses.isEmpty {
                        reachability.recordReachabilityHint(member.id, isOwn: false, now: now)
                    }
                }
            }
        }
        updateTopology(now: now)
    }

    /// Records that a member leaves.
    package mutating func recordDeparture(of id: PeerID, now: MonotonicInstant) {
        guard id != table.own, var member = table.presentEntry(id) else { return }
        member.presence = .gone
        store(member, now: now)
        updateTopology(now: now)
    }

    /// Resolves the claim that a member is gone. A member that is still connected has not left: it would have said so, or its link
    /// would have broken. So no member can talk another one out of the session.
    private mutating func resolveDepartureClaim(of id: PeerID, now: MonotonicInstant) {
        guard let claim = departureClaims.removeValue(forKey: id), var member = table.member(id) else { return }
        if hasLink(to: id, now: now) {
            member.incarnation = max(member.incarnation, claim.incarnation &+ 1)
        } else {
            member.incarnation = max(member.incarnation, claim.incarnation)
            member.presence = .gone
        }
        store(member, now: now)
    }

    /// Whether there is a link to a member, joined or about to join.
    private func hasLink(to id: PeerID, now: MonotonicInstant) -> Bool {
        reachability.linkState(of: id).isConnected || reachability.isJoining(id, now: now)
    }

    private mutating func store(_ member: SessionMember, now: MonotonicInstant) {
        let (wasFull, wasAlone) = (isFull, table.otherIDs.isEmpty)
        if member.presence == .gone { announcers[member.id] = nil }
        for change in table.store(member, now: now) {
            switch change {
            case .joined(let joined): reachability.add(joined.id, now: now)
            case .left(let id):
                reachability.remove(id)
                // Its link is closed later, when it is no member any more.
                table.setOwnNeighbours(reachability.neighbours)
                departureClaims[id] = nil
                demandedLinks.remove(id)
                discovered.removeExcess(ofFormerMember: id)
                // Other members may have rejected a member for which there is room now.
                if wasFull { table.markAllChanged() }
            case .state: break
            }
            changes.append(change)
        }
        if wasAlone, !table.otherIDs.isEmpty { joinOrder.recordJoin(of: member.id, now: now) }
        if !wasAlone, table.otherIDs.isEmpty { joinOrder.recordEnd() }
    }

    // MARK: More peers than the limit

    /// The answer to the invitation of a peer in the same room, whose group and this one become one.
    package enum MergeDecision: Sendable, Hashable {
        case merge
        /// Together they exceed the limit, and this member joins the larger group alone; of two equal ones, that of the lower id.
        case stepBackAndMerge
        /// Together they exceed the limit, or this member does not know its own group yet.
        case refuse
    }

    /// Whether this member has just joined others, and does not know them all yet. Until then it meets no further group of the room.
    package func isIncomplete(now: MonotonicInstant) -> Bool { joinOrder.isIncomplete(now: now) }

    /// Decides about the invitation of a peer in the same room.
    /// - Parameter count: the members of its group, itself included, by its own count.
    package func mergeDecision(about peer: PeerID, inGroupOf count: Int, now: MonotonicInstant) -> MergeDecision {
        let ownCount = table.otherIDs.count + 1
        if table.member(peer) != nil { return .merge }
        if isIncomplete(now: now) { return .refuse }
        if ownCount + count <= settings.maximumMemberCount { return .merge }
        // Alone, this member may find that there is no room only when it has joined.
        if ownCount == 1 { return .merge }
        let isLarger = (count, table.own) > (ownCount, peer)
        return isLarger && count < settings.maximumMemberCount ? .stepBackAndMerge : .refuse
    }

    /// Records that a member has refused this one because the session is full: both are in other groups, unless this one has just
    /// joined.
    package mutating func recordRefusal(of id: PeerID, now: MonotonicInstant) {
        joinOrder.recordRefusal(of: id)
        if !joinOrder.isNew(now: now) { recordDeparture(of: id, now: now) }
    }

    /// Whether this member has to step back: it has joined at the same time as others, and all together exceed the limit.
    package func isSurplus(now: MonotonicInstant) -> Bool {
        // Asked after each change, and seldom so.
        let present = table.presentIDs
        guard present.count >= settings.maximumMemberCount, !isFounder else { return false }
        return joinOrder.isSurplus(
            table.own, among: present, linked: reachability.neighbours, limit: settings.maximumMemberCount, now: now)
    }

    /// Forgets all other members, which know that this one has left, so that it can join again once there is room.
    package mutating func stepBack() {
        for id in table.otherIDs { changes.append(.left(id)) }
        var own = table.ownEntry
        own.incarnation &+= 1
        own.neighbours = []
        table = MemberTable(own: own, maximumMemberCount: settings.maximumMemberCount)
        reachability = Reachability()
        (departureClaims, announcers, demandedLinks, hubs) = ([:], [:], [], [:])
        joinOrder.recordEnd()
    }

    // MARK: Removal

    /// Whether this member has started the session.
    package var isFounder: Bool { founder?.fingerprint == table.ownEntry.fingerprint }

    /// Whether the founder has removed the member with this key, which is never admitted again.
    package func isRemoved(_ fingerprint: Fingerprint) -> Bool { removed.contains(fingerprint) }

    /// Whether the founder can remove another member.
    package var canRemove: Bool { removed.count < SessionFrame.maximumRosterCount }

    /// The frame that names the founder; nil while it is not known. The founder's has the members that it has removed.
    package var founderFrame: SessionFrame? {
        founder.map { .founder(id, $0, removed: isFounder ? removed : []) }
    }

    /// Removes a member for good. Has no effect unless this member is the founder.
    package mutating func remove(_ id: PeerID, now: MonotonicInstant) {
        guard isFounder, canRemove, let member = table.member(id), id != table.own else { return }
        removed.append(member.fingerprint)
        recordDeparture(of: id, now: now)
    }

    /// Handles a member's frame that names the founder.
    /// - Returns: whether the founder has removed this member.
    package mutating func receive(
        _ founder: SessionFounder, removed: [Fingerprint], from sender: PeerID, now: MonotonicInstant
    ) -> Bool {
        guard founder.session == id else { return false }
        self.founder = founder
        // On a link with another member, the list counts for nothing.
        guard table.member(sender)?.fingerprint == founder.fingerprint else { return false }
        for fingerprint in removed where canRemove && !isRemoved(fingerprint) && fingerprint != founder.fingerprint {
            if fingerprint == table.ownEntry.fingerprint { return true }
            self.removed.append(fingerprint)
            if table.member(fingerprint.peerID)?.fingerprint == fingerprint {
                recordDeparture(of: fingerprint.peerID, now: now)
            }
        }
        return false
    }

    // MARK: Topology

    /// Whether all members are to have direct links to each other.
    private var isMesh: Bool {
        settings.topology == .mesh || table.otherIDs.count < SessionTopology.maximumMeshCount
    }

    /// Whether the topology requires a direct link to a member.
    private func requiresDirectLink(to id: PeerID, now: MonotonicInstant) -> Bool {
        isMesh || [id, table.own].contains { hub in hubs[hub].map { now - $0 >= hubStabilityInterval } ?? false }
    }

    /// The time for which a member has to be a hub before the others connect to it: two rounds of updates. While a session forms,
    /// each member has heard of other links, and every choice that is dropped a moment later would leave a link behind.
    private var hubStabilityInterval: Duration { updateInterval * 2 }

    /// Determines the hubs, and the relays of the members without a link.
    /// - Parameter startsAbsences: false after a change by which no member becomes absent.
    private mutating func updateTopology(now: MonotonicInstant, startsAbsences: Bool = true) {
        let announced = relays
        reachability.setAnnounced(Set(announced.keys), now: now)
        if isMesh {
            hubs = [:]
            reachability.setRelays([:], now: startsAbsences ? now : nil)
        } else {
            let members = others + [table.ownEntry]
            let chosen = members.sorted { ($1.neighbours.count, $0.id) < ($0.neighbours.count, $1.id) }
                .prefix(SessionTopology.hubCount).map(\.id)
            hubs = Dictionary(chosen.map { ($0, hubs[$0] ?? now) }) { first, _ in first }
            reachability.setRelays(announced, now: startsAbsences ? now : nil)
        }
        for id in table.otherIDs { report(id) }
    }

    /// The relay of each member without a link: a connected member that announces a link to it.
    private var relays: [PeerID: PeerID] {
        var relays: [PeerID: PeerID] = [:]
        for id in table.otherIDs where reachability.linkState(of: id).isConnected {
            for neighbour in table.member(id)?.neighbours ?? [] where relays[neighbour] == nil { relays[neighbour] = id }
        }
        // A relay is kept while it is one, so that no change is reported without need.
        for (id, relay) in reachability.relays where reachability.linkState(of: relay).isConnected {
            if table.member(relay)?.neighbours.contains(id) == true { relays[id] = relay }
        }
        relays[table.own] = nil
        return relays
    }

    /// Asks for a link to a member that is reached through others.
    /// - Returns: whether a connection attempt may be due now.
    @discardableResult
    package mutating func demandLink(to id: PeerID) -> Bool {
        guard table.member(id) != nil, !reachability.linkState(of: id).isConnected else { return false }
        return demandedLinks.insert(id).inserted
    }

    /// Records that this node's network has changed: it may lead to members without a direct link.
    package mutating func recordNetworkChange(now: MonotonicInstant) {
        for member in others where hasAddresses(of: member) {
            reachability.recordReachabilityHint(member.id, isOwn: true, now: now)
        }
        reachability.endRelayDelays()
    }

    /// Sets the addresses at which discovery sees a member, or a peer that may become one; empty for one that is not seen any more.
    package mutating func setDiscoveredAddresses(_ addresses: [SessionMember.Address], of id: PeerID, now: MonotonicInstant) {
        let isMember = table.member(id) != nil
        guard discovered.set(addresses, of: id, isMember: isMember) else { return }
        if isMember, !addresses.isEmpty { reachability.recordReachabilityHint(id, isOwn: false, now: now) }
    }

    private func hasAddresses(of member: SessionMember) -> Bool {
        !member.addresses.isEmpty || discovered.contains(member.id)
    }

    // MARK: Links

    /// Records the start of a connection attempt.
    /// - Parameter relay: nil for a direct attempt.
    package mutating func recordAttempt(to id: PeerID, through relay: PeerID? = nil) {
        guard table.member(id) != nil else { return }
        reachability.recordAttempt(id, through: relay)
        report(id)
    }

    /// Records that the link of an attempt through a relay has joined; the member may be connected by another one.
    package mutating func recordAttemptEnd(to id: PeerID, through relay: PeerID) {
        reachability.recordAttemptEnd(id, through: relay)
    }

    /// Records a link to a member.
    /// - Parameter relay: nil for a direct link.
    package mutating func recordConnection(to id: PeerID, via relay: PeerID?, now: MonotonicInstant) {
        guard table.member(id) != nil else { return }
        demandedLinks.remove(id)
        reachability.recordConnection(id, via: relay, now: now)
        report(id)
        table.setOwnNeighbours(reachability.neighbours)
        updateTopology(now: now, startsAbsences: false)
    }

    /// Records a link to a member whose other end has yet to agree: until `expiry`, the member is neither absent nor connected to
    /// again.
    package mutating func recordJoining(_ id: PeerID, until expiry: MonotonicInstant) {
        if table.member(id) != nil { reachability.recordJoining(id, until: expiry) }
    }

    /// Records that a user is being asked about a member, here or at the other end: it is not given up meanwhile.
    /// - Parameter expiry: nil when the question is over.
    package mutating func recordQuestion(about id: PeerID, until expiry: MonotonicInstant?) {
        if table.member(id) != nil { reachability.recordQuestion(about: id, until: expiry) }
    }

    /// Records the loss of the last link to a member.
    /// - Parameter expiry: the latest time at which the other end of a further link agrees; nil for none.
    package mutating func recordDisconnection(
        of id: PeerID, joiningUntil expiry: MonotonicInstant? = nil, now: MonotonicInstant
    ) {
        guard table.member(id) != nil else { return }
        reachability.recordDisconnection(id, now: now)
        if let expiry { reachability.recordJoining(id, until: expiry) }
        report(id)
        resolveDepartureClaim(of: id, now: now)
        table.setOwnNeighbours(reachability.neighbours)
        updateTopology(now: now)
    }

    /// Records a failed connection attempt; the back-off grows with each.
    /// - Parameters:
    ///   - relay: nil for a direct attempt.
    ///   - isAnswered: whether the member was reached through the relay, and has not agreed.
    ///   - isTried: false for a direct attempt that was not made, because one through a relay asks the member's user already.
    package mutating func recordFailure(
        of id: PeerID, through relay: PeerID? = nil, isAnswered: Bool = false, isTried: Bool = true, now: MonotonicInstant
    ) {
        reachability.recordFailure(
            id, through: relay, isAnswered: isAnswered, isTried: isTried, isMember: table.member(id) != nil, now: now)
        report(id)
    }

    /// Records that a member has a link to another program with this member's key, which a link of this one would replace in turn.
    package mutating func recordReplacement(of id: PeerID, now: MonotonicInstant) {
        if table.member(id) != nil { reachability.recordReplacement(id, now: now) }
    }

    /// Sets this member's own addresses.
    package mutating func setAddresses(_ addresses: [SessionMember.Address]) { table.setOwnAddresses(addresses) }

    /// Reports the state of a member when it has changed.
    private mutating func report(_ id: PeerID) {
        if table.member(id) != nil { changes.report(state(of: id), of: id) }
    }

    // MARK: Connection attempts

    /// Returns the connection attempts that are due: to one member a direct one and one through a relay, which do not wait for each
    /// other. The member with the lower id starts; the other one follows when that has failed, so that two attempts rarely cross.
    /// Behind a relay a direct link is tried again and again. Links that the topology does not require are opened on demand, and to
    /// members out of reach.
    package func dueAttempts(now: MonotonicInstant) -> [ConnectionAttempt] {
        others.flatMap { member -> [ConnectionAttempt] in
            [relayedAttempt(to: member, now: now), directAttempt(to: member, now: now)].compactMap(\.self)
        }
    }

    /// The attempt through a relay that is due to a member without a link. To a member that was linked here it begins at once, because
    /// it takes seconds to find out that addresses lead nowhere; to another one when a direct attempt has failed.
    private func relayedAttempt(to member: SessionMember, now: MonotonicInstant) -> ConnectionAttempt? {
        let id = member.id
        guard !reachability.linkState(of: id).isConnected else { return nil }
        let isRequired = requiresDirectLink(to: id, now: now)
        let (isDemanded, isMissing) = (demandedLinks.contains(id), reachability.isMissing(id, now: now))
        guard isRequired || isDemanded || isMissing else { return nil }
        let isOwnTurn = table.own < id || reachability.secondRelayTime(id).map { now >= $0 } ?? false
        guard isOwnTurn || isDemanded else { return nil }
        let isDue =
            if reachability.isLost(id) {
                true
            } else if hasAddresses(of: member) {
                !isRequired || reachability.failureCount(of: id) > 0
            } else {
                // The member's addresses are about to arrive: a relayed link would be closed at once.
                isDemanded || isMissing
            }
        // Last: it looks at the neighbours of all members.
        guard isDue, let relay = reachability.nextRelay(to: id, among: relayCandidates(for: id), now: now) else { return nil }
        return .relay(member, through: relay)
    }

    /// The direct attempt that is due to a member without a direct link.
    private func directAttempt(to member: SessionMember, now: MonotonicInstant) -> ConnectionAttempt? {
        let id = member.id
        let link = reachability.linkState(of: id)
        guard link != .connected(via: nil), hasAddresses(of: member), reachability.mayAttempt(id, now: now) else { return nil }
        // The other side may be the only one that can connect, behind its firewall.
        let isOwnTurn = table.own < id || now >= reachability.secondAttemptTime(id)
        let isDemanded = !link.isConnected && demandedLinks.contains(id)
        guard isOwnTurn || isDemanded else { return nil }
        if !requiresDirectLink(to: id, now: now) {
            guard !link.isConnected, isDemanded || reachability.isMissing(id, now: now) else { return nil }
            guard relayCandidates(for: id).isEmpty || reachability.hasFailedThroughRelay(id) else { return nil }
        }
        return .connect(discovered.merged(into: member))
    }

    /// The connected members that announce a link to a member, those with a direct link to this member first, each group by id.
    private func relayCandidates(for id: PeerID) -> [PeerID] {
        let candidates = table.otherIDs.filter { relay in
            relay != id && reachability.linkState(of: relay).isConnected
                && table.member(relay)?.neighbours.contains(id) == true
        }
        let isDirect = { (relay: PeerID) in reachability.linkState(of: relay) == .connected(via: nil) }
        return candidates.filter(isDirect) + candidates.filter { !isDirect($0) }
    }

    // MARK: Time

    /// Removes members that have been unreachable for too long, and resolves claims of departure.
    package mutating func advance(to now: MonotonicInstant) {
        table.forgetWaiting(now: now)
        // Sorted, so that all members reach the same result.
        let expired = departureClaims.filter { now - $0.value.time >= Self.claimTimeout }.keys
        for id in expired.sorted() { resolveDepartureClaim(of: id, now: now) }
        for id in reachability.absentees(after: settings.absenceTimeout, now: now) { recordDeparture(of: id, now: now) }
    }

    /// The next time after `now` at which ``advance(to:)`` or ``dueAttempts(now:)`` has something new.
    package func deadline(after now: MonotonicInstant) -> MonotonicInstant? {
        let times =
            reachability.deadlines(own: table.own, timeout: settings.absenceTimeout) { id in
                !isMesh || table.member(id)?.addresses.isEmpty == true
            }
            + departureClaims.values.map { $0.time + Self.claimTimeout } + hubs.values.map { $0 + hubStabilityInterval }
            + [table.waitingDeadline, table.hasUpdates ? updateTime.map { $0 + updateInterval } : nil].compactMap(\.self)
        // Times in the past have been handled without effect.
        return times.filter { $0 > now }.min()
    }

    /// The time for which a claim of departure waits for the member's link to end.
    private static let claimTimeout = Duration.seconds(2)
    /// The least time between two updates in a session of at most eight members, all of which have direct links.
    private static let minimumUpdateInterval = Duration.milliseconds(100)
    /// The least time between two updates for each other member. Exceeds ``minimumUpdateInterval`` from nine members on, and is
    /// 0.9 s in the largest session, of 64 members: each of the few updates while it forms then holds the entries of many.
    private static let updateIntervalPerMember = Duration.milliseconds(14)
}
