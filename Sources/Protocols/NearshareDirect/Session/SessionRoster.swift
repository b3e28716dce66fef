package import NearshareBase

/// The members of a session, and how each is reached. Every member keeps a roster. Members exchange their rosters, and newer
/// entries take precedence, so that all rosters converge.
///
///     a member as seen here:   not connected ──► connecting ──► connected (directly or by a relay) ──► not connected
///
/// The parts are ``MemberTable`` and ``Reachability``.
package struct SessionRoster: Sendable {
    /// The limits of a session.
    package struct Limits: Sendable, Hashable {
        /// Limit on members, this one included.
        package var members = 8
        /// The time after which an unreachable member is removed.
        package var timeout = Duration.seconds(30)

        /// The defaults.
        package init() {}
    }

    /// A connection attempt that is due.
    package enum ConnectionAttempt: Sendable, Hashable {
        /// Connect to the member's addresses.
        case connect(SessionMember)
        /// Connect through a relay, which has links to both members.
        case relay(SessionMember, through: PeerID)
    }

    /// A claim of another member that a connected member is gone.
    private struct DepartureClaim {
        let incarnation: UInt32
        let time: MonotonicInstant
    }

    /// The session.
    package let id: SessionID
    /// The limits that the program has set.
    package let limits: Limits
    private var table: MemberTable
    private var reachability = Reachability()
    private var departureClaims: [PeerID: DepartureClaim] = [:]
    /// The member from which a member was first heard of, for those that have not joined here.
    private var announcers: [PeerID: PeerID] = [:]
    private var changes: [SessionChange] = []

    /// Starts with this member alone.
    package init(id: SessionID, own: SessionMember, limits: Limits = Limits()) {
        self.id = id
        self.limits = limits
        table = MemberTable(own: own, maximumMembers: limits.members)
    }

    // MARK: Reading

    /// Returns and removes the changes since the last call.
    package mutating func drainChanges() -> [SessionChange] {
        defer { changes = [] }
        return changes
    }

    /// Returns the frame for all connected members, once after each change; nil when nothing has changed.
    package mutating func drainUpdate() -> SessionFrame? { table.drainUpdate().map { .roster(id, $0) } }

    /// The frame for a member that has just been connected.
    package var frame: SessionFrame { .roster(id, table.all) }

    /// The ids of the other members, in no order.
    package var memberIDs: [PeerID] { table.otherIDs }

    /// The other members, by id.
    package var others: [SessionMember] { table.others }

    /// A member, this one included; nil for a peer that is not in the session.
    package func member(_ id: PeerID) -> SessionMember? { table.member(id) }

    /// A member's connectivity.
    package func state(of id: PeerID) -> MemberState { reachability.state(of: id) }

    /// Whether the limit on members is reached.
    package var isFull: Bool { table.isFull }

    // MARK: Joining and leaving

    /// Admits a peer after one side has accepted the other's invitation.
    package mutating func admit(_ member: SessionMember, now: MonotonicInstant) {
        var member = member
        member.incarnation = table.nextIncarnation(of: member)
        member.presence = .present
        store(member, now: now)
    }

    /// The member that has announced a member, and so vouches for its key; nil for one that joined here.
    package func announcer(of id: PeerID) -> PeerID? { announcers[id] }

    /// Merges the roster of another member. Claims about this member that are not true any more are refuted.
    package mutating func receive(_ members: [SessionMember], from announcer: PeerID, now: MonotonicInstant) {
        for member in members {
            switch table.judge(member) {
            case .ignored: break
            case .aboutOwn: table.refute(member)
            case .newer:
                let isPresent = table.member(member.id) != nil
                if member.presence == .gone, isPresent, state(of: member.id).isConnected {
                    if departureClaims[member.id] == nil {
                        departureClaims[member.id] = DepartureClaim(incarnation: member.incarnation, time: now)
                    }
                } else if member.presence == .gone || isPresent || !isFull {
                    store(member, now: now)
                    if member.presence == .present, !isPresent { announcers[member.id] = announcer }
                }
            }
        }
    }

    /// Records that a member leaves.
    package mutating func recordDeparture(of id: PeerID, now: MonotonicInstant) {
        guard id != table.own, var member = table.member(id) else { return }
        member.presence = .gone
        store(member, now: now)
    }

    /// Decides a claim that a member is gone. A member that is still connected has not left: it would have said so, or its link
    /// would have broken. So no member can talk another one out of the session.
    private mutating func settleDepartureClaim(of id: PeerID, now: MonotonicInstant) {
        guard let claim = departureClaims.removeValue(forKey: id), var member = table.member(id) else { return }
        if state(of: id).isConnected {
            member.incarnation = max(member.incarnation, claim.incarnation &+ 1)
        } else {
            member.incarnation = max(member.incarnation, claim.incarnation)
            member.presence = .gone
        }
        store(member, now: now)
    }

    private mutating func store(_ member: SessionMember, now: MonotonicInstant) {
        guard let change = table.store(member) else { return }
        if member.presence == .present {
            reachability.add(member.id, now: now)
        } else {
            reachability.remove(member.id)
            departureClaims[member.id] = nil
            announcers[member.id] = nil
        }
        changes.append(change)
    }

    // MARK: Links

    /// Records the start of a connection attempt.
    package mutating func recordAttempt(to id: PeerID) {
        guard table.member(id) != nil else { return }
        report(reachability.recordAttempt(id), of: id)
    }

    /// Records a link to a member.
    /// - Parameter relay: nil for a direct link.
    package mutating func recordConnection(to id: PeerID, via relay: PeerID?) {
        guard table.member(id) != nil else { return }
        report(reachability.recordConnection(id, via: relay), of: id)
        table.setOwnNeighbours(reachability.neighbours)
    }

    /// Records the loss of the last link to a member.
    package mutating func recordDisconnection(of id: PeerID, now: MonotonicInstant) {
        guard table.member(id) != nil else { return }
        report(reachability.recordDisconnection(id, now: now), of: id)
        settleDepartureClaim(of: id, now: now)
        table.setOwnNeighbours(reachability.neighbours)
    }

    /// Records a failed connection attempt; the back-off grows with each.
    package mutating func recordFailure(of id: PeerID, now: MonotonicInstant) {
        report(reachability.recordFailure(id, isMember: table.member(id) != nil, now: now), of: id)
    }

    /// Sets this member's own addresses.
    package mutating func setAddresses(_ addresses: [SessionMember.Address]) { table.setOwnAddresses(addresses) }

    private mutating func report(_ state: MemberState?, of id: PeerID) {
        if let state { changes.append(.state(id, state)) }
    }

    // MARK: Connection attempts

    /// Returns the connection attempts that are due. The member with the lower id starts; the other one follows when that has
    /// failed, so that two attempts rarely cross. A relay is tried when there is no direct link, and behind a relay a direct
    /// link is tried again and again.
    package func dueAttempts(now: MonotonicInstant) -> [ConnectionAttempt] {
        others.compactMap { member in
            guard reachability.mayAttempt(member.id, now: now) else { return nil }
            let mayConnect = !member.addresses.isEmpty
            switch state(of: member.id) {
            case .connected(via: nil): return nil
            case .connected: return mayConnect && table.own < member.id ? .connect(member) : nil
            case .connecting, .notConnected:
                guard table.own < member.id || now >= reachability.secondAttemptTime(member.id) else { return nil }
                let isRelaysTurn = !reachability.failureCount(of: member.id).isMultiple(of: 2)
                if isRelaysTurn || !mayConnect, let relay = relay(to: member) { return .relay(member, through: relay) }
                return mayConnect ? .connect(member) : nil
            }
        }
    }

    /// Selects a connected member that announces a link to `member`, preferably one with a direct link to this member. The
    /// candidates take turns, because an announcement may be false.
    private func relay(to member: SessionMember) -> PeerID? {
        let able = others.filter { $0.id != member.id && $0.neighbours.contains(member.id) && state(of: $0.id).isConnected }
        let direct = able.filter { state(of: $0.id) == .connected(via: nil) }
        let turn = reachability.failureCount(of: member.id) / 2
        let candidates = direct.isEmpty ? able : direct
        return candidates.isEmpty ? nil : candidates[turn % candidates.count].id
    }

    // MARK: Time

    /// Removes members that have been unreachable for too long, and settles claims of departure.
    package mutating func advance(to now: MonotonicInstant) {
        // Sorted, so that all members reach the same result.
        let settled = departureClaims.filter { now - $0.value.time >= Self.claimTimeout }.keys
        for id in settled.sorted() { settleDepartureClaim(of: id, now: now) }
        for id in reachability.absentees(after: limits.timeout, now: now) { recordDeparture(of: id, now: now) }
    }

    /// The next time after `now` at which ``advance(to:)`` or ``dueAttempts(now:)`` has something new.
    package func deadline(after now: MonotonicInstant) -> MonotonicInstant? {
        let times =
            reachability.deadlines(own: table.own, timeout: limits.timeout)
            + departureClaims.values.map { $0.time + Self.claimTimeout }
        // Times in the past have been handled without effect.
        return times.filter { $0 > now }.min()
    }

    /// The time for which a claim of departure waits for the member's link to end.
    private static let claimTimeout = Duration.seconds(2)
}
