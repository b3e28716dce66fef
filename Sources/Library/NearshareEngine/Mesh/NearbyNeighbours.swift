internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// The nearby nodes, and those among them to which a task maintains a link.
final class NearbyNeighbours: Sendable {
    private struct State {
        var nearby: [PeerID: NearbyPeer] = [:]
        /// The promise of each node with a task, which is fulfilled when the node leaves, or has other addresses.
        var claimed: [PeerID: Promise<Void>] = [:]
    }

    private let state = Mutex(State())

    /// Returns a claimed node and the promise of its next change. For a node that has left, ends the claim in the same step, so
    /// that a node that returns at this moment is claimed anew.
    /// - Returns: nil for a node that has left.
    func claimedPeer(_ id: PeerID) -> (peer: NearbyPeer, change: Promise<Void>)? {
        state.withLock { state in
            guard let peer = state.nearby[id] else {
                state.claimed[id] = nil
                return nil
            }
            let change = Promise<Void>()
            state.claimed[id] = change
            return (peer, change)
        }
    }

    func isNearby(_ id: PeerID) -> Bool { state.withLock { $0.nearby[id] != nil } }

    func remove(_ id: PeerID) {
        state.withLock { state in
            state.nearby[id] = nil
            return state.claimed[id]
        }?.fulfil()
    }

    /// Adds or updates a nearby node.
    /// - Returns: whether the caller is to maintain a link to it: no task does, and the limit is not reached.
    func claim(_ peer: NearbyPeer, limit: Int) -> Bool {
        let (isNew, change) = state.withLock { state -> (Bool, Promise<Void>?) in
            let known = state.nearby.updateValue(peer, forKey: peer.id)
            if let change = state.claimed[peer.id] { return (false, known?.addresses == peer.addresses ? nil : change) }
            guard state.claimed.count < limit else { return (false, nil) }
            state.claimed[peer.id] = Promise()
            return (true, nil)
        }
        change?.fulfil()
        return isNew
    }
}
