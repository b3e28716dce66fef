internal import Nearshare

/// The browsers that the user has accepted: what they offer or ask for next needs no other answer.
struct AcceptedBrowsers: Sendable {
    /// The time after the last use in which the answer counts: a page may be left open on a phone that others use.
    static let lifetime = Duration.seconds(3600)

    private var expiries: [Fingerprint: MonotonicInstant] = [:]
    /// Whether a browser was ever accepted.
    private(set) var hasAcceptedAny = false

    func contains(_ browser: Fingerprint, now: MonotonicInstant) -> Bool { expiries[browser].map { now < $0 } ?? false }

    /// Records that a browser is accepted, by the user's answer or because an earlier one still counts.
    mutating func accept(_ browser: Fingerprint, now: MonotonicInstant) {
        // A browser has a new key with each page that it opens.
        expiries = expiries.filter { now < $0.value }
        expiries[browser] = now + Self.lifetime
        hasAcceptedAny = true
    }

    /// Ends an answer: the user has cancelled what the browser sent or received (A14).
    mutating func revoke(_ browser: Fingerprint) { expiries[browser] = nil }
}
