internal import Nearshare
internal import Synchronization

/// Remembers which refusals by policy the user has read, so that a peer that offers again and again fills no log (R11).
final class RefusalLog: Sendable {
    private struct Refusal: Hashable {
        let peer: Fingerprint
        let reason: DeclineReason
    }

    private static let interval = Duration.seconds(60)

    /// Times at which refusals were last reported. Their number follows from the rate limit on offers.
    private let reported = Mutex<[Refusal: MonotonicInstant]>([:])

    /// - Returns: whether the same refusal was reported within the last minute; otherwise it counts as reported now.
    func isRepeated(_ reason: DeclineReason, of peer: Fingerprint, now: MonotonicInstant) -> Bool {
        reported.withLock { reported in
            reported = reported.filter { now - $0.value < Self.interval }
            let refusal = Refusal(peer: peer, reason: reason)
            guard reported[refusal] == nil else { return true }
            reported[refusal] = now
            return false
        }
    }
}
