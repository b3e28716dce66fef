internal import NearshareBase
internal import Synchronization

/// Decides when a peer that was asked for counts as found.
final class PeerFinder: Sendable {
    private struct State {
        var peers: [PeerID: NearbyPeer] = [:]
        var foundAt: MonotonicInstant?
    }

    /// So long a second peer of the same name may take to show itself after the first.
    private static let twinTime = Duration.milliseconds(60)
    /// So long after everything seemed to be there the beginning of a name is taken for somebody.
    private static let prefixTime = Duration.milliseconds(500)

    private let text: String
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Mutex(State())

    init(text: String, clock: @escaping @Sendable () -> MonotonicInstant) {
        self.text = text
        self.clock = clock
    }

    func take(_ nearby: Node.Nearby) {
        let now = clock()
        state.withLock { state in
            switch nearby {
            // By the clock, not by this: a slow network settles late.
            case .settled: break
            case .change(.found(let peer)), .change(.updated(let peer)): state.peers[peer.id] = peer
            case .change(.lost(let peer)): state.peers[peer.id] = nil
            }
            if case .none = PeerTable.find(text, among: state.peers) {
                state.foundAt = nil
            } else if state.foundAt == nil {
                state.foundAt = now
            }
        }
    }

    /// nil while it is too early to tell.
    func verdict() -> Result<NearbyPeer, PeerLookupError>? {
        let now = clock()
        let (peers, found) = state.withLock { ($0.peers, $0.foundAt) }
        guard let found else { return nil }
        switch PeerTable.find(text, among: peers) {
        case .one(let peer, let isExact):
            // An id has no twin.
            let isID = PeerID(hex: text) == peer.id
            let wait = isExact ? Self.twinTime : Self.prefixTime
            return isID || now - found >= wait ? .success(peer) : nil
        case .several(let several): return now - found >= Self.prefixTime ? .failure(.ambiguous(text, several)) : nil
        case .none: return nil
        }
    }

    /// What is known when time has run out.
    func lastVerdict() -> Result<NearbyPeer, PeerLookupError> {
        let peers = state.withLock { $0.peers }
        switch PeerTable.find(text, among: peers) {
        case .one(let peer, _): return .success(peer)
        case .several(let several): return .failure(.ambiguous(text, several))
        case .none: return .failure(.notFound(text, nearby: PeerTable.sorted(peers)))
        }
    }
}
