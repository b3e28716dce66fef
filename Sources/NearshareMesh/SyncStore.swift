internal import NearshareBase
internal import NearshareWire

/// Public packets that neighbours may have missed: the latest announcement of each sender, and messages
/// (bitchat specification, section 10).
struct SyncStore {
    private static let capacity = 500
    private static let announcementLifetime = Duration.seconds(900)
    private static let messageLifetime = Duration.seconds(21_600)

    private struct Entry {
        var id: MeshPacketID
        var frame: MeshFrame
    }

    /// The oldest first.
    private var entries: [Entry] = []

    mutating func insert(_ frame: MeshFrame, id: MeshPacketID) {
        guard !entries.contains(where: { $0.id == id }) else { return }
        if frame.packet.type == .announce {
            entries.removeAll { $0.frame.packet.type == .announce && $0.frame.packet.sender == frame.packet.sender }
        }
        if entries.count >= Self.capacity { entries.removeFirst() }
        entries.append(Entry(id: id, frame: frame))
    }

    mutating func removeAnnouncement(of sender: PeerID) {
        entries.removeAll { $0.frame.packet.type == .announce && $0.frame.packet.sender == sender }
    }

    mutating func expire(now: WallTime) {
        entries.removeAll { entry in
            let lifetime = entry.frame.packet.type == .announce ? Self.announcementLifetime : Self.messageLifetime
            let age = now.milliseconds - Int64(clamping: entry.frame.packet.timestamp)
            return age > lifetime.components.seconds * 1000
        }
    }

    /// What we have, for asking a neighbour for the rest.
    var request: MeshSyncRequest {
        MeshSyncRequest(
            filter: GolombFilter(hashes: entries.reversed().map(\.id.filterHash)), wanted: [.announcements, .messages])
    }

    /// What the asking neighbour lacks, at most `limit`, the newest last.
    func missing(for request: MeshSyncRequest, limit: Int) -> [MeshFrame] {
        let members = request.filter.values
        let wanted = request.wanted ?? [.announcements, .messages]
        return entries.filter { entry in
            let kind: MeshSyncRequest.Wanted = entry.frame.packet.type == .announce ? .announcements : .messages
            return wanted.contains(kind) && entry.frame.packet.timestamp >= (request.since ?? 0)
                && !members.contains(GolombFilter.value(of: entry.id.filterHash, range: request.filter.range))
        }.suffix(limit).map(\.frame)
    }
}
