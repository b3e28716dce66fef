package import Nearshare
package import NearshareMesh
internal import Synchronization

/// A rate limiter for the output that unknown peers cause, all of them together: their keys cost nothing. What the limit does not
/// permit is shown up to an allowance of the mesh link over which the peer is heard, so that a flood over other links does not hide
/// a newcomer. Everything is stored, so what is hidden can be read later.
package final class UnknownPeerLimiter: Sendable {
    /// An allowance that is used up by output and grows with time.
    package struct Allowance {
        package let burst: Int
        let perSecond: Double
        /// The least allowance with which output is shown again after some was hidden.
        let toResume: Int
        /// The allowance of one link of the mesh: its burst, and its growth with time.
        let ofLink: (burst: Double, perSecond: Double)

        /// Rows on the screen: a flood causes few notices that some are hidden.
        package static let rows = Allowance(burst: 20, perSecond: 5, toResume: 20, ofLink: (4, 0.1))
        /// Bytes of JSON events: little of a disk. Short events find room between long ones, so that a flood of long ones does
        /// not hide them.
        package static let bytes = Allowance(burst: 1 << 20, perSecond: 65_536, toResume: 0, ofLink: (65_536, 2_048))
    }

    package enum Verdict: Equatable {
        case shown
        /// Shown, after this many lines or events that were not.
        case shownAfter(hiddenCount: Int)
        /// The first that is not shown.
        case firstHidden
        case hidden
    }

    private struct State {
        var bucket: TokenBucket
        var linkBuckets: [MeshLinkShare: TokenBucket] = [:]
        var hiddenCount = 0
        /// When what was hidden was last counted.
        var lastCount: MonotonicInstant?
    }

    /// Limit on the links with an allowance in use.
    private static let maximumLinkCount = 256

    private let state: Mutex<State>
    private let linkShare = Mutex(Handler<PeerID, MeshLinkShare?> { _ in nil })
    private let allowance: Allowance
    private let clock: @Sendable () -> MonotonicInstant
    private let isKnownID: @Sendable (PeerID) -> Bool

    /// - Parameter isKnown: whether the user knows a peer: then its lines are always shown.
    package init(
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
    package convenience init(_ allowance: Allowance, of machine: LocalMachine) {
        self.init(
            allowance, clock: { SystemClock.monotonic() },
            isKnown: { id in
                let trust = (try? machine.trust.read())?.entry(claiming: id)?.entry
                if let trust, trust.isTrusted || trust.trust == .blocked { return trust.isTrusted }
                return (try? machine.contacts.read())?.entry(of: id)?.origin == .imported
            })
    }

    /// Gives allowances to the links of a node.
    /// - Parameter share: the share of the link over which a peer is heard; nil for none.
    package func followLinks(_ share: @escaping @Sendable (PeerID) -> MeshLinkShare?) {
        linkShare.withLock { $0 = Handler(share) }
    }

    /// The least time between two counts of what was hidden.
    private static let countInterval = Duration.seconds(1)

    /// Whether the user knows the peer.
    package func isKnown(_ author: PeerID?) -> Bool { author.map(isKnownID) ?? false }

    /// Decides whether some output is shown.
    /// - Parameters:
    ///   - author: nil when the key of its author is unknown.
    ///   - cost: in rows or bytes, as in the allowance. More than its burst counts as the burst.
    ///   - count: lines or events.
    package func admit(from author: PeerID?, cost: Int, count: Int = 1) -> Verdict {
        guard !isKnown(author) else { return .shown }
        let now = clock()
        let share = author.flatMap { id in linkShare.withLock { $0(id) } }
        return state.withLock { state in
            let isFirst = state.hiddenCount == 0
            let cost = min(cost, allowance.burst)
            let needed = isFirst ? cost : max(cost, allowance.toResume)
            guard state.bucket.consume(Double(needed), now: now) else {
                if let share, consume(cost, of: share, &state, now: now) { return .shown }
                state.hiddenCount += count
                return isFirst ? .firstHidden : .hidden
            }
            state.bucket.refund(Double(needed - cost))
            guard !isFirst, state.lastCount.map({ now - $0 >= Self.countInterval }) ?? true else { return .shown }
            defer { (state.hiddenCount, state.lastCount) = (0, now) }
            return .shownAfter(hiddenCount: state.hiddenCount)
        }
    }

    private func consume(_ cost: Int, of share: MeshLinkShare, _ state: inout State, now: MonotonicInstant) -> Bool {
        if state.linkBuckets.count >= Self.maximumLinkCount {
            for (link, var bucket) in state.linkBuckets where bucket.balance(now: now) >= allowance.ofLink.burst {
                state.linkBuckets[link] = nil
            }
        }
        var bucket =
            state.linkBuckets[share]
            ?? TokenBucket(capacity: allowance.ofLink.burst, perSecond: allowance.ofLink.perSecond, now: now)
        guard state.linkBuckets[share] != nil || state.linkBuckets.count < Self.maximumLinkCount,
            bucket.consume(Double(cost), now: now)
        else { return false }
        state.linkBuckets[share] = bucket
        return true
    }
}
