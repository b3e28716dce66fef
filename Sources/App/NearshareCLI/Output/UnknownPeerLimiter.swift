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
    private let isKnownID: @Sendable (PeerID) -> Bool

    /// - Parameter isKnown: whether the user knows a peer: then its lines are always shown.
    init(clock: @escaping @Sendable () -> MonotonicInstant, isKnown: @escaping @Sendable (PeerID) -> Bool) {
        self.clock = clock
        isKnownID = isKnown
        state = Mutex(State(bucket: TokenBucket(capacity: Double(Self.burst), perSecond: Self.linesPerSecond, now: clock())))
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

    /// Whether the user knows the peer.
    func isKnown(_ author: PeerID?) -> Bool { author.map(isKnownID) ?? false }

    /// Decides whether some rows are shown.
    /// - Parameters:
    ///   - author: nil when the key of its author is unknown.
    ///   - rowCount: at most ``burst``.
    func admit(from author: PeerID?, rowCount: Int = 1) -> Verdict {
        guard !isKnown(author) else { return .shown }
        let now = clock()
        return state.withLock { state in
            // Once lines are hidden, they stay so until a whole burst can be shown: a flood causes few
            // such notices.
            let isFirst = state.hiddenCount == 0
            let rows = Double(min(rowCount, Self.burst))
            guard state.bucket.consume(isFirst ? rows : Double(Self.burst), now: now) else {
                state.hiddenCount += rowCount
                return isFirst ? .firstHidden : .hidden
            }
            guard !isFirst else { return .shown }
            // The rest of the burst stays available.
            state.bucket.refund(Double(Self.burst) - rows)
            defer { state.hiddenCount = 0 }
            return .shownAfter(hiddenCount: state.hiddenCount)
        }
    }

    /// Rows that are shown at once.
    static let burst = 20
    private static let linesPerSecond = 5.0
}
