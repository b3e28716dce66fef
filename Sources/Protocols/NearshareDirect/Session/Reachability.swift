internal import NearshareBase

/// The connectivity of a session's members, and the back-off between connection attempts, which is one for direct attempts, and
/// others for those through relays.
struct Reachability: Sendable {
    /// A hint that a member's addresses may lead to it, until a direct attempt that began after it has failed.
    private struct Hint {
        var time: MonotonicInstant
        /// An attempt has begun since.
        var isTried = false
    }

    /// The state of each member's links. It is one and the same for as long as a member is out of reach, however many attempts fail.
    private var states: [PeerID: MemberState] = [:]
    /// The relay that announces a link to a member to which this member has none.
    private(set) var relays: [PeerID: PeerID] = [:]
    /// The time since which there is no direct link to a member.
    private var unlinkedSince: [PeerID: MonotonicInstant] = [:]
    /// The start of each unreachable member's absence: it has neither a link nor a relay.
    private var absentSince: [PeerID: MonotonicInstant] = [:]
    /// The failures of direct attempts.
    private var backoffs: [PeerID: AttemptBackoff] = [:]
    private var hints: [PeerID: Hint] = [:]
    /// The time of the latest hint of each member, which bounds how often hints cancel the back-off.
    private var hintTimes: [PeerID: MonotonicInstant] = [:]
    /// Members with a direct attempt in progress.
    private var attempts: Set<PeerID> = []
    private var relayAttempts = RelayAttempts()
    /// Members with a link that the other end has yet to agree to, and the latest time for that.
    private var joining: [PeerID: MonotonicInstant] = [:]
    /// The latest ends of the questions to users about members.
    private var questions: [PeerID: MonotonicInstant] = [:]
    /// Members whose last link was lost.
    private var lost: Set<PeerID> = []

    /// The state of a member, which is reached by its links, or through a relay without a link so far.
    func state(of id: PeerID) -> MemberState {
        let state = linkState(of: id)
        if state.isConnected { return state }
        return relays[id].map { .connected(via: $0) } ?? state
    }

    /// The state of a member's links.
    func linkState(of id: PeerID) -> MemberState { states[id] ?? .notConnected }

    /// Members with a direct link, by id.
    var neighbours: [PeerID] { states.filter { $0.value == .connected(via: nil) }.keys.sorted() }

    /// The number of consecutive direct attempts that have failed.
    func failureCount(of id: PeerID) -> Int { backoffs[id]?.failureCount ?? 0 }

    /// Whether the last link to a member was lost.
    func isLost(_ id: PeerID) -> Bool { lost.contains(id) }

    /// Whether the other end of a link to a member has yet to agree, such as by the answer of its user.
    func isJoining(_ id: PeerID, now: MonotonicInstant) -> Bool { joining[id].map { now < $0 } ?? false }

    /// Whether no direct attempt is in progress, no link is about to join, and the back-off has passed.
    func mayAttempt(_ id: PeerID, now: MonotonicInstant) -> Bool {
        !attempts.contains(id) && !isJoining(id, now: now) && (backoffs[id].map { now >= $0.retryTime } ?? true)
    }

    /// The relay to try now to a member without a link; nil for none.
    /// - Parameter candidates: the relays that announce a link, in the order of preference.
    func nextRelay(to id: PeerID, among candidates: [PeerID], now: MonotonicInstant) -> PeerID? {
        isJoining(id, now: now) ? nil : relayAttempts.nextRelay(to: id, among: candidates, now: now)
    }

    /// Whether an attempt through a relay has failed since the member was linked last.
    func hasFailedThroughRelay(_ id: PeerID) -> Bool { relayAttempts.hasFailed(id) }

    // MARK: Changes

    mutating func add(_ id: PeerID, now: MonotonicInstant) {
        states[id] = .notConnected
        unlinkedSince[id] = now
        absentSince[id] = now
    }

    mutating func remove(_ id: PeerID) {
        states[id] = nil
        relays[id] = nil
        unlinkedSince[id] = nil
        absentSince[id] = nil
        backoffs[id] = nil
        hints[id] = nil
        hintTimes[id] = nil
        attempts.remove(id)
        joining[id] = nil
        questions[id] = nil
        lost.remove(id)
        relayAttempts.remove(id)
    }

