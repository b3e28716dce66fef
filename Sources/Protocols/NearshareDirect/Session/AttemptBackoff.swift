internal import NearshareBase

/// The back-off after failed attempts to open a link to a member: the delay doubles with each failure, up to a bound.
struct AttemptBackoff: Sendable {
    /// The delays between attempts.
    enum Schedule: Sendable {
        /// 0.5 to 16 s: an address may lead nowhere, and then costs a connection attempt of seconds (S5).
        case direct
        /// 0.25 to 2 s: a relay that cannot help says so at once.
        case relayed

        var firstDelay: Duration {
            switch self {
            case .direct: .milliseconds(500)
            case .relayed: .milliseconds(250)
            }
        }

        /// Limit on the times by which the delay doubles.
        var maximumDoublings: Int {
            switch self {
            case .direct: 5
            case .relayed: 3
            }
        }
    }

    /// Consecutive failures.
    let failureCount: Int
    /// The earliest time of the next attempt.
    let retryTime: MonotonicInstant

    /// The back-off after one more failure.
    /// - Parameter previous: the back-off before it; nil for the first failure.
    init(after previous: AttemptBackoff?, _ schedule: Schedule, now: MonotonicInstant) {
        self.init(failureCount: (previous?.failureCount ?? 0) + 1, schedule, now: now)
    }

    /// The same delay once more, after an attempt that was not made.
    /// - Parameter previous: nil before the first failure.
    init(repeating previous: AttemptBackoff?, _ schedule: Schedule, now: MonotonicInstant) {
        self.init(failureCount: previous?.failureCount ?? 0, schedule, now: now)
    }

    /// The longest delay of a schedule.
    init(longest schedule: Schedule, now: MonotonicInstant) {
        self.init(failureCount: schedule.maximumDoublings + 1, schedule, now: now)
    }

    private init(failureCount: Int, _ schedule: Schedule, now: MonotonicInstant) {
        self.failureCount = failureCount
        retryTime = now + schedule.firstDelay * (1 << min(max(failureCount - 1, 0), schedule.maximumDoublings))
    }
}
