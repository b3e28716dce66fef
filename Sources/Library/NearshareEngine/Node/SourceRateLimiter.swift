internal import NearshareBase

/// Limits requests of each source, and of all together. A source is an address, or the IPv6 /64 all of whose addresses one host can
/// use.
struct SourceRateLimiter {
    private var windows: [String: RateWindow] = [:]
    private var total = RateWindow()
    private let count: Int
    private let totalCount: Int
    private let duration: Duration

    /// Limit on the sources that are counted apart; further ones count in the total alone.
    static let maximumSourceCount = 256

    /// - Parameters:
    ///   - count: of the requests of one source within the duration.
    ///   - totalCount: of all sources.
    init(atMost count: Int, ofAll totalCount: Int, within duration: Duration) {
        (self.count, self.totalCount, self.duration) = (count, totalCount, duration)
    }

    mutating func admit(_ source: String, now: MonotonicInstant) -> Bool {
        windows = windows.filter { !$0.value.isEmpty(within: duration, now: now) }
        if windows[source] != nil || windows.count < Self.maximumSourceCount {
            guard windows[source, default: RateWindow()].admit(atMost: count, within: duration, now: now) else { return false }
        }
        return total.admit(atMost: totalCount, within: duration, now: now)
    }
}
