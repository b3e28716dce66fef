internal import NearshareBase

/// The received packets, so that each is processed and relayed once.
///
/// Packets whose signature was checked have a filter of their own. A flood of others cannot make it drop keys, and so cannot
/// make it refuse genuine packets (M15). Others may be accepted again: a replay gains an attacker no more than a new packet.
struct PacketHistory: Sendable {
    /// Packets whose signatures were checked. Their rate is limited on arrival, so that the filter holds those of several links for
    /// as long as their timestamps are accepted.
    private(set) var authentic = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    private(set) var packets = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    private(set) var fragments = DuplicateFilter(capacity: 50_000, lifetime: .seconds(1200))
    /// Ids are kept for as long as neighbours may answer with old messages.
    private(set) var messages = DuplicateFilter(capacity: 10_000, lifetime: PublicSync.messageLifetime + .seconds(300))

    /// - Parameter isAuthentic: the signature was checked, and the packet is not for one peer.
    mutating func record(_ key: PacketKey, _ packet: MeshPacket, isAuthentic: Bool = false, now: Moment) {
        switch packet.type {
        case .fragment: fragments.insert(key, at: now)
        case .message where isAuthentic: messages.insert(key, at: now)
        default:
            // A packet that could not be checked yet, for lack of a key, may be requested again later.
            if isAuthentic { authentic.insert(key, at: now) } else { packets.insert(key, at: now) }
        }
    }

    /// The ttl with which a packet was last relayed, 0 if it was not; nil for an unknown packet.
    func relayedTTL(of key: PacketKey, _ packet: MeshPacket) -> UInt8? {
        switch packet.type {
        case .fragment: fragments.relayedTTL(of: key)
        case .message: [messages.relayedTTL(of: key), packets.relayedTTL(of: key)].compactMap(\.self).max()
        default: [authentic.relayedTTL(of: key), packets.relayedTTL(of: key)].compactMap(\.self).max()
        }
    }

    /// Records that a known packet is relayed with a ttl.
    mutating func recordRelay(of key: PacketKey, _ packet: MeshPacket, ttl: UInt8) {
        switch packet.type {
        case .fragment: fragments.recordRelay(of: key, ttl: ttl)
        case .message: messages.recordRelay(of: key, ttl: ttl)
        default: authentic.recordRelay(of: key, ttl: ttl)
        }
        packets.recordRelay(of: key, ttl: ttl)
    }

    /// Whether a packet was recorded as one whose signature was checked.
    func isAuthentic(_ key: PacketKey, _ packet: MeshPacket) -> Bool {
        packet.type == .message ? messages.contains(key) : authentic.contains(key)
    }

    /// - Parameter isSyncResponse: the packet answers a request of this node, so it may be old.
    func isDuplicate(_ key: PacketKey, _ packet: MeshPacket, isSyncResponse: Bool, now: MonotonicInstant) -> Bool {
        switch packet.type {
        // Removed entries may be accepted again: a file takes long, and its fragments are worth little by themselves.
        case .fragment: fragments.contains(key)
        // Regardless of their age, because neighbours are asked for old ones.
        case .message:
            messages.contains(key) || messages.mayBeReplay(timestamp: packet.timestamp, now: now)
                || (!isSyncResponse && packets.contains(key))
        default:
            authentic.contains(key) || packets.contains(key)
                || (!isSyncResponse && packet.isPublic && authentic.mayBeReplay(timestamp: packet.timestamp, now: now))
        }
    }
}
