package import NearshareBase

/// The peers that advertise the same room, and the times at which this node invites each of them. Peers with a lower id are
/// invited at once, in their order, so that nodes that join at the same time meet at the one with the lowest id; the others
/// after a while, unless they have invited this node before (`docs/PROTOCOL.md`, section 12.7).
///
///     seen ──due──► invited ──► member, or failed ──due──► invited …        gone ──due──► forgotten
package struct RoomCandidates: Sendable {
    private struct Candidate {
        var due: MonotonicInstant
        var failureCount = 0
        var lastAttempt: MonotonicInstant?
        var isInvited = false
        /// A user has declined.
        var isDeclined = false
        /// Whether the candidate is not advertised any more. It is not invited then, and kept until it would be due: it could
        /// end its pause by a goodbye otherwise.
        var isGone = false
    }

    /// The end of an invitation.
    package enum Outcome: Sendable {
        /// The peer is a member.
        case member
        /// A user has declined, who is not to be asked again soon.
        case declined
        /// A user was asked and has not answered in time, or could not be asked: the question may come again after a while.
        case unanswered
        /// The peer has invited this node at the same time. Then the one with the higher id goes first.
        case crossed
        /// There was no answer, or a refusal that no user has caused.
        case failed
    }

    private let own: PeerID
    private var candidates: [PeerID: Candidate] = [:]

    /// Starts without candidates.
    package init(own: PeerID) {
        self.own = own
    }

    /// Records that a peer advertises the room, or advertises it with other addresses.
    package mutating func recordSighting(of id: PeerID, now: MonotonicInstant) {
        guard id != own else { return }
        forgetGone(now: now)
        // Also of a peer that is back: two that invite each other at the same time would show two short codes.
        let earliest = id < own ? now : now + Self.higherIDDelay
        guard var known = candidates[id] else {
            candidates[id] = Candidate(due: earliest)
            return
        }
        known.isGone = false
        // New addresses may be false: they do not lead to a flood of attempts.
        if !known.isDeclined {
            known.due = min(known.due, max(earliest, known.lastAttempt.map { $0 + Self.minimumInterval } ?? known.due))
        }
        candidates[id] = known
    }

    /// Records that a peer does not advertise the room any more.
    package mutating func recordLoss(of id: PeerID, now: MonotonicInstant) {
        if candidates[id]?.lastAttempt == nil { candidates[id] = nil } else { candidates[id]?.isGone = true }
        forgetGone(now: now)
    }

    /// Forgets the candidates that are gone and would be due, and others that are gone beyond a limit: last those of which a
    /// user has declined.
    private mutating func forgetGone(now: MonotonicInstant) {
        candidates = candidates.filter { !$0.value.isGone || $0.value.isInvited || $0.value.due > now }
        let gone = candidates.filter { $0.value.isGone && !$0.value.isInvited }
        guard gone.count > Self.maximumGoneCount else { return }
        func order(_ candidate: Candidate) -> (Int, MonotonicInstant) { (candidate.isDeclined ? 1 : 0, candidate.due) }
        if let first = gone.min(by: { order($0.value) < order($1.value) }) { candidates[first.key] = nil }
    }

    /// Returns the peer to invite now, and records that it is invited; nil for none.
    /// - Parameter isMember: whether a peer is a member of the session.
    package mutating func next(now: MonotonicInstant, isMember: (PeerID) -> Bool) -> PeerID? {
        let due = candidates.filter {
            !$0.value.isInvited && !$0.value.isGone && $0.value.due <= now && !isMember($0.key)
        }
        // Candidates that have failed come last: a peer that never answers does not keep out another one.
        guard let next = due.min(by: { ($0.value.failureCount, $0.key) < ($1.value.failureCount, $1.key) })?.key else {
            return nil
        }
        candidates[next]?.isInvited = true
        candidates[next]?.lastAttempt = now
        return next
    }

    /// Records the end of an invitation.
    package mutating func recordOutcome(_ outcome: Outcome, of id: PeerID, now: MonotonicInstant) {
        guard var candidate = candidates[id] else { return }
        candidate.isInvited = false
        candidate.isDeclined = outcome == .declined
        // Bounded: each failure takes an attempt.
        candidate.failureCount = outcome == .member ? 0 : candidate.failureCount + 1
        let backoff = Self.pause(after: candidate.failureCount)
        let pause =
            switch outcome {
            case .member: Self.minimumInterval
            case .declined: Self.declinePause
            case .unanswered: Self.unansweredPause
            case .crossed: id > own ? backoff + Self.higherIDDelay : backoff
            case .failed: backoff
            }
        candidate.due = now + pause
        candidates[id] = candidate
    }

    /// The next time at which ``next(now:isMember:)`` may return a peer that is no member; nil for none.
    package func deadline(isMember: (PeerID) -> Bool) -> MonotonicInstant? {
        candidates.filter { !$0.value.isInvited && !$0.value.isGone && !isMember($0.key) }.map(\.value.due).min()
    }

    private static func pause(after failureCount: Int) -> Duration { .seconds(1 << min(failureCount - 1, 6)) }

    /// The time in which a peer with a higher id can invite this node.
    package static let higherIDDelay = Duration.seconds(3)
    /// The time after which a user that has declined may be asked again.
    package static let declinePause = Duration.seconds(600)
    /// The time after which a user that has not answered is asked again: the other end allows it then, see `SessionQuestions`.
    package static let unansweredPause = Duration.seconds(62)
    /// The least time between two attempts.
    package static let minimumInterval = Duration.seconds(2)
    /// Limit on candidates that are gone and not forgotten.
    package static let maximumGoneCount = 256
}
