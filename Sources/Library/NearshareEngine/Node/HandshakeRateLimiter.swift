internal import NearshareBase

/// The rate limit on handshakes that end without a proven key, for each address (R9). A first message costs the receiver four
/// operations with keys, and its sender none: the protocol's order has the responder speak before the initiator proves anything.
///
/// Handshakes of an address with failures are taken from its rate when they begin, and given back when they prove a key. So any
/// number of keys can be proven, and links that are held open count as well. There is no debt: the next handshake begins within a
/// second, however many have failed.
///
/// An IPv6 network has no rate in common: its addresses would be refused together with an attacker's.
struct HandshakeRateLimiter: Sendable {
    /// Failed handshakes that an address may have at once.
    static let burst = 16.0
    /// Sustained failed handshakes of an address, per second.
    static let perSecond = 1.0
    /// Limit on the addresses that are remembered. The one that is nearest to its full rate is forgotten first.
    static let maximumAddressCount = 256

    private var buckets: [String: TokenBucket] = [:]

    /// The number of remembered addresses.
    var addressCount: Int { buckets.count }

    /// Whether handshakes of this address are charged when they begin.
    func isLimited(_ host: String) -> Bool { buckets[host] != nil }

    /// Whether a connection of this address may begin a handshake.
    mutating func allows(_ host: String, now: MonotonicInstant) -> Bool {
        guard var bucket = buckets[host] else { return true }
        let balance = bucket.balance(now: now)
        buckets[host] = balance < Self.burst ? bucket : nil
        return balance >= 1
    }

    /// Whether a handshake of this address may begin; charges it to the rate of an address with failures.
    mutating func begin(_ host: String, now: MonotonicInstant) -> Bool {
        guard allows(host, now: now) else { return false }
        _ = buckets[host]?.consume(now: now)
        return true
    }

    /// Gives back what a handshake has taken that has proven a key.
    mutating func refund(_ host: String) { buckets[host]?.refund(1) }

    /// Counts a handshake that has ended without a proven key.
    /// - Parameter isCharged: whether ``begin(_:now:)`` has charged it to the rate of an address with failures.
    mutating func recordFailure(of host: String, isCharged: Bool = false, now: MonotonicInstant) {
        if isCharged, buckets[host] != nil { return }
        if buckets[host] == nil, buckets.count >= Self.maximumAddressCount { forgetOne(now: now) }
        var bucket = buckets[host] ?? TokenBucket(capacity: Self.burst, perSecond: Self.perSecond, now: now)
        _ = bucket.consume(now: now)
        buckets[host] = bucket
    }

    private mutating func forgetOne(now: MonotonicInstant) {
        for host in buckets.keys where buckets[host]?.balance(now: now) == Self.burst { buckets[host] = nil }
        guard buckets.count >= Self.maximumAddressCount else { return }
        var balances: [String: Double] = [:]
        for host in buckets.keys { balances[host] = buckets[host]?.balance(now: now) }
        if let fullest = balances.max(by: { $0.value < $1.value }) { buckets[fullest.key] = nil }
    }
}
