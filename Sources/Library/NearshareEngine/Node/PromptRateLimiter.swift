internal import NearshareBase

/// The rate limit on prompts that untrusted peers cause (R11): invitations and requests to compare the short code. Only those
/// count that the user did not accept.
///
/// The source is an address rather than a key, because a new key costs an attacker nothing. The direct path and the mesh have a
/// limiter each.
struct PromptRateLimiter: Sendable {
    /// Unaccepted prompts that a source may cause within ``interval``.
    static let maximumUnacceptedCount = 5
    /// The length of the sliding window.
    static let interval = Duration.seconds(60)
    /// Limit on remembered sources; a new one replaces the one whose last prompt is the oldest.
    private static let maximumSourceCount = 256

    /// Times of the latest unaccepted prompts, by source.
    private var unaccepted: [String: [MonotonicInstant]] = [:]

    /// Whether the user may be asked on behalf of `source`.
    mutating func allowsPrompt(from source: String, now: MonotonicInstant) -> Bool {
        guard let times = unaccepted[source] else { return true }
        let recent = times.filter { now - $0 < Self.interval }
        unaccepted[source] = recent.isEmpty ? nil : recent
        return recent.count < Self.maximumUnacceptedCount
    }

    /// Records that a prompt of `source` was declined or not answered.
    mutating func recordUnaccepted(from source: String, now: MonotonicInstant) {
        if unaccepted[source] == nil, unaccepted.count >= Self.maximumSourceCount,
            let oldest = unaccepted.min(by: { ($0.value.last ?? now) < ($1.value.last ?? now) })
        {
            unaccepted[oldest.key] = nil
        }
        // Prompts beyond the limit do not matter.
        unaccepted[source] = ((unaccepted[source] ?? []) + [now]).suffix(Self.maximumUnacceptedCount)
    }
}
