internal import NearshareBase

/// The received packets, so that each is processed and relayed once.
///
/// Packets whose signature was checked have filters of their own. A flood of others cannot make these drop keys, and so cannot
/// make them refuse genuine packets (M15). Others may be accepted again: a replay gains an attacker no more than a new packet.
///
/// In each filter the hosts that bring packets compete for room, and what a full filter drops makes it refuse old packets from the
/// same host alone (``DuplicateFilter``). Signed packets of contacts count apart, whichever host brings them. So made-up keys
/// behind one link neither shorten the time for which the lines that come over other links may travel, nor refuse their answers to
/// sync requests.
///
/// A signed packet that the flooding host was the first to bring may come in once more from each other host, and from one that has
/// closed its links meanwhile, within the time that its timestamp allows. That gains little: conversations know a line by its id,
/// and show it once; a public file is offered as if its sender had sent it again; a leave or announcement that is older than the
/// latest one has no effect (M3); and the copy is relayed at the rates of its sender and of the link that brings it, over no more
/// hops than any other.
struct PacketHistory: Sendable {
    /// Packets whose signatures were checked. Their rate is limited on arrival, so that the filter mostly holds those of several
    /// links for as long as their timestamps are accepted.
    private(set) var authentic = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    private(set) var packets = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    private(set) var fragments = DuplicateFilter(capacity: 50_000, lifetime: .seconds(1200))
    /// Ids are kept for as long as neighbours may answer with old messages.
    private(set) var messages = DuplicateFilter(capacity: 10_000, lifetime: PublicSync.messageLifetime + .seconds(300))

    /// - Parameters:
    ///   - source: the host that brought the packet.
    ///   - isKnown: its sender is a contact of the user. Counts only where the signature was checked.
    ///   - isAuthentic: the signature was checked, and the packet is not for one peer.
    mutating func record(
        _ key: PacketKey, _ packet: MeshPacket, from source: PacketSource, isKnown: Bool = false, isAuthentic: Bool = false,
        now: Moment
    ) {
        let signer: PacketSource = isKnown ? .known : source
        return switch packet.type {
        case .fragment: fragments.insert(key, from: source, at: now)
        case .message where isAuthentic: messages.insert(key, from: signer, at: now)
        default:
            // A packet that could not be checked yet, for lack of a key, may be requested again later.
            if isAuthentic { authentic.insert(key, from: signer, at: now) } else { packets.insert(key, from: source, at: now) }
        }
    }

    /// Counts what a host has brought whose links are all closed towards ``PacketSource/gone``.
    mutating func close(_ host: MeshLinkSource) {
        authentic.close(.host(host))
        packets.close(.host(host))
        fragments.close(.host(host))
        messages.close(.host(host))
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

    /// - Parameters:
    ///   - source: the host that brings the packet.
    ///   - isKnown: its sender, as it claims, is a contact of the user.
    ///   - isSyncResponse: the packet answers a request of this node, so it may be old.
    func isDuplicate(
        _ key: PacketKey, _ packet: MeshPacket, from source: PacketSource, isKnown: Bool = false, isSyncResponse: Bool,
        now: MonotonicInstant
    ) -> Bool {
        let signer: PacketSource = isKnown ? .known : source
        return switch packet.type {
        // Removed entries may be accepted again: a file takes long, and its fragments are worth little by themselves.
        case .fragment: fragments.contains(key)
        // Regardless of their age, because neighbours are asked for old ones.
        case .message:
            messages.contains(key) || messages.mayBeReplay(timestamp: packet.timestamp, from: signer, now: now)
                || (!isSyncResponse && packets.contains(key))
        default:
            authentic.contains(key) || packets.contains(key)
                || (!isSyncResponse && packet.isPublic
                    && authentic.mayBeReplay(timestamp: packet.timestamp, from: signer, now: now))
        }
    }
}
