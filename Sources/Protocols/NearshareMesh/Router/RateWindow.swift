internal import NearshareBase

/// At most so many within the time that has just passed.
struct RateWindow {
    private var moments: [MonotonicInstant] = []

    /// - Returns: false when there were too many.
    mutating func take(atMost count: Int, within duration: Duration, now: MonotonicInstant) -> Bool {
        moments.removeAll { now - $0 >= duration }
        guard moments.count < count else { return false }
        moments.append(now)
        return true
    }
}
