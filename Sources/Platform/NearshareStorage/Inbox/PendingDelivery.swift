internal import FoundationEssentials
internal import NearshareBase
internal import NearshareInterfaces

/// The answer of a worker that has moved items from the spool into the inbox.
struct PendingDelivery: Codable {
    private struct Item: Codable {
        var number: UInt32
        var kind: UInt8
        var claimedName: [UInt8]
        var path: String
        var stagedPath: String
        var size: UInt64
    }

    private var items: [Item]

    private static let maximumByteCount = 16 << 20
    /// A worker may have to copy items to another disk.
    private static let timeout = Duration.seconds(3600)

    /// Starts a worker and waits for its answer.
    static func run(by launcher: any WorkerLauncher) -> [DeliveredItem] {
        guard let worker = try? WorkerConnection(launcher, .deliverPending),
            let bytes = worker.receiveAll(limit: maximumByteCount, by: SystemClock.monotonic() + timeout),
            let answer = try? JSONDecoder().decode(PendingDelivery.self, from: Data(bytes))
        else { return [] }
        return answer.items.compactMap { item in
            guard let name = ClaimedFileName(bytes: item.claimedName) else { return nil }
            return DeliveredItem(
                item: item.number, kind: OfferedItem.Kind(rawValue: item.kind) ?? .file, claimedName: name, path: item.path,
                isInInbox: true, size: item.size, detectedType: nil, typeWarning: nil, stagedPath: item.stagedPath)
        }
    }

    /// Sends the answer.
    static func answer(_ delivered: [DeliveredItem], on socket: Int32) {
        let items = delivered.map { item in
            Item(
                number: item.item, kind: item.kind.rawValue, claimedName: item.claimedName.bytes, path: item.path,
                stagedPath: item.stagedPath ?? "", size: item.size)
        }
        guard let bytes = try? JSONEncoder().encode(PendingDelivery(items: items)) else { return }
        try? DescriptorIO.sendAll(Array(bytes), to: socket)
    }
}
