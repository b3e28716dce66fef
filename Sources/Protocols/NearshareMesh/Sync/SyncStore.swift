internal import NearshareBase

/// Public packets that neighbours may have missed (bitchat specification, section 10). ``PublicSync`` has three stores: one for
/// messages and the latest announcement of each sender, one for files, and one for fragments of files.
struct SyncStore: Sendable {
    /// Limits of a store (M6).
    struct Limits: Sendable {
        var packetCount: Int
        var byteCount: Int
        /// Packets of one sender besides its announcement, so that no sender can evict those of others.
        var packetCountPerSender: Int

        static let announcementsAndMessages = Limits(packetCount: 500, byteCount: 4 << 20, packetCountPerSender: 100)
        static let files = Limits(packetCount: 32, byteCount: 4 << 20, packetCountPerSender: 8)
        /// Any peer can write a fragment in the name of another, so no sender has a part of its own.
        static let fragments = Limits(packetCount: 2_048, byteCount: 2 << 20, packetCountPerSender: 2_048)

        /// Whether each sender has a part of its own.
        var hasSenderShares: Bool { packetCountPerSender < packetCount }

        /// Limit on one packet: a quarter of the store, so that one packet never displaces all others.
        var packetByteCount: Int { byteCount / 4 }
    }

    private let limits: Limits

    /// The link that brought a packet: one open link, or all closed links of a host together.
    private struct Partition: Hashable {
        /// The host; ``PacketSource/gone`` for one without a known address whose link is closed.
        var source: PacketSource
        /// nil once the link is closed.
        var link: MeshLinkID?
    }

    /// The packets that a full store counts together: at each level the group with most loses packets.
    private enum Group: Hashable {
        case source(PacketSource)
        case link(MeshLinkID?)
        case sender(PeerID)
    }

    private struct Entry: Sendable {
        var id: MeshPacketID
        var frame: MeshFrame
        var partition: Partition

        var sender: PeerID { frame.packet.sender }
        var isAnnouncement: Bool { frame.packet.type == .announce }

        /// Whether it is a packet of the sender besides its announcement.
        func isContent(of sender: PeerID) -> Bool { !isAnnouncement && self.sender == sender }
    }

    /// The oldest first.
    private var entries: [Entry] = []
    /// The senders whose announcement is stored.
    private var announced: Set<PeerID> = []
    private(set) var byteCount = 0
    /// The ids of the stored packets.
    private var ids: Set<MeshPacketID> = []
    var count: Int { entries.count }

    init(_ limits: Limits = .announcementsAndMessages) {
        self.limits = limits
    }

    /// Stores a packet. A full store removes others, each of which is found in three steps (M6):
    ///
    /// 1. the host that brought most;
    /// 2. of its links the one that brought most, closed links counted as one;
    /// 3. of its senders the one with most, whose oldest packet is removed; for fragments the oldest of all.
    ///
    /// Between equals, the oldest packet decides.
    /// - Parameters:
    ///   - link: the link over which its sender was announced; nil for this node's own packets.
    ///   - source: the host at the other end of the link.
    ///   - isKnown: whether its sender is a contact of the user.
    mutating func insert(
        _ frame: MeshFrame, from link: MeshLinkID? = nil, of source: MeshLinkSource? = nil, isKnown: Bool = false
    ) {
        let id = MeshPacketID(of: frame.packet)
        guard !ids.contains(id), frame.heldByteCount <= limits.packetByteCount else { return }
        let packet = frame.packet
        if packet.type == .announce {
            removeAnnouncement(of: packet.sender)
        } else if entries.count(where: { $0.isContent(of: packet.sender) }) >= limits.packetCountPerSender,
            let oldest = entries.firstIndex(where: { $0.isContent(of: packet.sender) })
        {
            remove(at: oldest)
        }
        let partition =
            link.flatMap { isKnown ? nil : Partition(source: .host(source ?? .link($0)), link: $0) }
            ?? Partition(source: .known, link: nil)
        entries.append(Entry(id: id, frame: frame, partition: partition))
        ids.insert(id)
        if packet.type == .announce { announced.insert(packet.sender) }
        byteCount += frame.heldByteCount
        makeRoom()
    }

    /// Removes packets until the limits hold.
    private mutating func makeRoom() {
        let removed = idsToRemove()
        if !removed.isEmpty { removeAll { removed.contains($0.id) } }
    }

