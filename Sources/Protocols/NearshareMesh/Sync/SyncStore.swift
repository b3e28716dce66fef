internal import NearshareBase

/// Public packets that neighbours may have missed (bitchat specification, section 10): the latest announcement of each sender, and
/// messages; files; or fragments of files.
struct SyncStore: Sendable {
    /// Limits of a store (M6).
    struct Limits: Sendable {
        var packetCount: Int
        var byteCount: Int
        /// Packets of one sender besides its announcement, so that no sender can evict those of others.
        var packetCountPerSender: Int

        static let texts = Limits(packetCount: 500, byteCount: 4 << 20, packetCountPerSender: 100)
        static let files = Limits(packetCount: 32, byteCount: 4 << 20, packetCountPerSender: 8)
        /// Any peer can write a fragment in another's name, so a sender has no share of its own.
        static let fragments = Limits(packetCount: 2_048, byteCount: 2 << 20, packetCountPerSender: 2_048)
    }

    private let limits: Limits
    /// The largest parameter that the phone apps use.
    private static let maximumFilterParameter = 20

    /// The machine over whose links packets came.
    private enum Source: Hashable {
        /// This node's packets, and those of contacts.
        case known
        case machine(MeshLinkSource)
        /// Closed links to machines without a known address: together, so that one that comes and goes is not several.
        case gone
    }

    /// The packets that share one part of the store: those of one link, and those of all closed links of a machine.
    private struct Share: Hashable {
        var source: Source
        /// nil once the link is closed.
        var link: MeshLinkID?
    }

    private struct Entry: Sendable {
        var id: MeshPacketID
        var frame: MeshFrame
        var share: Share

        var sender: PeerID { frame.packet.sender }
        var isAnnouncement: Bool { frame.packet.type == .announce }

        func isMessage(of sender: PeerID) -> Bool { !isAnnouncement && self.sender == sender }
    }

    /// The oldest first.
    private var entries: [Entry] = []
    /// The senders whose announcement is stored.
    private var announced: Set<PeerID> = []
    private(set) var byteCount = 0
    /// The ids of the stored packets.
    private var ids: Set<MeshPacketID> = []
    var count: Int { entries.count }

    init(_ limits: Limits = .texts) {
        self.limits = limits
    }

    /// Stores a packet. When the store is full, the machine that brought most loses a packet, there the link that brought most,
    /// closed ones together, and there the sender with most the oldest (M6).
    /// - Parameters:
    ///   - link: the link over which its sender was announced; nil for this node's own packets.
    ///   - source: the machine at the other end of the link.
    ///   - isKnown: its sender is a contact of the user.
    mutating func insert(
        _ frame: MeshFrame, from link: MeshLinkID? = nil, of source: MeshLinkSource? = nil, isKnown: Bool = false
    ) {
        let id = MeshPacketID(of: frame.packet)
        guard !ids.contains(id), frame.heldByteCount <= limits.byteCount / 4 else { return }
        let packet = frame.packet
        if packet.type == .announce {
            removeAnnouncement(of: packet.sender)
        } else if entries.count(where: { $0.isMessage(of: packet.sender) }) >= limits.packetCountPerSender,
            let oldest = entries.firstIndex(where: { $0.isMessage(of: packet.sender) })
        {
            remove(at: oldest)
        }
        let share =
            link.flatMap { isKnown ? nil : Share(source: .machine(source ?? .link($0)), link: $0) }
            ?? Share(source: .known, link: nil)
        entries.append(Entry(id: id, frame: frame, share: share))
        ids.insert(id)
        if packet.type == .announce { announced.insert(packet.sender) }
        byteCount += frame.heldByteCount
        while entries.count > limits.packetCount || byteCount > limits.byteCount { removeOne() }
    }

    private mutating func removeOne() {
        let isOverCount = entries.count > limits.packetCount
        func largest<Key: Hashable>(_ key: (Entry) -> Key?) -> Key? {
            var sizes: [Key: Int] = [:]
            for entry in entries {
                if let key = key(entry) { sizes[key, default: 0] += isOverCount ? 1 : entry.frame.heldByteCount }
            }
            return sizes.max { $0.value < $1.value }?.key
        }
        let source = largest { $0.share.source }
        let share = largest { $0.share.source == source ? $0.share : nil }
        let sender = largest { $0.share == share ? $0.sender : nil }
        remove(at: entries.firstIndex { $0.share == share && $0.sender == sender } ?? 0)
    }

    private mutating func remove(at index: Int) {
        let entry = entries.remove(at: index)
        byteCount -= entry.frame.heldByteCount
        ids.remove(entry.id)
        if entry.isAnnouncement { announced.remove(entry.sender) }
    }

