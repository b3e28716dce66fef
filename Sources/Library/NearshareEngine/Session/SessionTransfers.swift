internal import NearshareBase

/// The transfers of a session, in both directions, whose ends were not reported yet. Leaving the session waits for them.
struct SessionTransfers: Sendable {
    typealias Entry = (member: PeerID, transfer: Transfer)

    private var entries: [Entry] = []

    /// The transfers that have not ended, without the offers of peers that the user has not answered.
    var running: [Entry] { entries.filter { Self.isRunning($0.transfer) } }

    private static func isRunning(_ transfer: Transfer) -> Bool {
        let progress = transfer.snapshot
        return switch progress.phase {
        case .ended: false
        case .waiting: progress.direction == .outgoing
        case .connecting, .comparing, .moving, .finishing: true
        }
    }

    mutating func append(_ transfer: Transfer, with member: PeerID) { entries.append((member, transfer)) }

    /// Removes a transfer whose end is about to be reported.
    /// - Returns: false when it was removed before.
    mutating func remove(_ transfer: Transfer) -> Bool {
        guard let index = entries.firstIndex(where: { $0.transfer === transfer }) else { return false }
        entries.remove(at: index)
        return true
    }

    /// Removes the ``running`` transfers, whose ends are about to be reported.
    /// - Returns: the removed transfers.
    mutating func removeRunning() -> [Entry] {
        let removed = running
        entries.removeAll { entry in removed.contains { $0.transfer === entry.transfer } }
        return removed
    }
}
