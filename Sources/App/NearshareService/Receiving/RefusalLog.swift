internal import Nearshare
internal import Synchronization

/// Remembers which refusals by policy the user has read, so that a peer that offers again and again fills no log, and many
/// new keys don't either (R11).
final class RefusalLog: Sendable {
    private struct Refusal: Hashable {
        let peer: Fingerprint
        let reason: DeclineReason
        let isNew: Bool
    }

    private static let interval = Duration.seconds(60)

    /// Limit on reports within ``interval`` about new peers, and about those met before: what a user can read.
    static let maximumCount = 20

    /// Times at which refusals were last reported.
    private let reported = Mutex<[Refusal: MonotonicInstant]>([:])

    /// - Returns: whether the same refusal, or as many as the user can read, were reported within the last minute; otherwise it
    ///   counts as reported now.
    func isRepeated(_ reason: DeclineReason, of peer: Fingerprint, _ status: TrustStatus, now: MonotonicInstant) -> Bool {
        var isNew = true
        if case .known = status { isNew = false }
        let refusal = Refusal(peer: peer, reason: reason, isNew: isNew)
        return reported.withLock { reported in
            reported = reported.filter { now - $0.value < Self.interval }
            guard reported[refusal] == nil else { return true }
            guard reported.keys.count(where: { $0.isNew == isNew }) < Self.maximumCount else { return true }
            reported[refusal] = now
            return false
        }
    }
}
