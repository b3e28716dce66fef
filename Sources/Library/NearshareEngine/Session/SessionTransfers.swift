internal import NearshareBase

/// The transfers of a session in both directions whose ends are not reported: leaving the session has to wait for them.
struct SessionTransfers: Sendable {
    typealias Entry = (member: PeerID, transfer: Transfer)

    private var entries: [Entry] = []

    /// Transfers that have not ended. A peer's offer that the user has not answered is none.
    var running: [Entry] { entries.filter { Self.isRunning($0.transfer) } }

    private static func isRunning(_ transfer: Transfer) -> Bool {
        let progress = transfer.snapshot
        return switch progress.phase {
        case .ended: false
        case .waiting: progress.direction == .outgoing
        case .connecting, .comparing, .moving, .finishing: true
        }
    }

    mutating func insert(_ transfer: Transfer, with member: PeerID) { entries.append((member, transfer)) }

    /// Removes a transfer whose end is about to be reported.
    /// - Returns: false when that was done before.
    mutating func remove(_ transfer: Transfer) -> Bool {
        guard let index = entries.firstIndex(where: { $0.transfer === transfer }) else { return false }
        entries.remove(at: index)
        return true
    }

    /// Removes the transfers that have not ended, whose ends are about to be reported.
    mutating func removeRunning() -> [Entry] {
        let removed = running
        entries.removeAll { entry in removed.contains { $0.transfer === entry.transfer } }
        return removed
    }
}
