internal import NearshareBase

/// The attempts to open links through relays, to members without a link. They are independent of the attempts at a direct link.
///
///     unavailable ──a connected member announces a link──► available ──attempt──► in progress ──► linked
///          ▲                                                 │   ▲                    │
///          └──────────none announces one any more────────────┘   └──delay──failure────┘
struct RelayAttempts: Sendable {
    /// The time since which each member without a link can be tried through a relay.
    private var availableSince: [PeerID: MonotonicInstant] = [:]
    /// The relays of the attempts in progress, one for each member.
    private var attempts: [PeerID: PeerID] = [:]
    /// The failures of each member's relays.
    private var backoffs: [PeerID: [PeerID: AttemptBackoff]] = [:]
    /// The delays after the member itself has answered, which hold for every relay: it has refused, or is linked to another program
    /// with this member's key.
    private var pauses: [PeerID: AttemptBackoff] = [:]

    /// Whether a connected member announces a link to a member that has none here.
    func isAvailable(_ id: PeerID) -> Bool { availableSince[id] != nil }

    /// Whether an attempt through some relay has failed since the member was linked last.
    func hasFailed(_ id: PeerID) -> Bool { backoffs[id]?.isEmpty == false || pauses[id] != nil }

    /// The relay to try now: of those with the fewest failures the first one, because an announcement may be false (S5).
    /// - Parameter candidates: the relays that announce a link, in the order of preference.
    /// - Returns: nil while an attempt is in progress, and during the delays after failures.
    func nextRelay(to id: PeerID, among candidates: [PeerID], now: MonotonicInstant) -> PeerID? {
        guard attempts[id] == nil, pauses[id].map({ now >= $0.retryTime }) ?? true else { return nil }
        let failed = backoffs[id] ?? [:]
        func failureCount(_ relay: PeerID) -> Int { failed[relay]?.failureCount ?? 0 }
        return candidates.filter { relay in failed[relay].map { now >= $0.retryTime } ?? true }
            .min { failureCount($0) < failureCount($1) }
    }

    /// The time at which the member with the higher id begins as well; nil without a relay.
    func secondAttemptTime(_ id: PeerID) -> MonotonicInstant? { availableSince[id].map { $0 + Self.headStart } }

    /// The times at which attempts become due.
    func deadlines(own: PeerID) -> [MonotonicInstant] {
        availableSince.filter { attempts[$0.key] == nil }.flatMap { id, since -> [MonotonicInstant] in
            var times = (backoffs[id] ?? [:]).values.map(\.retryTime)
            if let pause = pauses[id] { times.append(pause.retryTime) }
            if id < own { times.append(since + Self.headStart) }
            return times
        }
    }

    // MARK: Changes

    /// Sets the members without a link to which connected members announce links.
    mutating func setAvailable(_ ids: Set<PeerID>, now: MonotonicInstant) {
        availableSince = Dictionary(ids.map { ($0, availableSince[$0] ?? now) }) { first, _ in first }
    }

    mutating func recordAttempt(to id: PeerID, through relay: PeerID) { attempts[id] = relay }

    /// Records the end of an attempt.
    mutating func recordEnd(to id: PeerID, through relay: PeerID) {
        // A later one may be in progress through another relay.
        if attempts[id] == relay { attempts[id] = nil }
    }

    /// Records a failed attempt to a member without a link.
    /// - Parameter isAnswered: whether the member itself was reached.
    mutating func recordFailure(to id: PeerID, through relay: PeerID, isAnswered: Bool, now: MonotonicInstant) {
        if isAnswered {
            pauses[id] = AttemptBackoff(after: pauses[id], .direct, now: now)
        } else {
            backoffs[id, default: [:]][relay] = AttemptBackoff(after: backoffs[id]?[relay], .relayed, now: now)
        }
    }

    /// Delays the next attempt for the longest time.
    mutating func pause(_ id: PeerID, now: MonotonicInstant) { pauses[id] = AttemptBackoff(longest: .direct, now: now) }

    /// Records a link to a member. An attempt in progress through another relay goes on.
    /// - Parameters:
    ///   - relay: nil for a direct link.
    ///   - isFirst: whether the member had no link before; now it may serve as a relay, so its failures as one are forgotten.
    mutating func recordLink(to id: PeerID, via relay: PeerID?, isFirst: Bool) {
        forget(id)
        if let relay { recordEnd(to: id, through: relay) }
        if isFirst { endDelays(through: id) }
    }

    mutating func remove(_ id: PeerID) {
        forget(id)
        attempts[id] = nil
        endDelays(through: id)
    }

    /// Ends the delays after failures of relays: this node's network has changed.
    mutating func endDelays() { backoffs = [:] }

    private mutating func forget(_ id: PeerID) {
        availableSince[id] = nil
        backoffs[id] = nil
        pauses[id] = nil
    }

    private mutating func endDelays(through relay: PeerID) {
        for index in backoffs.values.indices { backoffs.values[index][relay] = nil }
    }

    /// The time for which only the member with the lower id attempts a link through a relay: more than a round of updates and a
    /// handshake, so that two attempts rarely cross.
    private static let headStart = Duration.seconds(1)
}
