internal import Nearshare
internal import NearshareService
internal import Synchronization

/// A rate limiter for the lines that unknown peers cause on the screen, all of them together: their keys cost nothing. Everything
/// is stored, so hidden lines can be read later.
final class UnknownPeerLines: Sendable {
    enum Verdict: Equatable {
        case shown
        /// Shown, after this many that were not.
        case shownAfter(hiddenCount: Int)
        /// The first that is not shown.
        case firstHidden
        case hidden
    }

    private struct State {
        var bucket: TokenBucket
        var hiddenCount = 0
    }

    private let state: Mutex<State>
    private let clock: @Sendable () -> MonotonicInstant
    private let isKnown: @Sendable (PeerID) -> Bool

    /// - Parameter isKnown: whether the user knows a peer: then its lines are always shown.
    init(clock: @escaping @Sendable () -> MonotonicInstant, isKnown: @escaping @Sendable (PeerID) -> Bool) {
        self.clock = clock
        self.isKnown = isKnown
        state = Mutex(State(bucket: TokenBucket(capacity: Self.burst, perSecond: Self.linesPerSecond, now: clock())))
    }

    /// Limits by what the user has on this machine: friends, verified peers and imported keys are known.
    convenience init(of machine: LocalMachine) {
        self.init(
            clock: { SystemClock.monotonic() },
            isKnown: { id in
                let trust = (try? machine.trust.read())?.entry(claiming: id)?.entry
                if let trust, trust.isTrusted || trust.trust == .blocked { return trust.isTrusted }
                return (try? machine.contacts.read())?.entry(of: id)?.origin == .imported
            })
    }

    /// Decides whether a line is shown.
    /// - Parameter author: nil when the key of its author is unknown.
    func admit(from author: PeerID?) -> Verdict {
        if let author, isKnown(author) { return .shown }
        let now = clock()
        return state.withLock { state in
            // Once lines are hidden, they stay so until a whole burst can be shown: a flood causes few
            // such notices.
            guard state.bucket.consume(state.hiddenCount > 0 ? Self.burst : 1, now: now) else {
                state.hiddenCount += 1
                return state.hiddenCount == 1 ? .firstHidden : .hidden
            }
            guard state.hiddenCount > 0 else { return .shown }
            // One line is shown: the rest of the burst stays available.
            state.bucket.refund(Self.burst - 1)
            defer { state.hiddenCount = 0 }
            return .shownAfter(hiddenCount: state.hiddenCount)
        }
    }

    private static let burst = 20.0
    private static let linesPerSecond = 5.0
}
