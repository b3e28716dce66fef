internal import NearshareBase
internal import NearshareInterfaces

/// Limits requests of each address, of each IPv6 network, all of whose addresses one host can use, and of all together.
struct SourceRateLimiter {
    private var windows: [String: RateWindow] = [:]
    private var total = RateWindow()
    private let count: Int
    private let totalCount: Int
    private let duration: Duration

    /// Requests of a network, as a multiple of those of one address.
    static let networkFactor = 4
    /// Limit on the addresses and networks that are counted apart; further ones count in the total alone.
    static let maximumSourceCount = 256

    /// - Parameters:
    ///   - count: of the requests of one address within the duration.
    ///   - totalCount: of all addresses.
    init(atMost count: Int, ofAll totalCount: Int, within duration: Duration) {
        (self.count, self.totalCount, self.duration) = (count, totalCount, duration)
    }

    mutating func admit(_ address: LinkAddress, now: MonotonicInstant) -> Bool {
        windows = windows.filter { !$0.value.isEmpty(within: duration, now: now) }
        guard admit(address.host, atMost: count, now: now) else { return false }
        if let network = address.sharedNetwork, !admit(network, atMost: Self.networkFactor * count, now: now) { return false }
        return total.admit(atMost: totalCount, within: duration, now: now)
    }

    private mutating func admit(_ source: String, atMost limit: Int, now: MonotonicInstant) -> Bool {
        guard windows[source] != nil || windows.count < Self.maximumSourceCount else { return true }
        return windows[source, default: RateWindow()].admit(atMost: limit, within: duration, now: now)
    }
}
