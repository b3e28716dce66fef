internal import NearshareBase

/// Exchange of public packets that a neighbour has missed (bitchat specification, section 10).
struct PublicSync: Sendable {
    private(set) var store = SyncStore()
    /// Files for everyone, which this node does not request: a phone asks for those that it has missed.
    private(set) var files = SyncStore(.files)
    /// Fragments for everyone: the receivers of an incomplete file ask for them.
    private(set) var fragments = SyncStore(.fragments)
    /// When to send the next request on each link.
    private var nextRequests: [MeshLinkID: MonotonicInstant] = [:]
    /// When each neighbour was last sent a request.
    private var requested: [PeerID: MonotonicInstant] = [:]
    /// When the latest requests on each link were answered.
    private var answered: [MeshLinkID: [MonotonicInstant]] = [:]

    // MARK: Links and peers

    mutating func addLink(_ link: MeshLinkID, now: MonotonicInstant) { nextRequests[link] = now + Self.firstRequestDelay }

    mutating func removeLink(_ link: MeshLinkID) {
        nextRequests[link] = nil
        answered[link] = nil
        store.removeLink(link)
        files.removeLink(link)
        fragments.removeLink(link)
    }

    /// Brings the next request forward: a new neighbour knows peers, of which this node should learn before their next
    /// announcements. The short delay lets the neighbour identify this node first.
    mutating func requestSoon(on link: MeshLinkID, now: MonotonicInstant) {
        guard let next = nextRequests[link] else { return }
        nextRequests[link] = min(next, now + Self.newNeighbourDelay)
    }

    mutating func removePeer(_ id: PeerID) {
        requested[id] = nil
        store.removeAnnouncement(of: id)
        // Receivers could not check them without the announcement.
        files.removePackets(of: id)
    }

    // MARK: Requests of this node

    /// Removes the links on which a request is due, and schedules their next.
    mutating func popDueLinks(now: MonotonicInstant) -> [MeshLinkID] {
        let due = nextRequests.filter { $0.value <= now }.map(\.key)
        for link in due { nextRequests[link] = now + Self.requestInterval }
        return due
    }

    /// A request that describes the packets of this node.
    var request: MeshSyncRequest { store.request }

    mutating func recordRequest(to neighbours: Set<PeerID>, now: MonotonicInstant) {
        for id in neighbours { requested[id] = now }
    }

    /// Whether an old packet answers a request of this node: it has a requested type and was received from a neighbour that was
    /// asked. Android does not mark answers as such.
    /// - Parameter neighbours: those on the link on which it was received; evaluated only if the other conditions hold.
    func isResponse(_ packet: MeshPacket, from neighbours: @autoclosure () -> Set<PeerID>, now: Moment) -> Bool {
        guard packet.ttl == 0, packet.type == .announce || packet.type == .message,
            neighbours().contains(where: { id in
                requested[id].map { now.monotonic - $0 <= Self.responseTimeout } ?? false
            })
        else { return false }
        let age = packet.type == .message ? Self.messageLifetime : AnnouncementVerdict.maximumClockDifference
        return TimestampWindow(past: age).contains(packet.timestamp, now: now.wall)
    }

    // MARK: Requests of neighbours

    /// Answers a neighbour's request, at a limited rate because the answer is larger than the request (M2).
    mutating func answer(_ request: MeshSyncRequest, on link: MeshLinkID, now: MonotonicInstant) -> [MeshFrame] {
        let recent = (answered[link] ?? []).filter { now - $0 < Self.responseTimeout }
        guard recent.count < Self.maximumAnswerCount else { return [] }
        answered[link] = recent + [now]
        var remainingByteCount = Self.answerByteLimit
        var answer: [MeshFrame] = []
        for (store, limit) in [(store, Self.answerLimit), (fragments, Self.fragmentAnswerLimit), (files, Self.fileAnswerLimit)]
        {
            let missing = store.missing(for: request, limit: limit, byteLimit: remainingByteCount)
            remainingByteCount -= missing.reduce(0) { $0 + $1.bytes.count }
            answer += missing
        }
        // A large file has an answer for itself.
        return answer.isEmpty ? files.missing(for: request, limit: 1, byteLimit: SyncStore.Limits.files.byteCount) : answer
    }

    // MARK: Store

    /// Stores a packet, see ``SyncStore/insert(_:from:of:isKnown:)``.
    mutating func insert(
        _ frame: MeshFrame, from link: MeshLinkID? = nil, of source: MeshLinkSource? = nil, isKnown: Bool = false
    ) {
        switch frame.packet.type {
        case .fragment: fragments.insert(frame, from: link, of: source, isKnown: isKnown)
        case .fileTransfer: files.insert(frame, from: link, of: source, isKnown: isKnown)
        default: store.insert(frame, from: link, of: source, isKnown: isKnown)
        }
    }

    mutating func expire(now: WallTime) {
        store.expire(now: now)
        files.expire(now: now)
        fragments.expire(now: now)
    }

    /// Limit on the age of a public message that is exchanged (section 3).
    static let messageLifetime = Duration.seconds(21_600)
    private static let firstRequestDelay = Duration.seconds(5)
    private static let newNeighbourDelay = Duration.milliseconds(100)
    private static let requestInterval = Duration.seconds(30)
    private static let responseTimeout = Duration.seconds(30)
    /// Requests on one link answered within ``responseTimeout``.
    private static let maximumAnswerCount = 8
    private static let answerLimit = 100
    /// Limit on the fragments of one answer: a link with a radio carries them in a second or two.
    private static let fragmentAnswerLimit = 64
    private static let fileAnswerLimit = 4
    private static let answerByteLimit = 256 << 10
}
