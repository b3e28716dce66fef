internal import NearshareBase

/// Exponential back-off between attempts to reach one device: 1, 2, 4 … 60 seconds.
struct RetryBackoff: Equatable {
    private(set) var failureCount = 0
    /// The earliest time of the next attempt.
    private(set) var nextAttempt: MonotonicInstant

    static let maximumDelay = Duration.seconds(60)

    init(firstAttempt: MonotonicInstant) {
        nextAttempt = firstAttempt
    }

    /// - Parameter jitter: added to the delay, so that devices that lost each other at one time do not retry at one time.
    mutating func recordFailure(at now: MonotonicInstant, jitter: Duration = .zero) {
        let delay = min(.seconds(1 << min(failureCount, 6)), Self.maximumDelay)
        failureCount += 1
        nextAttempt = now + delay + jitter
    }

    mutating func recordSuccess() { failureCount = 0 }

    /// Sets the time of the next attempt without counting a failure.
    mutating func schedule(at moment: MonotonicInstant) { nextAttempt = moment }
}