    /// Records that a user is being asked about a member, which is not given up meanwhile.
    /// - Parameter expiry: nil when the question is over.
    mutating func recordQuestion(about id: PeerID, until expiry: MonotonicInstant?) { questions[id] = expiry }

    /// Records a link to a member whose other end has yet to agree. Until then it is neither absent nor connected to again.
    mutating func recordJoining(_ id: PeerID, until expiry: MonotonicInstant) {
        if !linkState(of: id).isConnected { joining[id] = expiry }
    }

    /// - Parameter relay: nil for a direct attempt.
    mutating func recordAttempt(_ id: PeerID, through relay: PeerID? = nil) {
        if let relay {
            relayAttempts.recordAttempt(to: id, through: relay)
        } else {
            attempts.insert(id)
            hints[id]?.isTried = true
        }
        if !linkState(of: id).isConnected { states[id] = .connecting }
    }

    /// Records that the link of an attempt through a relay has joined, also beside a direct one.
    mutating func recordAttemptEnd(_ id: PeerID, through relay: PeerID) { relayAttempts.recordEnd(to: id, through: relay) }

    mutating func recordConnection(_ id: PeerID, via relay: PeerID?, now: MonotonicInstant) {
        relayAttempts.recordLink(to: id, via: relay, isFirst: !linkState(of: id).isConnected)
        absentSince[id] = nil
        joining[id] = nil
        lost.remove(id)
        // Behind a relay, a direct attempt continues, and earlier failures still delay the next one.
        if relay == nil {
            attempts.remove(id)
            (unlinkedSince[id], backoffs[id], hints[id]) = (nil, nil, nil)
        } else if unlinkedSince[id] == nil {
            unlinkedSince[id] = now
        }
        states[id] = .connected(via: relay)
    }

    mutating func recordDisconnection(_ id: PeerID, now: MonotonicInstant) {
        if unlinkedSince[id] == nil { unlinkedSince[id] = now }
        if joining.removeValue(forKey: id) != nil, absentSince[id] != nil { absentSince[id] = now }
        if absentSince[id] == nil, relays[id] == nil { absentSince[id] = now }
        if linkState(of: id).isConnected { lost.insert(id) }
        states[id] = .connecting
    }

    /// - Parameters:
    ///   - relay: nil for a direct attempt.
    ///   - isAnswered: whether the member was reached through the relay, and has not agreed.
    ///   - isTried: false for a direct attempt that was not made, because one through a relay asks the member's user already: its
    ///     back-off does not grow.
    ///   - isMember: false when the member has left meanwhile.
    mutating func recordFailure(
        _ id: PeerID, through relay: PeerID? = nil, isAnswered: Bool = false, isTried: Bool = true, isMember: Bool,
        now: MonotonicInstant
    ) {
        if let relay {
            relayAttempts.recordEnd(to: id, through: relay)
            guard isMember, !linkState(of: id).isConnected else { return }
            return relayAttempts.recordFailure(to: id, through: relay, isAnswered: isAnswered, now: now)
        }
        attempts.remove(id)
        guard isMember, linkState(of: id) != .connected(via: nil) else { return }
        guard isTried else {
            backoffs[id] = AttemptBackoff(repeating: backoffs[id], .direct, now: now)
            return
        }
        if let latest = hints[id] {
            // An attempt that began before the hint says nothing about it.
            guard latest.isTried else {
                backoffs[id] = nil
                return
            }
            hints[id] = nil
        }
        backoffs[id] = AttemptBackoff(after: backoffs[id], .direct, now: now)
    }

    /// Records that a member has replaced its link by one to another program with the same key: the next attempt waits for the
    /// longest time, or the two programs would replace each other's links without end.
    mutating func recordReplacement(_ id: PeerID, now: MonotonicInstant) {
        hints[id] = nil
        backoffs[id] = AttemptBackoff(longest: .direct, now: now)
        relayAttempts.pause(id, now: now)
    }

    /// Records that a member to which there is no direct link may have become reachable: the back-off ends, and the member is
    /// not given up before an attempt that begins now has failed.
    /// - Parameter isOwn: false for a hint from a member, which counts at intervals only.
    mutating func recordReachabilityHint(_ id: PeerID, isOwn: Bool, now: MonotonicInstant) {
        guard linkState(of: id) != .connected(via: nil) else { return }
        if !isOwn, let last = hintTimes[id], now - last < Self.hintInterval { return }
        hintTimes[id] = now
        hints[id] = Hint(time: now)
        backoffs[id] = nil
    }

