internal import Nearshare
internal import NearshareService
internal import Synchronization

/// A rate limiter for the output that unknown peers cause, all of them together: their keys cost nothing. Everything is stored, so
/// what is hidden can be read later.
final class UnknownPeerLimiter: Sendable {
    /// An allowance that is used up by output and grows with time.
    struct Allowance {
        let burst: Int
        let perSecond: Double
        /// The least allowance with which output is shown again after some was hidden.
        let toResume: Int

        /// Rows on the screen: a flood causes few notices that some are hidden.
        static let rows = Allowance(burst: 20, perSecond: 5, toResume: 20)
        /// Bytes of JSON events: little of a disk. Short events find room between long ones, so that a flood of long ones does
        /// not hide them.
        static let bytes = Allowance(burst: 1 << 20, perSecond: 65_536, toResume: 0)
    }

    enum Verdict: Equatable {
        case shown
        /// Shown, after this many lines or events that were not.
        case shownAfter(hiddenCount: Int)
        /// The first that is not shown.
        case firstHidden
        case hidden
    }

    private struct State {
        var bucket: TokenBucket
        var hiddenCount = 0
        /// When what was hidden was last counted.
        var lastCount: MonotonicInstant?
    }

    private let state: Mutex<State>
    private let allowance: Allowance
    private let clock: @Sendable () -> MonotonicInstant
    private let isKnownID: @Sendable (PeerID) -> Bool

    /// - Parameter isKnown: whether the user knows a peer: then its lines are always shown.
    init(
        _ allowance: Allowance, clock: @escaping @Sendable () -> MonotonicInstant,
        isKnown: @escaping @Sendable (PeerID) -> Bool
    ) {
        self.allowance = allowance
        self.clock = clock
        isKnownID = isKnown
        state = Mutex(
            State(
                bucket: TokenBucket(capacity: Double(allowance.burst), perSecond: allowance.perSecond, now: clock())))
    }

    /// Limits by what the user has on this machine: friends, verified peers and imported keys are known.
    convenience init(_ allowance: Allowance, of machine: LocalMachine) {
        self.init(
            allowance, clock: { SystemClock.monotonic() },
            isKnown: { id in
                let trust = (try? machine.trust.read())?.entry(claiming: id)?.entry
                if let trust, trust.isTrusted || trust.trust == .blocked { return trust.isTrusted }
                return (try? machine.contacts.read())?.entry(of: id)?.origin == .imported
            })
    }

    /// The least time between two counts of what was hidden.
    private static let countInterval = Duration.seconds(1)

    /// Whether the user knows the peer.
    func isKnown(_ author: PeerID?) -> Bool { author.map(isKnownID) ?? false }

    /// Decides whether some output is shown.
    /// - Parameters:
    ///   - author: nil when the key of its author is unknown.
    ///   - cost: in rows or bytes, as in the allowance. More than its burst counts as the burst.
    ///   - count: lines or events.
    func admit(from author: PeerID?, cost: Int, count: Int = 1) -> Verdict {
        guard !isKnown(author) else { return .shown }
        let now = clock()
        return state.withLock { state in
            let isFirst = state.hiddenCount == 0
            let cost = min(cost, allowance.burst)
            let needed = isFirst ? cost : max(cost, allowance.toResume)
            guard state.bucket.consume(Double(needed), now: now) else {
                state.hiddenCount += count
                return isFirst ? .firstHidden : .hidden
            }
            state.bucket.refund(Double(needed - cost))
            guard !isFirst, state.lastCount.map({ now - $0 >= Self.countInterval }) ?? true else { return .shown }
            defer { (state.hiddenCount, state.lastCount) = (0, now) }
            return .shownAfter(hiddenCount: state.hiddenCount)
        }
    }
}
