internal import NearshareBase

/// The rate limit on handshakes that prove no known key, for each address and for all together (R9). A new key costs its owner nothing,
/// and a complete handshake costs the receiver one or two milliseconds, with a small offer up to three.
///
/// Each handshake is charged when it begins, and given back when it proves the key of a friend, of a verified peer or of a member of a
/// session. All together take less than half a core. One address has half of that, more than programs that send files one by one need.
struct UnknownKeyRateLimiter: Sendable {
    /// Handshakes of one address at once: those of a session with 64 members on one machine, four times.
    static let burst = 256.0
    /// Sustained handshakes of one address, per second.
    static let perSecond = 64.0
    /// Handshakes of all addresses at once.
    static let totalBurst = 256.0
    /// Sustained handshakes of all addresses, per second.
    static let totalPerSecond = 128.0
    /// Limit on the addresses whose rates are remembered. The one whose latest handshake is the oldest is forgotten first.
    static let maximumAddressCount = 256
    /// Limit on the addresses whose turns are remembered: 32 s of the sustained rate of all. An address that is forgotten while its
    /// links wait would come before a newcomer.
    static let maximumTurnCount = 4096

    private struct Source: Sendable {
        var bucket: TokenBucket
        var latest: MonotonicInstant
    }

    private var sources: [String: Source] = [:]
    private var total = TokenBucket(
        capacity: Self.totalBurst, perSecond: Self.totalPerSecond, now: MonotonicInstant(nanoseconds: 0))
    /// When handshakes of the addresses have begun that have proven no known key yet: the latest of each address.
    private(set) var latestBegins: [String: MonotonicInstant] = [:]

    /// Whether a handshake of this address may begin where no other link waits.
    mutating func hasBalance(for host: String, now: MonotonicInstant) -> Bool {
        (sources[host]?.bucket.balance(now: now) ?? Self.burst) >= 1 && total.balance(now: now) >= 1
    }

    /// Whether a handshake of this address may begin; charges it.
    /// - Parameter before: the links that wait, and whose turns come first.
    mutating func begin(_ host: String, behind before: WaitingLinks.LinksBefore, now: MonotonicInstant) -> Bool {
        var source =
            sources[host]
            ?? Source(bucket: TokenBucket(capacity: Self.burst, perSecond: Self.perSecond, now: now), latest: now)
        guard source.bucket.balance(now: now) >= Double(before.inQueue) + 1,
            total.balance(now: now) >= Double(before.inAll) + 1
        else { return false }
        _ = source.bucket.consume(now: now)
        _ = total.consume(now: now)
        source.latest = now
        if sources[host] == nil, sources.count >= Self.maximumAddressCount,
            let oldest = sources.min(by: { $0.value.latest < $1.value.latest })?.key
        {
            sources[oldest] = nil
        }
        sources[host] = source
        if latestBegins[host] == nil, latestBegins.count >= Self.maximumTurnCount,
            let oldest = latestBegins.min(by: { $0.value < $1.value })?.key
        {
            latestBegins[oldest] = nil
        }
        latestBegins[host] = now
        return true
    }

    /// Gives back what a handshake has taken that has proven a known key, and the turn of its address.
    mutating func refund(_ host: String) {
        sources[host]?.bucket.refund(1)
        total.refund(1)
        latestBegins[host] = nil
    }
}
