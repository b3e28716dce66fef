internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// The peers that advertise a room.
final class RoomPeers: Sendable {
    private struct State {
        var table: NearbyPeerTable
        var candidates: RoomCandidates
        /// Records of other programs that advertise the room with this node's id.
        var sharedKeyRecords: Set<ServiceSighting.Key> = []
    }

    private let state: Mutex<State>
    private let room: SessionRoom
    private let own: PeerID
    /// The port that this node advertises.
    private let port: UInt16

    init(own: PeerID, port: UInt16, _ room: SessionRoom) {
        (self.own, self.port) = (own, port)
        state = Mutex(State(table: NearbyPeerTable(ownID: own), candidates: RoomCandidates(own: own)))
        self.room = room
    }

    /// - Returns: the peers that have changed, and the addresses at which they are seen now; no address for a peer that is gone.
    func apply(_ event: DiscoveryEvent, now: MonotonicInstant) -> [(peer: PeerID, addresses: [LinkAddress])] {
        var event = event
        if case .seen(let seen) = event {
            let record = PeerTXTRecord(strings: seen.txt)
            if record?.info.pairs[SessionRoom.infoKey] != room.session.hex {
                // The peer may have replaced the record of this room by one of another room.
                event = .gone(seen.key)
            } else if record?.id == own, seen.address.port != port {
                state.withLock { state in
                    if state.sharedKeyRecords.count < Self.maximumSharedKeyRecordCount {
                        state.sharedKeyRecords.insert(seen.key)
                    }
                }
            } else {
                state.withLock { _ = $0.sharedKeyRecords.remove(seen.key) }
            }
        }
        if case .gone(let key) = event { state.withLock { _ = $0.sharedKeyRecords.remove(key) } }
        return state.withLock { state in
            state.table.apply(event).map { change in
                let peer = change.peer
                guard change.isPresent else {
                    state.candidates.recordLoss(of: peer.id, now: now)
                    return (peer.id, [])
                }
                state.candidates.recordSighting(of: peer.id, now: now)
                return (peer.id, peer.addresses)
            }
        }
    }

    /// Whether another program, on this machine or another one, advertises the room with this node's id. Any host can claim that.
    var isKeyShared: Bool { state.withLock { !$0.sharedKeyRecords.isEmpty } }

    /// Limit on these records, which any host can send.
    private static let maximumSharedKeyRecordCount = 16

    func next(now: MonotonicInstant, isMember: (PeerID) -> Bool) -> NearbyPeer? {
        state.withLock { state in
            state.candidates.next(now: now, isMember: isMember).flatMap { state.table.peers[$0] }
        }
    }

    func recordOutcome(_ outcome: RoomCandidates.Outcome, of id: PeerID, now: MonotonicInstant) {
        state.withLock { $0.candidates.recordOutcome(outcome, of: id, now: now) }
    }

    func deadline(isMember: (PeerID) -> Bool) -> MonotonicInstant? {
        state.withLock { $0.candidates.deadline(isMember: isMember) }
    }
}
