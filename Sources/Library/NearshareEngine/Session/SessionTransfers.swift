internal import NearshareBase

/// The transfers of a session in both directions, as far as leaving the session has to wait for them.
struct SessionTransfers: Sendable {
    typealias Entry = (member: PeerID, transfer: Transfer)

    private var entries: [Entry] = []

    /// Transfers that have not ended. A peer's offer that the user has not answered is none.
    var running: [Entry] {
        entries.filter { entry in
            let progress = entry.transfer.snapshot
            switch progress.phase {
            case .ended: return false
            case .waiting: return progress.direction == .outgoing
            case .connecting, .comparing, .moving, .finishing: return true
            }
        }
    }

    mutating func insert(_ transfer: Transfer, with member: PeerID) {
        entries.removeAll { if case .ended = $0.transfer.snapshot.phase { true } else { false } }
        entries.append((member, transfer))
    }
}
