internal import Nearshare

/// The browsers that the user has accepted: what they offer or ask for next needs no other answer.
struct AcceptedBrowsers: Sendable {
    /// The time after the last use in which the answer counts: a page may be left open on a phone that others use.
    static let lifetime = Duration.seconds(3600)

    private var expiries: [Fingerprint: MonotonicInstant] = [:]

    /// Whether a browser was ever accepted.
    var wasUsed: Bool { !expiries.isEmpty }

    func contains(_ browser: Fingerprint, now: MonotonicInstant) -> Bool { expiries[browser].map { now < $0 } ?? false }

    /// Records an answer, or another use of it.
    mutating func accept(_ browser: Fingerprint, now: MonotonicInstant) { expiries[browser] = now + Self.lifetime }

    /// Ends an answer: the user has cancelled what the browser sent or received (A14).
    mutating func revoke(_ browser: Fingerprint) { expiries[browser] = .some(MonotonicInstant(nanoseconds: 0)) }
}
