/// A sliding-window rate limiter: at most a given number of events within a given time. For few events; ``TokenBucket`` counts
/// many without remembering each.
package struct RateWindow: Sendable {
    private var admitted: [MonotonicInstant] = []

    package init() {}

    /// - Returns: false when the window is full.
    package mutating func admit(atMost count: Int, within duration: Duration, now: MonotonicInstant) -> Bool {
        admitted.removeAll { now - $0 >= duration }
        guard admitted.count < count else { return false }
        admitted.append(now)
        return true
    }

    /// Whether no admitted event is within the time.
    package func isEmpty(within duration: Duration, now: MonotonicInstant) -> Bool {
        admitted.allSatisfy { now - $0 >= duration }
    }
}
