internal import Nearshare

/// The state of a direct send over all its attempts, with the decision after each one whether another follows.
struct DirectSendState: Sendable {
    /// The end of one attempt.
    struct Attempt: Sendable {
        /// The addresses that were tried.
        var addresses: [LinkAddress]
        /// The key that the receiver has proven; nil when no connection was established.
        var receiver: Fingerprint?
        /// The addresses at which another peer than the receiver has answered.
        var mismatchedAddresses: Set<LinkAddress> = []
        /// The trust in the receiver and its name, as it was reported; nil before the invitation.
        var trustStatus: TrustStatus?
        /// Bytes of content that the receiver has.
        var byteCount: UInt64 = 0
        /// nil when everything was delivered.
        var failure: CommandFailure?
        /// Another connection may get further.
        var isBroken = false
        /// The receiver has closed the link because it has too many.
        var foundNoSlot = false
        /// The link has ended before the receiver had proven its key, as where it has too many links.
        var isEndedInHandshake = false
        /// The receiver's address in the hotspot in which the transfer goes on; nil for none.
        var path: PreparedHotspot.Path?
        /// The link broke before the two ends had decided about a hotspot.
        var isHotspotUndecided = false
    }

    /// The step after an attempt.
    enum Step: Sendable {
        case delivered
        case failed(CommandFailure)
        /// Another attempt at the same addresses, because the link ended in the handshake.
        /// - Parameter isFirst: whether no attempt of this send has ended in this way before.
        case openAgain(after: Duration, because: CommandFailure, isFirst: Bool)
        /// A search for the receiver, and an attempt where it is found.
        /// - Parameters:
        ///   - since: the time at which the link broke.
        ///   - isNewLoss: whether the attempt had moved content, so that this is another break than the one before.
        case reconnect(to: Fingerprint, after: Duration, since: MonotonicInstant, isNewLoss: Bool)
    }

    private let canResume: Bool
    /// The attempts since the link broke.
    private(set) var reconnection: Reconnection
    /// The attempts before the first handshake has succeeded.
    private var opening: Reconnection
    /// The key that the receiver has proven; nil before the first handshake has succeeded.
    private(set) var receiver: Fingerprint?
    /// The failure of the last link that broke after a handshake, thrown when no other attempt gets further. That of a receiver
    /// without a slot counts more than a link that breaks later without content.
    private var linkFailure: CommandFailure?
    private var hasFoundNoSlot = false
    private var brokenSince: MonotonicInstant?
    /// Bytes of content that the receiver has.
    private var byteCount: UInt64 = 0

    /// - Parameter retryTime: for a new connection after the link broke.
    init(canResume: Bool, retryTime: Duration) {
        self.canResume = canResume
        reconnection = Reconnection(timeout: retryTime)
        opening = Reconnection(timeout: retryTime)
    }

    /// Records the end of an attempt.
    mutating func step(after attempt: Attempt, isCancelled: Bool, now: MonotonicInstant) -> Step {
        guard let failure = attempt.failure else { return .delivered }
        let isFirst = opening.failedAddresses.isEmpty
        if receiver == nil, attempt.isEndedInHandshake, !isCancelled,
            let delay = opening.delay(afterFailureAt: attempt.addresses, byteCount: 0, now: now)
        {
            return .openAgain(after: delay, because: failure, isFirst: isFirst)
        }
        // An attempt that has moved nothing, such as one that the receiver refuses while it still holds the broken link, is no
        // second loss.
        let isNewLoss = brokenSince == nil || attempt.byteCount > byteCount
        byteCount = max(byteCount, attempt.byteCount)
        if isNewLoss { brokenSince = now }
        if let proven = attempt.receiver {
            receiver = proven
            if attempt.isBroken, isNewLoss || attempt.foundNoSlot || !hasFoundNoSlot {
                linkFailure = failure
                hasFoundNoSlot = attempt.foundNoSlot
            }
        }
        // After a transfer has begun, a peer that cannot be reached is a broken link as well.
        let canRetry = attempt.isBroken && linkFailure != nil && canResume && !isCancelled
        guard canRetry, let receiver, let brokenSince,
            let delay = reconnection.delay(afterFailureAt: attempt.addresses, byteCount: attempt.byteCount, now: now)
        else {
            // An answer of the peer counts more than the break before it.
            return .failed(attempt.isBroken || attempt.receiver == nil ? linkFailure ?? failure : failure)
        }
        return .reconnect(to: receiver, after: delay, since: brokenSince, isNewLoss: isNewLoss)
    }
}
