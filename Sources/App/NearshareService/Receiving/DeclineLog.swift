internal import Nearshare
internal import Synchronization

/// A rate limiter of the reports about offers that a rule has declined: neither a peer that offers again and again nor many new
/// keys fill the log of the user (R11).
final class DeclineLog: Sendable {
    private struct Report: Hashable {
        let peer: Fingerprint
        let reason: DeclineReason
        let isNew: Bool
    }

    private static let interval = Duration.seconds(60)

    /// Limit on reports within ``interval`` about new peers, and about those met before: what a user can read.
    static let maximumCount = 20

    /// Times of the last reports.
    private let reported = Mutex<[Report: MonotonicInstant]>([:])

    /// Decides whether a decline is reported, which then counts as reported.
    /// - Returns: false when the same one, or as many as the user can read, were reported within ``interval``.
    func admitReport(
        of reason: DeclineReason, to peer: Fingerprint, _ status: TrustStatus, now: MonotonicInstant
    ) -> Bool {
        var isNew = true
        if case .known = status { isNew = false }
        let report = Report(peer: peer, reason: reason, isNew: isNew)
        return reported.withLock { reported in
            reported = reported.filter { now - $0.value < Self.interval }
            guard reported[report] == nil else { return false }
            guard reported.keys.count(where: { $0.isNew == isNew }) < Self.maximumCount else { return false }
            reported[report] = now
            return true
        }
    }
}
