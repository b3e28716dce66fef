internal import NearshareBase

/// The transfers of a session, in both directions, whose ends were not reported yet. Leaving the session waits for them.
struct SessionTransfers: Sendable {
    typealias Entry = (member: PeerID, transfer: Transfer)

    private var entries: [Entry] = []
    /// The offers and transfers to each member that ended with its link, and since which it was not connected again.
    private var cutCounts: [PeerID: Int] = [:]

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

    /// The transfers of each member that have not ended, and those to it that have ended with its link.
    var undeliveredCounts: [PeerID: Int] {
        var counts = cutCounts
        for (member, transfer) in entries where Self.isRunning(transfer) || Self.isCut(transfer) {
            counts[member, default: 0] += 1
        }
        return counts
    }

    private static func isCut(_ transfer: Transfer) -> Bool {
        let progress = transfer.snapshot
        return progress.direction == .outgoing && progress.phase == .ended(.interrupted)
    }

    /// Forgets what was cut before: the member is connected again, and the program can send it again.
    mutating func recordLink(to member: PeerID) { cutCounts[member] = nil }

    mutating func append(_ transfer: Transfer, with member: PeerID) { entries.append((member, transfer)) }

    /// Removes a transfer whose end is about to be reported.
    /// - Returns: false when it was removed before.
    mutating func remove(_ transfer: Transfer) -> Bool {
        guard let index = entries.firstIndex(where: { $0.transfer === transfer }) else { return false }
        let entry = entries.remove(at: index)
        if Self.isCut(entry.transfer) { cutCounts[entry.member, default: 0] += 1 }
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