    /// The ids of the packets without which the limits hold; empty while they hold.
    private func idsToRemove() -> Set<MeshPacketID> {
        guard entries.count > limits.packetCount || byteCount > limits.byteCount else { return [] }
        var capacity = SharedCapacity<Group>(
            count: entries.count, byteCount: { entries[$0].frame.heldByteCount },
            levels: [{ .source(entries[$0].partition.source) }, { .link(entries[$0].partition.link) }]
                + (limits.hasSenderShares ? [{ .sender(entries[$0].sender) }] : []))
        // Removes 1/64 more than needed: counting all entries takes longer than removing one, and a flood fills the store again and
        // again.
        let (packetCount, byteCount) = (limits.packetCount - limits.packetCount / 64, limits.byteCount - limits.byteCount / 64)
        var removed: Set<MeshPacketID> = []
        while capacity.count > packetCount || capacity.byteCount > byteCount,
            let position = capacity.removeOldest(by: capacity.count > packetCount ? .count : .byteCount)
        {
            removed.insert(entries[position].id)
        }
        return removed
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

    /// Counts the packets of a closed link with those of its host's other closed links.
    mutating func removeLink(_ link: MeshLinkID) {
        for index in entries.indices where entries[index].partition.link == link {
            entries[index].partition.link = nil
            if case .host(.link) = entries[index].partition.source { entries[index].partition.source = .gone }
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
            // Only messages have a longer lifetime: receivers reject other packets at the age limit of announcements.
            let lifetime =
                entry.frame.packet.type == .message ? PublicSync.messageLifetime : AnnouncementVerdict.maximumClockDifference
            let (age, isOverflow) = now.milliseconds.subtractingReportingOverflow(
                Int64(clamping: entry.frame.packet.timestamp))
            return !isOverflow && age > lifetime.components.seconds * 1000
        }
    }

    /// A request for packets that are not in this store.
    var request: MeshSyncRequest {
        // The largest parameter whose filter has room for all packets: a false positive hides a packet from each request until the
        // filter changes, and a larger parameter makes fewer of them.
        let parameter = (GolombFilter.safeParameter...GolombFilter.maximumAppParameter).last { parameter in
            GolombFilter.capacity(parameter: parameter, byteCount: GolombFilter.requestByteCount) >= entries.count
        }
        return MeshSyncRequest(
            filter: GolombFilter(
                hashes: entries.reversed().map(\.id.filterHash), parameter: parameter ?? GolombFilter.safeParameter),
            wanted: [.announcements, .messages])
    }

    /// The packets that the requesting neighbour lacks, at most `limit` packets of `byteLimit` bytes together. They are selected from
    /// each link in turn, and there from each sender in turn, the newest first. In the result announcements come first, because the
    /// others cannot be checked without them; the others follow in the reverse order of their selection.
    func missing(for request: MeshSyncRequest, limit: Int, byteLimit: Int) -> [MeshFrame] {
        let presentValues = request.filter.values
        let wanted = request.wanted ?? [.announcements, .messages]
        func isOfRequestedSet(_ packet: MeshPacket) -> Bool {
            guard packet.type == .fragment, let ids = request.fragmentIDs else { return true }
            return (try? MeshFragment(decoding: packet.payload)).map { ids.contains($0.id) } ?? false
        }
        let missing = entries.filter { entry in
            wanted.contains(Self.kind(of: entry.frame.packet)) && isOfRequestedSet(entry.frame.packet)
                && entry.frame.packet.timestamp >= (request.since ?? 0)
                && !presentValues.contains(GolombFilter.value(of: entry.id.filterHash, range: request.filter.range))
        }
        var remainingByteCount = byteLimit
        var selected: [Entry] = []
        for entry in Self.inTurn(missing) where selected.count < limit && remainingByteCount >= entry.frame.bytes.count {
            remainingByteCount -= entry.frame.bytes.count
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

    /// Orders entries by turns: in each turn one of each partition, and within a partition one of each sender, the newest first.
    private static func inTurn(_ entries: [Entry]) -> [Entry] {
        var bySender: [PeerID: Int] = [:]
        let newestFirst = entries.reversed().map { entry -> (turn: Int, entry: Entry) in
            let turn = bySender[entry.sender, default: 0]
            bySender[entry.sender] = turn + 1
            return (turn, entry)
        }
        var byPartition: [Partition: Int] = [:]
        // The position breaks ties, so that the order stays that of the store.
        return newestFirst.enumerated().sorted { ($0.element.turn, $0.offset) < ($1.element.turn, $1.offset) }
            .map { (_, element) -> (turn: Int, entry: Entry) in
                let turn = byPartition[element.entry.partition, default: 0]
                byPartition[element.entry.partition] = turn + 1
                return (turn, element.entry)
            }
            .enumerated().sorted { ($0.element.turn, $0.offset) < ($1.element.turn, $1.offset) }.map(\.element.entry)
    }
}
