internal import NearshareBase

/// The most recent transfer ids, at most ``capacity`` of them.
struct RecentTransferIDs: Sendable {
    static let capacity = 1024

    private var order: [TransferID] = []
    private var known: Set<TransferID> = []

    func contains(_ id: TransferID) -> Bool { known.contains(id) }

    mutating func insert(_ id: TransferID) {
        guard known.insert(id).inserted else { return }
        order.append(id)
        if order.count > Self.capacity { known.remove(order.removeFirst()) }
    }
}
