internal import NearshareBase

/// The received packets, so that each is processed and relayed once.
struct PacketHistory: Sendable {
    private(set) var packets = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    private(set) var fragments = DuplicateFilter(capacity: 50_000, lifetime: .seconds(1200))
    /// Ids are kept for as long as neighbours may answer with old messages.
    private(set) var messages = DuplicateFilter(capacity: 10_000, lifetime: PublicSync.messageLifetime + .seconds(300))

    mutating func record(_ key: PacketKey, _ packet: MeshPacket, isHandled: Bool = true, now: Moment) {
        switch packet.type {
        case .fragment: fragments.insert(key, at: now)
        // A message that could not be checked yet, for lack of a key, may be requested again later.
        case .message where isHandled: messages.insert(key, at: now)
        default: packets.insert(key, at: now)
        }
    }

    /// - Parameter isSyncResponse: the packet answers a request of this node, so it may be old.
    func isDuplicate(_ key: PacketKey, _ packet: MeshPacket, isSyncResponse: Bool) -> Bool {
        switch packet.type {
        // Removed entries may be accepted again: a file takes long, and its fragments are worth little by themselves.
        case .fragment: fragments.contains(key)
        // Regardless of their age, because neighbours are asked for old ones.
        case .message:
            messages.contains(key) || messages.isBeforeWindow(timestamp: packet.timestamp)
                || (!isSyncResponse && packets.contains(key))
        default: packets.contains(key) || (!isSyncResponse && packets.isBeforeWindow(timestamp: packet.timestamp))
        }
    }
}