    /// Ends the delays between attempts through relays: this node's network has changed.
    mutating func endRelayDelays() { relayAttempts.endDelays() }

    /// Sets the members to which connected members announce links.
    mutating func setAnnounced(_ ids: Set<PeerID>, now: MonotonicInstant) {
        relayAttempts.setAvailable(ids.filter { states[$0] != nil && !linkState(of: $0).isConnected }, now: now)
    }

    /// Sets the relays of the members to which this member has no link. A member without either is absent.
    /// - Parameter now: nil after a change by which no member becomes absent.
    mutating func setRelays(_ new: [PeerID: PeerID], now: MonotonicInstant?) {
        let before = relays
        relays = new.filter { states[$0.key] != nil && !linkState(of: $0.key).isConnected }
        for id in before.keys where relays[id] == nil && states[id] == .notConnected { states[id] = .connecting }
        for (id, state) in states where !state.isConnected {
            if relays[id] != nil {
                absentSince[id] = nil
            } else if let now, absentSince[id] == nil {
                absentSince[id] = now
            }
        }
    }

    // MARK: Time

    /// The time at which the member with the higher id may attempt a connection as well.
    func secondAttemptTime(_ id: PeerID) -> MonotonicInstant {
        (unlinkedSince[id] ?? MonotonicInstant(nanoseconds: 0)) + Self.headStart
    }

    /// The time at which the member with the higher id may attempt a link through a relay as well; nil without a relay.
    func secondRelayTime(_ id: PeerID) -> MonotonicInstant? { relayAttempts.secondAttemptTime(id) }

    /// Whether a member has been absent for so long that all that it announces has arrived.
    func isMissing(_ id: PeerID, now: MonotonicInstant) -> Bool {
        !isJoining(id, now: now) && absentSince[id].map { now - $0 >= Self.announcementTime } ?? false
    }

    /// Members that have been absent for `timeout`, by id, or for longer as in ``absenceFactor(of:)``.
    func absentees(after timeout: Duration, now: MonotonicInstant) -> [PeerID] {
        absentSince.filter { id, since in
            !isJoining(id, now: now) && questions[id].map { now >= $0 } ?? true
                && now - since >= timeout * absenceFactor(of: id)
        }.keys.sorted()
    }

    /// The multiple of the timeout after which a member is given up. Hints and announcements can be invented, so both are bounded. An
    /// announced link counts only where the member was linked here before: an invented member goes at the timeout (S3).
    private func absenceFactor(of id: PeerID) -> Int {
        if lost.contains(id), relayAttempts.isAvailable(id) { return Self.announcedAbsenceFactor }
        return hints[id] == nil ? 1 : 2
    }

    /// The times at which members time out or attempts become due.
    /// - Parameter isWaitedFor: whether an attempt waits for what the member announces.
    func deadlines(
        own: PeerID, timeout: Duration, isWaitedFor: (PeerID) -> Bool
    ) -> [MonotonicInstant] {
        let secondAttempts = unlinkedSince.keys.filter { id in
            id < own && !attempts.contains(id) && backoffs[id].map { $0.retryTime < secondAttemptTime(id) } ?? true
        }
        let times: [MonotonicInstant] =
            absentSince.map { id, since in since + timeout * absenceFactor(of: id) }
            + absentSince.filter { isWaitedFor($0.key) }.values.map { $0 + Self.announcementTime }
            + secondAttempts.map { secondAttemptTime($0) }
            + backoffs.filter { !attempts.contains($0.key) }.values.map(\.retryTime)
        return times + relayAttempts.deadlines(own: own) + Array(joining.values) + Array(questions.values)
    }

    /// The multiple of the timeout for which a member is kept while others announce a link to it: two minutes by default.
    private static let announcedAbsenceFactor = 4
    /// The time for which only the member with the lower id attempts a connection.
    private static let headStart = Duration.seconds(3)
    /// The time in which the addresses and neighbours of a new member arrive.
    private static let announcementTime = Duration.seconds(1)
    /// The time in which a further hint from a member has no effect (S5).
    private static let hintInterval = Duration.seconds(2)
}
