internal import NearshareBase

/// The activity of a link, keepalives left out: transfers, offers, comparisons and sessions. An inactive link can be evicted for
/// another one, so that untrusted peers cannot hold all links (Q6).
struct LinkActivity: Sendable {
    /// A time span in which the link counts as active, whatever happens on it.
    private struct Hold {
        var start: MonotonicInstant
        var end: MonotonicInstant

        var isPermanent: Bool { end.nanoseconds == .max }
    }

    private let timeout: Duration?
    private var lastActivity: MonotonicInstant
    /// The latest activity other than an offer that waits for the user's answer.
    private var lastTransferActivity: MonotonicInstant
    /// The hold for an invitation into a session, a session, or a friend.
    private var reservation: Hold
    /// The hold for the users to compare the short authentication strings.
    private var comparison: Hold

    /// Limit on the time for which an unanswered question to the user prevents eviction. Untrusted peers can ask 40 questions in
    /// this time (R11), fewer than there are links.
    private static let questionTime = Duration.seconds(60)

    init(timeout: Duration?, now: MonotonicInstant) {
        self.timeout = timeout
        (lastActivity, lastTransferActivity) = (now, now)
        reservation = Hold(start: now, end: now)
        comparison = reservation
    }

    /// - Parameter isQuestion: whether only unanswered offers keep the link active.
    mutating func record(isQuestion: Bool, now: MonotonicInstant) {
        lastActivity = max(lastActivity, now)
        if !isQuestion { lastTransferActivity = lastActivity }
    }

    /// Counts the link as active until a time, which replaces an earlier one, except a permanent reservation.
    mutating func reserve(until time: MonotonicInstant, now: MonotonicInstant) {
        if !reservation.isPermanent { reservation = Hold(start: now, end: time) }
    }

    /// Whether the link is held until it ends.
    var isReserved: Bool { reservation.isPermanent }

    /// Counts the link as active while the users compare.
    mutating func startComparison(until time: MonotonicInstant, now: MonotonicInstant) {
        comparison = Hold(start: now, end: time)
    }

    /// The start of inactivity; in the future while the link is held.
    private var idleSince: MonotonicInstant { max(lastActivity, reservation.end, comparison.end) }

    /// The time from which the link can be evicted, when no transfer runs on it.
    /// - Parameter lastQuestion: the time of the latest unanswered offer; nil for none.
    func evictableSince(lastQuestion: MonotonicInstant?) -> MonotonicInstant {
        if reservation.isPermanent { return reservation.end }
        let holds = [reservation, comparison].map { min($0.end, $0.start + Self.questionTime) }
        let questionEnd = lastQuestion.map { $0 + Self.questionTime }
        return (holds + [lastTransferActivity, questionEnd ?? lastTransferActivity]).max() ?? lastTransferActivity
    }

    /// The time at which an idle link is to be closed; nil for never.
    var deadline: MonotonicInstant? { timeout.map { idleSince + $0 } }
}