    private mutating func removeAll(where isObsolete: (Entry) -> Bool) {
        let countBefore = entries.count
        entries.removeAll(where: isObsolete)
        guard entries.count < countBefore else { return }
        byteCount = entries.reduce(0) { $0 + $1.frame.heldByteCount }
        ids = Set(entries.lazy.map(\.id))
        announced = Set(entries.lazy.filter(\.isAnnouncement).map(\.sender))
    }

    /// Counts the packets of a closed link with those of its machine's other closed links.
    mutating func closeLink(_ link: MeshLinkID) {
        for index in entries.indices where entries[index].share.link == link {
            entries[index].share.link = nil
            if case .machine(.link) = entries[index].share.source { entries[index].share.source = .gone }
        }
    }

    mutating func removeAnnouncement(of sender: PeerID) {
        guard announced.contains(sender),
            let index = entries.firstIndex(where: { $0.isAnnouncement && $0.sender == sender })
        else { return }
        remove(at: index)
    }

    mutating func removePackets(of sender: PeerID) { removeAll { $0.sender == sender } }

    mutating func expire(now: WallTime) {
        removeAll { entry in
            let lifetime =
                entry.frame.packet.type == .message ? PublicSync.messageLifetime : AnnouncementVerdict.maximumAge
            let (age, isOverflow) = now.milliseconds.subtractingReportingOverflow(
                Int64(clamping: entry.frame.packet.timestamp))
            return !isOverflow && age > lifetime.components.seconds * 1000
        }
    }

    /// A request for packets that are not in this store.
    var request: MeshSyncRequest {
        // A false positive hides a packet from each request until the filter changes, so few packets get a sharper filter.
        let parameter = (GolombFilter.safeParameter...Self.maximumFilterParameter).last { parameter in
            GolombFilter.capacity(parameter: parameter, byteCount: GolombFilter.requestByteCount) >= entries.count
        }
        return MeshSyncRequest(
            filter: GolombFilter(
                hashes: entries.reversed().map(\.id.filterHash), parameter: parameter ?? GolombFilter.safeParameter),
            wanted: [.announcements, .messages])
    }

    /// The packets that the requesting neighbour lacks, at most `limit` packets of `byteLimit` bytes together: of each link in
    /// turn, and there of each sender, the newest first. Announcements come first in the result, because the others cannot be
    /// checked without them.
    func missing(for request: MeshSyncRequest, limit: Int, byteLimit: Int) -> [MeshFrame] {
        let members = request.filter.values
        let wanted = request.wanted ?? [.announcements, .messages]
        func isOfWantedSet(_ packet: MeshPacket) -> Bool {
            guard packet.type == .fragment, let ids = request.fragmentIDs else { return true }
            return (try? MeshFragment(decoding: packet.payload)).map { ids.contains($0.id) } ?? false
        }
        let missing = entries.filter { entry in
            return wanted.contains(Self.kind(of: entry.frame.packet)) && isOfWantedSet(entry.frame.packet)
                && entry.frame.packet.timestamp >= (request.since ?? 0)
                && !members.contains(GolombFilter.value(of: entry.id.filterHash, range: request.filter.range))
        }
        var room = byteLimit
        var selected: [Entry] = []
        for entry in Self.inTurn(missing) where selected.count < limit && room >= entry.frame.bytes.count {
            room -= entry.frame.bytes.count
            selected.append(entry)
        }
        return selected.filter(\.isAnnouncement).map(\.frame) + selected.filter { !$0.isAnnouncement }.map(\.frame).reversed()
    }

    private static func kind(of packet: MeshPacket) -> MeshSyncRequest.Wanted {
        switch packet.type {
        case .announce: .announcements
        case .fragment: .fragments
        case .fileTransfer: .files
        default: .messages
        }
    }

    private static func inTurn(_ entries: [Entry]) -> [Entry] {
        var bySender: [PeerID: Int] = [:]
        let newestFirst = entries.reversed().map { entry -> (turn: Int, entry: Entry) in
            let turn = bySender[entry.sender, default: 0]
            bySender[entry.sender] = turn + 1
            return (turn, entry)
        }
        var byShare: [Share: Int] = [:]
        // The position breaks ties, so that the order stays that of the store.
        return newestFirst.enumerated().sorted { ($0.element.turn, $0.offset) < ($1.element.turn, $1.offset) }
            .map { (_, element) -> (turn: Int, entry: Entry) in
                let turn = byShare[element.entry.share, default: 0]
                byShare[element.entry.share] = turn + 1
                return (turn, element.entry)
            }
            .enumerated().sorted { ($0.element.turn, $0.offset) < ($1.element.turn, $1.offset) }.map(\.element.entry)
    }
}
