internal import NearshareBase
internal import Synchronization

/// Limits how often something that untrusted peers cause is reported.
final class ReportLimiter: Sendable {
    /// Minimum time between two reports.
    private let interval: Duration
    private let clock: @Sendable () -> MonotonicInstant
    private let last = Mutex<MonotonicInstant?>(nil)

    init(interval: Duration, clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.interval, self.clock) = (interval, clock)
    }

    /// Whether a report is due.
    func admit() -> Bool {
        let now = clock()
        return last.withLock { last in
            if let last, now - last < interval { return false }
            last = now
            return true
        }
    }
}
