package import NearshareBase

/// Limits how often a source may ask the user (R11). Only unaccepted invitations count.
///
/// The source is an address rather than a key, because a new key costs an attacker nothing.
package struct InvitationRateLimiter: Sendable {
    /// Unaccepted invitations that a source may send within ``interval``.
    package static let maximumUnaccepted = 5
    /// The length of the sliding window.
    package static let interval = Duration.seconds(60)
    /// Limit on remembered sources; a new one replaces the one that was refused longest ago.
    private static let maximumSources = 256

    private var refusals: [String: [MonotonicInstant]] = [:]

    /// Creates a limiter without refusals.
    package init() {}

    /// Whether the user may be asked about an invitation from `source`.
    package mutating func allows(_ source: String, now: MonotonicInstant) -> Bool {
        guard let times = refusals[source] else { return true }
        let recent = times.filter { now - $0 < Self.interval }
        refusals[source] = recent.isEmpty ? nil : recent
        return recent.count < Self.maximumUnaccepted
    }

    /// Records that an invitation from `source` was declined or not answered.
    package mutating func recordRefusal(of source: String, now: MonotonicInstant) {
        if refusals[source] == nil, refusals.count >= Self.maximumSources,
            let oldest = refusals.min(by: { ($0.value.last ?? now) < ($1.value.last ?? now) })
        {
            refusals[oldest.key] = nil
        }
        // Refusals beyond the limit do not matter.
        refusals[source] = ((refusals[source] ?? []) + [now]).suffix(Self.maximumUnaccepted)
    }
}
