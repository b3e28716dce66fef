/// Decides whether a wait polls before it sleeps, by the latest waits. To wake a thread on an idle processor costs more than the
/// work on a short message, so that two programs which answer each other at once spend most of their time on it.
///
///     sleeping ── a short sleep, or as many as the pause has ──► polling ── late polls have used up the credit ──► sleeping
///
/// Quick polls earn the credit that late ones spend. Each pause is twice as long as the one before it, until quick polls have
/// earned the highest credit.
package struct AdaptivePolling: Sendable {
    /// The longest poll. A sleep that is shorter is mostly the time in which threads are woken, at both ends.
    package static let limit = Duration.microseconds(200)

    /// The longest poll that costs no more processor time than to sleep and to be woken, and the credit that it earns.
    private static let quickDuration = Duration.microseconds(50)
    /// The credit after a pause: eight polls up to the limit, so that two ends come to poll at the same time.
    private static let initialCredit = Duration.microseconds(1600)
    private static let maximumCredit = Duration.microseconds(3200)
    private static let maximumPause = 256

    /// The number of short sleeps before the next poll.
    private var pause = 1
    private var nextPause = 2
    private var credit = Self.initialCredit

    package init() {}

    /// Whether the next wait is to poll.
    package var isDue: Bool { pause == 0 }

    /// Records a poll that has found what it waited for, or was given up at ``limit``.
    package mutating func recordPoll(_ duration: Duration) {
        if duration <= Self.quickDuration {
            credit = min(credit + Self.quickDuration, Self.maximumCredit)
            if credit == Self.maximumCredit { nextPause = 1 }
        } else {
            credit -= duration
            guard credit <= .zero else { return }
            (pause, nextPause, credit) = (nextPause, min(nextPause * 2, Self.maximumPause), Self.initialCredit)
        }
    }

    /// Records a wait in which the task slept.
    package mutating func recordSleep(_ duration: Duration) {
        if duration < Self.limit { pause = max(0, pause - 1) }
    }
}
