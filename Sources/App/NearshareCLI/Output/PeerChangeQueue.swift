internal import Nearshare

/// The changes of the peers nearby that are yet to be written. An announcement costs nothing, so a flood of them is merged: of each
/// peer the last state is written, at a limited rate, and known peers come first.
struct PeerChangeQueue {
    /// A change with respect to the state that was written before.
    struct Change: Equatable {
        /// nil for a peer that was absent.
        let before: NearbyPeer?
        /// nil for a peer that is absent now.
        let after: NearbyPeer?
    }

    /// Changes that are written at once: those of the peers of a large network when the program starts.
    static let burst = 256
    /// Time between two changes that are written after the burst.
    static let interval = Duration.milliseconds(100)

    private var written: [PeerID: NearbyPeer] = [:]
    private var current: [PeerID: NearbyPeer] = [:]
    private var known: [PeerID] = []
    private var others: [PeerID] = []
    private var waiting: Set<PeerID> = []
    private var allowance: TokenBucket

    init(now: MonotonicInstant) {
        allowance = TokenBucket(capacity: Double(Self.burst), perSecond: .seconds(1) / Self.interval, now: now)
    }

    var isEmpty: Bool { waiting.isEmpty }

    /// - Parameter isKnown: whether the user knows the peer that the change claims to be of.
    mutating func append(_ change: NearbyPeerTable.Change, isKnown: Bool) {
        let id = change.peer.id
        current[id] = change.isPresent ? change.peer : nil
        guard waiting.insert(id).inserted else { return }
        if isKnown { known.append(id) } else { others.append(id) }
    }

    /// Removes the next change.
    /// - Returns: nil when none waits, or the rate does not permit one now.
    mutating func next(now: MonotonicInstant) -> Change? {
        while let id = known.first ?? others.first {
            let change = Change(before: written[id], after: current[id])
            guard change.before == change.after || allowance.consume(now: now) else { return nil }
            if known.isEmpty { others.removeFirst() } else { known.removeFirst() }
            waiting.remove(id)
            written[id] = change.after
            if change.before != change.after { return change }
        }
        return nil
    }
}
