internal import NearshareBase

/// The members that joined the session before this one, as far as this one can tell. Members admit peers without asking each
/// other, so more than the limit may join at the same time. Then those step back that have just joined and come last: after the
/// members that were there before, in the order of ids.
struct JoinOrder: Sendable {
    private var seniors: Set<PeerID> = []
    private var juniors: Set<PeerID> = []
    /// The time at which this member joined others; nil while it is alone.
    private var joinTime: MonotonicInstant?
    /// The members that have refused this one because the session is full.
    private var refusers: Set<PeerID> = []
    /// The first whole roster of another member has not arrived.
    private var awaitsRoster = false

    /// Records that this member was alone, and has joined another one.
    mutating func recordJoin(of other: PeerID, now: MonotonicInstant) {
        (joinTime, seniors, juniors, awaitsRoster, refusers) = (now, [other], [], true, [])
    }

    /// Records that this member is alone again.
    mutating func recordEnd() { (joinTime, seniors, juniors, awaitsRoster, refusers) = (nil, [], [], false, []) }

    /// Records that a member has refused this one because the session is full.
    mutating func recordRefusal(of id: PeerID) { refusers.insert(id) }

    /// Whether this member has just joined others.
    func isNew(now: MonotonicInstant) -> Bool { joinTime.map { now - $0 <= Self.joinTimeout } == true }

    /// Records the peers in the whole roster of another member that were not known before: those in the first one were there before
    /// this member.
    mutating func recordRoster(_ new: some Sequence<PeerID>) {
        if awaitsRoster { seniors.formUnion(new) }
        awaitsRoster = false
    }

    /// Records a peer that has joined after this member: one that it has invited itself, or has heard of only after a while.
    mutating func recordLaterMember(_ id: PeerID) { juniors.insert(id) }

    /// Whether a peer of which this member hears now, in a session that peers join by invitation, has joined after it.
    func isLaterMember(now: MonotonicInstant) -> Bool { joinTime.map { now - $0 > Self.invitationTimeout } ?? false }

    /// Whether this member has just joined others, and does not know them all yet.
    func isIncomplete(now: MonotonicInstant) -> Bool {
        awaitsRoster && joinTime.map { now - $0 <= Self.rosterTimeout } == true
    }

    /// Whether this member has to step back. One that joined some time ago never does, nor one that few members have answered: others
    /// could make it leave by naming members that do not exist (S4, S5).
    /// - Parameters:
    ///   - present: all present peers besides this one, also those for which there is no room here.
    ///   - linked: the members to which this one has a direct link.
    ///   - limit: the limit on members, this one included.
    func isSurplus(
        _ own: PeerID, among present: [PeerID], linked: [PeerID], limit: Int, now: MonotonicInstant
    ) -> Bool {
        let answerCount = refusers.union(linked).count
        guard present.count >= limit, answerCount >= min(limit / 2, SessionTopology.hubCount), isNew(now: now) else {
            return false
        }
        return present.count { seniors.contains($0) || ($0 < own && !juniors.contains($0)) } >= limit
    }

    /// The time for which a member counts as one that has just joined: news of others reach it within a fraction of that.
    private static let joinTimeout = Duration.seconds(10)
    /// The time after its own joining in which a member that was invited hears of others that were invited at the same moment.
    private static let invitationTimeout = Duration.seconds(2)
    /// The time for the first whole roster to arrive.
    private static let rosterTimeout = Duration.seconds(2)
}
