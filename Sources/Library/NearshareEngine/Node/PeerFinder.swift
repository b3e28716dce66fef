internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Decides when the peer that a text means counts as found: at an event, or at a deadline after one.
final class PeerFinder: Sendable {
    enum Verdict {
        case found(NearbyPeer)
        case failed(NodeError)
        /// No decision before the next event, or before this time.
        case undecided(until: MonotonicInstant?)
    }

    enum Change: Sendable {
        case present(NearbyPeer)
        case absent(PeerID)

        /// A change of the peers nearby. A peer without an address but those that are discarded counts as absent.
        init(_ change: NearbyPeerTable.Change, discarding discarded: Set<LinkAddress>) {
            var peer = change.peer
            peer.addresses.removeAll(where: discarded.contains)
            let isPresent = change.isPresent && (discarded.isEmpty || !peer.addresses.isEmpty)
            self = isPresent ? .present(peer) : .absent(peer.id)
        }
    }

    private enum Wake: Sendable {
        case changed
        case alarm
        case failed(any Error)
    }

    private struct State {
        var peers: [PeerID: NearbyPeer] = [:]
        /// The time since which at least one peer matches; nil where none does.
        var matchStart: MonotonicInstant?
    }

    /// Time for a second peer of the same name to appear, and for the addresses of a peer whose id other hosts announce (D1).
    private static let sameNameTime = Duration.milliseconds(60)
    /// Time for all peers to appear before the beginning of a name is decided.
    private static let prefixTime = Duration.milliseconds(500)
    /// Time for another address to appear where all known ones are to be avoided: a second medium answers within it.
    private static let otherAddressTime = Duration.seconds(2)

    private let text: String
    private let ids: Set<PeerID>
    private let avoidedAddresses: Set<LinkAddress>
    private let settlingTime: Duration
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Mutex(State())

    /// - Parameters:
    ///   - ids: of peers that the user knows by the name, whatever they call themselves now.
    ///   - avoidedAddresses: a peer that is seen at no other address counts only when others have had time to appear.
    ///   - settlingTime: for other peers to appear before a name is decided, where that is longer than the usual time.
    init(
        text: String, knownAs ids: Set<PeerID> = [], avoiding avoidedAddresses: Set<LinkAddress> = [],
        settlingTime: Duration = .zero, clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (self.text, self.ids) = (text, ids)
        self.settlingTime = settlingTime
        self.avoidedAddresses = avoidedAddresses
        self.clock = clock
    }

    func receive(_ change: Change) {
        let now = clock()
        state.withLock { state in
            switch change {
            case .present(let peer): state.peers[peer.id] = peer
            case .absent(let id): state.peers[id] = nil
            }
            if case .none = selection(among: state.peers) {
                state.matchStart = nil
            } else if state.matchStart == nil {
                state.matchStart = now
            }
        }
    }

    private func selection(among peers: [PeerID: NearbyPeer]) -> NameSelection<NearbyPeer> {
        NameSelection(of: text, among: NearbyPeerTable.sorted(peers), knownAs: ids)
    }

    func verdict(at now: MonotonicInstant) -> Verdict {
        let (peers, matchStart) = state.withLock { ($0.peers, $0.matchStart) }
        guard let matchStart else { return .undecided(until: nil) }
        switch selection(among: peers) {
        case .one(let peer, let isExact):
            let delay: Duration =
                if avoidedAddresses.isSuperset(of: peer.addresses), !avoidedAddresses.isEmpty {
                    Self.otherAddressTime
                } else if PeerID(hex: text) == peer.id {
                    // An id belongs to one peer, but its owner may answer later than others announce it.
                    Self.sameNameTime
                } else {
                    // The known peer with this name may answer later than another one that uses the name.
                    max(
                        settlingTime, isExact && (ids.isEmpty || ids.contains(peer.id)) ? Self.sameNameTime : Self.prefixTime)
                }
            let decision = matchStart + delay
            return now >= decision ? .found(peer) : .undecided(until: decision)
        case .several(let several):
            let decision = matchStart + Self.prefixTime
            return now >= decision ? .failed(.ambiguous(text, several)) : .undecided(until: decision)
        case .none: return .undecided(until: nil)
        }
    }

    /// The verdict at the timeout.
    func lastVerdict() -> Result<NearbyPeer, NodeError> {
        let peers = state.withLock { $0.peers }
        switch selection(among: peers) {
        case .one(let peer, _): return .success(peer)
        case .several(let several): return .failure(.ambiguous(text, several))
        case .none: return .failure(.notFound(text, nearby: NearbyPeerTable.sorted(peers)))
        }
    }

    /// The verdict when no more changes are reported.
    private func verdict(after failure: any Error) -> Result<NearbyPeer, NodeError> {
        let verdict = lastVerdict()
        guard case .failure(.notFound) = verdict else { return verdict }
        return .failure(.unavailable("\(failure)"))
    }

    /// Waits for the verdict.
    /// - Parameters:
    ///   - endsAtFailure: whether the search ends when `changes` throws. Otherwise it waits for the deadline.
    ///   - changes: calls its argument with each change, until it is cancelled.
    /// - Throws: ``NodeError/unavailable(_:)`` when the search ends at a failure, and no peer matches until then.
    func find(
        before deadline: MonotonicInstant, endsAtFailure: Bool = false,
        following changes: @escaping @Sendable (@Sendable (Change) -> Void) async throws -> Void
    ) async throws -> NearbyPeer {
        let (wakes, sink) = AsyncStream.makeStream(of: Wake.self)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                do {
                    try await changes { change in
                        self.receive(change)
                        sink.yield(.changed)
                    }
                } catch {
                    sink.yield(.failed(error))
                }
            }
            var alarm: MonotonicInstant?
            sink.yield(.changed)
            for await wake in wakes {
                switch wake {
                case .changed: break
                case .alarm: alarm = nil
                case .failed(let error):
                    try Task.checkCancellation()
                    if endsAtFailure { return try verdict(after: error).get() }
                }
                let now = clock()
                if now >= deadline { break }
                var next = deadline
                switch verdict(at: now) {
                case .found(let peer): return peer
                case .failed(let error): throw error
                case .undecided(let decision): if let decision { next = min(decision, deadline) }
                }
                // One timer at a time, unless an event brings an earlier deadline.
                if let alarm, alarm <= next { continue }
                alarm = next
                group.addTask {
                    try await Task.sleep(for: next - now)
                    sink.yield(.alarm)
                }
            }
            try Task.checkCancellation()
            return try lastVerdict().get()
        }
    }
}
