internal import NearshareBase

/// Public packets that neighbours may have missed: the latest announcement of each sender, and messages (bitchat specification,
/// section 10).
struct SyncStore: Sendable {
    private static let capacity = 500
    private static let byteCapacity = 4 << 20
    /// Limit on messages of one sender, so that no sender can evict those of others (M6).
    private static let capacityPerSender = 100

    private struct Entry: Sendable {
        var id: MeshPacketID
        var frame: MeshFrame

        func isMessage(of sender: PeerID) -> Bool { frame.packet.type != .announce && frame.packet.sender == sender }
    }

    /// The oldest first.
    private var entries: [Entry] = []
    private(set) var byteCount = 0
    var count: Int { entries.count }

    mutating func insert(_ frame: MeshFrame) {
        let id = MeshPacketID(of: frame.packet)
        guard !entries.contains(where: { $0.id == id }) else { return }
        let packet = frame.packet
        if packet.type == .announce {
            removeAnnouncement(of: packet.sender)
        } else if entries.count(where: { $0.isMessage(of: packet.sender) }) >= Self.capacityPerSender,
            let oldest = entries.firstIndex(where: { $0.isMessage(of: packet.sender) })
        {
            remove(at: oldest)
        }
        entries.append(Entry(id: id, frame: frame))
        byteCount += frame.bytes.count
        while entries.count > Self.capacity || byteCount > Self.byteCapacity { remove(at: 0) }
    }

    private mutating func remove(at index: Int) { byteCount -= entries.remove(at: index).frame.bytes.count }

    private mutating func removeAll(where isObsolete: (Entry) -> Bool) {
        entries.removeAll(where: isObsolete)
        byteCount = entries.reduce(0) { $0 + $1.frame.bytes.count }
    }

    mutating func removeAnnouncement(of sender: PeerID) {
        removeAll { $0.frame.packet.type == .announce && $0.frame.packet.sender == sender }
    }

    mutating func expire(now: WallTime) {
        removeAll { entry in
            let lifetime = entry.frame.packet.type == .announce ? AnnouncementVerdict.maximumAge : PublicSync.messageLifetime
            let age = now.milliseconds - Int64(clamping: entry.frame.packet.timestamp)
            return age > lifetime.components.seconds * 1000
        }
    }

    /// A request for packets that are not in this store.
    var request: MeshSyncRequest {
        MeshSyncRequest(
            filter: GolombFilter(hashes: entries.reversed().map(\.id.filterHash)), wanted: [.announcements, .messages])
    }

    /// The newest packets that the requesting neighbour lacks, at most `limit` packets of `byteLimit` bytes together.
    /// Announcements come first, because the others cannot be checked without them.
    func missing(for request: MeshSyncRequest, limit: Int, byteLimit: Int) -> [MeshFrame] {
        let members = request.filter.values
        let wanted = request.wanted ?? [.announcements, .messages]
        let missing = entries.filter { entry in
            let kind: MeshSyncRequest.Wanted = entry.frame.packet.type == .announce ? .announcements : .messages
            return wanted.contains(kind) && entry.frame.packet.timestamp >= (request.since ?? 0)
                && !members.contains(GolombFilter.value(of: entry.id.filterHash, range: request.filter.range))
        }.suffix(limit).map(\.frame)
        var room = byteLimit
        let newest = missing.reversed().prefix { frame in
            room -= frame.bytes.count
            return room >= 0
        }.reversed()
        return newest.filter { $0.packet.type == .announce } + newest.filter { $0.packet.type != .announce }
    }
}
