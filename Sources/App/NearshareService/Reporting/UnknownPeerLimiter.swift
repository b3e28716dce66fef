package import Nearshare
package import NearshareMesh
internal import Synchronization

/// A rate limiter for the output that unknown peers cause, all of them together: their keys cost nothing. What the limit does not
/// permit is shown up to an allowance of the mesh link over which the peer is heard, so that a flood over other links does not hide
/// a newcomer. A link that is opened anew may have the allowance of one that has used it up, so each peer in the mesh has a small
/// one as well, which is taken from a reserve that all of them share. Everything is stored, so what is hidden can be read later.
package final class UnknownPeerLimiter: Sendable {
    /// An allowance that is used up by output and grows with time.
    package struct Allowance {
        package let burst: Int
        let perSecond: Double
        /// The least allowance with which output is shown again after some was hidden.
        let toResume: Int
        /// The allowance of one link of the mesh: its burst, and its growth with time.
        let ofLink: (burst: Double, perSecond: Double)
        /// The allowance of one peer of the mesh within the reserve.
        let ofAuthor: (burst: Double, perSecond: Double)
        /// The part of the output beyond the burst that only peers with an allowance of their own use; it is filled up first.
        let reserve: Double

        /// Rows on the screen: a flood causes few notices that some are hidden.
        package static let rows = Allowance(
            burst: 20, perSecond: 5, toResume: 20, ofLink: (4, 0.1), ofAuthor: (4, 0.1), reserve: 20)
        /// Bytes of JSON events: little of a disk. Short events find room between long ones, so that a flood of long ones does
        /// not hide them.
        package static let bytes = Allowance(
            burst: 1 << 20, perSecond: 65_536, toResume: 0, ofLink: (65_536, 2_048), ofAuthor: (20_480, 1_024),
            reserve: 262_144)
    }

    package enum Verdict: Equatable {
        case shown
        /// Shown, after this many lines or events that were not.
        case shownAfter(hiddenCount: Int)
        /// The first that is not shown.
        case firstHidden
        case hidden
    }

    private struct Link {
        var bucket: TokenBucket
        /// Peers that get an allowance of their own: identities cost nothing.
        var newAuthors: TokenBucket
    }

    private struct State {
        /// The common allowance, and the reserve.
        var bucket: TokenBucket
        var links: [MeshLinkShare: Link] = [:]
        var authors: [PeerID: TokenBucket] = [:]
        var hiddenCount = 0
        /// When what was hidden was last counted.
        var lastCount: MonotonicInstant?
    }

    /// Limit on the links with an allowance in use.
    private static let maximumLinkCount = 256
    /// Limit on the peers with an allowance in use.
    private static let maximumAuthorCount = 256
    /// Peers of one link that get an allowance of their own, at once and in a second: those of twelve links use up less than the
    /// output that all peers may cause.
    private static let newAuthorBurst = 8.0
    private static let newAuthorsPerSecond = 0.25

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
                bucket: TokenBucket(
                    capacity: Double(allowance.burst) + allowance.reserve, perSecond: allowance.perSecond, now: clock())))
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
            guard state.bucket.balance(now: now) >= Double(needed) + allowance.reserve,
                state.bucket.consume(Double(needed), now: now)
            else {
                if let share, consume(cost, of: share, &state, now: now) { return .shown }
                if let author, consume(cost, of: author, over: share, &state, now: now) { return .shown }
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
        if state.links[share] == nil {
            if state.links.count >= Self.maximumLinkCount {
                state.links = state.links.filter { _, link in
                    var link = link
                    return link.bucket.balance(now: now) < allowance.ofLink.burst
                        || link.newAuthors.balance(now: now) < Self.newAuthorBurst
                }
            }
            guard state.links.count < Self.maximumLinkCount else { return false }
            state.links[share] = Link(
                bucket: TokenBucket(capacity: allowance.ofLink.burst, perSecond: allowance.ofLink.perSecond, now: now),
                newAuthors: TokenBucket(capacity: Self.newAuthorBurst, perSecond: Self.newAuthorsPerSecond, now: now))
        }
        return state.links[share]?.bucket.consume(Double(cost), now: now) == true
    }

    /// Consumes from the allowance of a peer, which a link gives to few new ones.
    private func consume(
        _ cost: Int, of author: PeerID, over share: MeshLinkShare?, _ state: inout State, now: MonotonicInstant
    ) -> Bool {
        let cost = Double(cost)
        guard cost <= allowance.ofAuthor.burst, state.bucket.balance(now: now) >= cost else { return false }
        if state.authors[author] == nil {
            if state.authors.count >= Self.maximumAuthorCount {
                state.authors = state.authors.filter { _, bucket in
                    var bucket = bucket
                    return bucket.balance(now: now) < allowance.ofAuthor.burst
                }
            }
            guard state.authors.count < Self.maximumAuthorCount, let share,
                state.links[share]?.newAuthors.consume(now: now) == true
            else { return false }
            state.authors[author] = TokenBucket(
                capacity: allowance.ofAuthor.burst, perSecond: allowance.ofAuthor.perSecond, now: now)
        }
        guard state.authors[author]?.consume(cost, now: now) == true else { return false }
        return state.bucket.consume(cost, now: now)
    }
}
