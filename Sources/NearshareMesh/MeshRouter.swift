public import NearshareBase
internal import NearshareCrypto
public import NearshareSecurity
internal import NearshareWire

/// A node of the frame path: takes frames from its links, and says which are to be written to them.
///
/// A value without clock, chance or links of its own. Its owner tells it what happens (``linkUp(_:_:now:)``,
/// ``receive(_:from:now:)``, ``advance(to:)``, and what people want), and after each asks for what is to be done:
/// ``nextFrame(for:now:)`` for each link that can take one, ``takeEvents()``, and ``deadline`` for when to ask again.
///
///     frame ─► known already? ─► for us: announcement, message, session, fragment …   ─► events
///                    │                └► answers ─┐
///                    └► for others ─► relay rule ─► (delay) ─► outboxes of the links ─► nextFrame(for:)
public struct MeshRouter: Sendable {
    /// Our own choices; what the specification fixes stands where it is used.
    public struct Settings: Sendable {
        public var assembly = FragmentAssembler.Limits()
        /// Of a neighbour's frames, so many are dealt with in a second over a longer time.
        public var framesPerSecond = 5_000.0
        public var frameBurst = 20_000.0
        /// Checking a signature costs us more than making one up costs others (M2, R9).
        public var signaturesPerSecond = 200.0
        public var signatureBurst = 600.0
        /// Passes on what is for others. Without, a node only sends and receives.
        public var isRelaying = true

        public init() {}
    }

    struct Link {
        let profile: MeshLinkProfile
        var outbox = LinkOutbox()
        /// When the next fragment of ours may go out.
        var freeAt: MonotonicInstant
        var frames: TokenBucket
        var signatures: TokenBucket
        var nextSyncRequest: MonotonicInstant
        var malformedCount = 0
    }

    struct PeerRecord {
        var name: DisplayName?
        var noiseKey: AgreementPublicKey?
        var signingKey: SigningPublicKey?
        var capabilities: MeshCapabilities?
        var lastHeard: MonotonicInstant
        var links: Set<MeshLinkID> = []
        var session: MeshPeerSession
        /// Proven in the present session.
        var state: MeshPeerState?
        /// When it was told ours in the present session.
        var sentState: MonotonicInstant?
        /// Sealed and sent as soon as there is a session.
        var waiting: [[UInt8]] = []
        /// What overtook the last message of the handshake that opens it.
        var early: [MeshPacket] = []
        /// Private messages without an answer, sent again in time.
        var unanswered: [Unanswered] = []
        /// Ids of the latest messages, which may come again.
        var messageIDs: [String] = []
        /// Sync requests answered lately, and when we asked last.
        var syncAnswers: [MonotonicInstant] = []
        var askedForSync: MonotonicInstant?
    }

    struct Unanswered {
        var id: String
        var payload: [UInt8]
        var sent: MonotonicInstant
        var attempts = 0
    }

    struct Relay {
        var frame: [UInt8]
        var packetID: MeshPacketID
        var links: [MeshLinkID]
        var packet: MeshPacket
    }

    let identity: LocalIdentity
    let settings: Settings
    var name: DisplayName
    var random: any RandomNumberGenerator & Sendable
    var links: [MeshLinkID: Link] = [:]
    var peers: [PeerID: PeerRecord] = [:]
    var events: [MeshEvent] = []
    var seen = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    var seenFragments = DuplicateFilter(capacity: 50_000, lifetime: .seconds(300))
    var relays = Schedule<Relay>()
    var relayByteCount = 0
    var waitingRelays: Set<MeshPacketID> = []
    var assembler: FragmentAssembler
    var store = SyncStore()
    var jobs: [FragmentJob] = []
    var outgoing: [MeshFileControl.FileID: OutgoingFile] = [:]
    var incoming: [MeshFileControl.FileID: IncomingFile] = [:]
    var handshakes: TokenBucket
    var nextAnnouncement: MonotonicInstant?
    var nextTick: MonotonicInstant?
    var lastTimestamp: UInt64 = 0
    var toldOfClock: MonotonicInstant?

    /// - Parameters:
    ///   - name: what others see.
    ///   - random: the kernel's in a real node: keys are drawn from it.
    public init(
        identity: LocalIdentity, name: DisplayName, settings: Settings = Settings(),
        random: any RandomNumberGenerator & Sendable, now: MeshMoment
    ) {
        self.identity = identity
        self.name = name
        self.settings = settings
        self.random = random
        assembler = FragmentAssembler(limits: settings.assembly)
        handshakes = TokenBucket(capacity: 30, perSecond: 0.5, now: now.monotonic)
    }

    public var id: PeerID { identity.peerID }

    // MARK: What its owner asks for

    /// What has happened since this was asked last.
    public mutating func takeEvents() -> [MeshEvent] {
        defer { events = [] }
        return events
    }

    /// The next frame to write to a link; nil when there is none for now.
    public mutating func nextFrame(for link: MeshLinkID) -> [UInt8]? { links[link]?.outbox.removeFirst() }

    /// Whether anything waits to be written.
    public func hasFrame(for link: MeshLinkID) -> Bool { links[link].map { !$0.outbox.isEmpty } ?? false }

    /// When ``advance(to:)`` is to be called, if nothing else happens before.
    public var deadline: MonotonicInstant? { [relays.next, nextFragment, nextTick].compactMap { $0 }.min() }

    /// Everybody who has been heard of.
    public var knownPeers: [MeshPeer] { peers.keys.compactMap { peer($0) } }

    public func peer(_ id: PeerID) -> MeshPeer? {
        guard let record = peers[id], let name = record.name, let key = record.noiseKey else { return nil }
        return MeshPeer(
            id: id, name: name, fingerprint: Fingerprint(of: key),
            capabilities: record.state?.capabilities ?? record.capabilities, isDirect: !record.links.isEmpty)
    }

    /// Whose key the present session with a peer has proven.
    public func provenPeer(_ id: PeerID) -> ProvenPeer? { peers[id]?.session.peer }

    /// How many neighbours have announced themselves.
    var degree: Int { peers.values.count { !$0.links.isEmpty } }

    // MARK: What happens

    public mutating func linkUp(_ link: MeshLinkID, _ profile: MeshLinkProfile, now: MeshMoment) {
        let moment = now.monotonic
        links[link] = Link(
            profile: profile, freeAt: moment,
            frames: TokenBucket(capacity: settings.frameBurst, perSecond: settings.framesPerSecond, now: moment),
            signatures: TokenBucket(capacity: settings.signatureBurst, perSecond: settings.signaturesPerSecond, now: moment),
            nextSyncRequest: moment + Self.firstSyncRequest)
        // Before anything else: signatures are checked against what was announced.
        announce(on: [link], now: now)
        if nextAnnouncement == nil { scheduleAnnouncement(now: moment) }
        if nextTick == nil { nextTick = moment + Self.tick }
    }

    public mutating func linkDown(_ link: MeshLinkID, now: MeshMoment) {
        links[link] = nil
        for id in peers.keys where peers[id]!.links.remove(link) != nil {
            if let peer = peer(id) { events.append(.peerChanged(peer)) }
        }
        if links.isEmpty { nextAnnouncement = nil }
    }

    /// A neighbour behind the link sends what no node sends; the link had better be closed.
    public func isHopeless(_ link: MeshLinkID) -> Bool { (links[link]?.malformedCount ?? 0) > 64 }

    /// Does what has become due.
    public mutating func advance(to now: MeshMoment) {
        let moment = now.monotonic
        while let relay = relays.removeDue(moment) {
            relayByteCount -= relay.frame.count
            // Somebody else has passed it on meanwhile.
            guard waitingRelays.remove(relay.packetID) != nil else { continue }
            for link in relay.links { write(relay.frame, of: relay.packet, on: link, .relayed) }
        }
        sendDueFragments(now: moment)
        if let tick = nextTick, tick <= moment {
            nextTick = links.isEmpty && outgoing.isEmpty && incoming.isEmpty ? nil : moment + Self.tick
            keepHouse(now: now)
        }
    }

    /// Says goodbye to everybody.
    public mutating func leave(now: MeshMoment) {
        send(MeshPacket(type: .leave, timestamp: timestamp(now), sender: id, payload: []), signing: true)
    }

    public mutating func rename(to name: DisplayName, now: MeshMoment) {
        self.name = name
        announce(on: Array(links.keys), now: now)
    }

    private mutating func keepHouse(now: MeshMoment) {
        let moment = now.monotonic
        if let due = nextAnnouncement, due <= moment {
            announce(on: Array(links.keys), now: now)
            scheduleAnnouncement(now: moment)
        }
        for id in peers.keys {
            peers[id]!.session.expire(now: moment)
            if moment - peers[id]!.lastHeard > Self.peerLifetime, !isNeeded(id) { forget(id) }
        }
        repeatHandshakes(now: now)
        retryMessages(now: now)
        advanceFiles(now: now)
        requestSync(now: now)
        store.expire(now: now.wall)
    }

    private func isNeeded(_ id: PeerID) -> Bool { outgoing.values.contains { $0.recipient == id } }

    mutating func forget(_ id: PeerID) {
        let wasKnown = peer(id) != nil
        peers[id] = nil
        store.removeAnnouncement(of: id)
        if wasKnown { events.append(.peerLost(id)) }
    }

    // MARK: Announcing

    mutating func announce(on links: [MeshLinkID], now: MeshMoment) {
        let neighbours = peers.filter { !$0.value.links.isEmpty }.keys.sorted { $0.hex < $1.hex }
        let announcement = MeshAnnouncement(
            nickname: name.claimed, noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: identity.signingKey.publicKey.bytes, neighbours: Array(neighbours), capabilities: .ours)
        // A name has at most 63 bytes, so this always fits.
        guard let payload = try? announcement.encoded() else { return }
        let packet = MeshPacket(type: .announce, timestamp: timestamp(now), sender: id, payload: payload[...])
        send(packet, signing: true, on: links)
    }

    private mutating func scheduleAnnouncement(now: MonotonicInstant) {
        // Often enough that phones, which forget a peer after 45 seconds, keep us.
        let seconds = degree >= 6 ? 22.0...38.0 : 11.0...19.0
        nextAnnouncement = now + .seconds(Double.random(in: seconds, using: &random))
    }

    // MARK: Sending

    /// Strictly increasing: a phone takes packets of one millisecond that begin alike for one.
    mutating func timestamp(_ now: MeshMoment) -> UInt64 {
        lastTimestamp = max(UInt64(max(0, now.wall.milliseconds)), lastTimestamp + 1)
        return lastTimestamp
    }

    /// Sends a packet of our own: to its recipient where that is a neighbour, else to everybody.
    mutating func send(
        _ packet: MeshPacket, signing: Bool, on given: [MeshLinkID]? = nil, priority: WritePriority = .own
    ) {
        do {
            let packet = signing ? try packet.signed(by: identity) : packet
            remember(packet)
            let frame = try packet.encoded(isPadded: packet.isPaddedOnAir)
            for link in given ?? route(of: packet, besides: nil) { write(frame, of: packet, on: link, priority) }
        } catch {
            // What is sent this way was checked before: it fits.
            assertionFailure("\(error)")
        }
    }

    private mutating func remember(_ packet: MeshPacket) {
        guard packet.type == .message, let frame = try? MeshFrame(packet) else { return }
        store.insert(frame, id: MeshPacketID(of: packet))
    }

    /// The links that a packet leaves on.
    func route(of packet: MeshPacket, besides arrival: MeshLinkID?) -> [MeshLinkID] {
        var towards: Set<MeshLinkID> = []
        switch RouteRule(for: packet, at: id, isNeighbour: { peers[$0].map { !$0.links.isEmpty } ?? false }) {
        case .nobody: return []
        case .neighbour(let hop): towards = peers[hop]?.links ?? []
        case .everybody:
            if packet.isDirected, let recipient = packet.recipient { towards = peers[recipient]?.links ?? [] }
        }
        let open = towards.filter { links[$0] != nil }
        return (open.isEmpty ? Set(links.keys) : open).filter { $0 != arrival }.sorted { $0.rawValue < $1.rawValue }
    }

    enum WritePriority {
        case own
        case relayed
    }

    /// Queues a frame for a link; one that is too large for it goes in fragments.
    mutating func write(_ frame: [UInt8], of packet: MeshPacket, on link: MeshLinkID, _ priority: WritePriority) {
        guard let profile = links[link]?.profile else { return }
        guard frame.count > profile.largestWrite else {
            let queue: LinkOutbox.Priority =
                switch packet.type {
                case .fragment: .bulk
                case .announce, .noiseHandshake, .noiseEncrypted, .leave, .requestSync, .ping, .pong: .urgent
                default: .normal
                }
            links[link]!.outbox.append(frame, queue)
            return
        }
        guard jobs.count < Self.maximumJobCount,
            let fragmentation = try? MeshFragmentation(
                packet, frame: frame, id: fragmentID(),
                chunkByteCount: MeshFragmentation.chunkByteCount(forLargestWrite: profile.largestWrite, route: packet.route))
        else { return }
        jobs.append(FragmentJob(fragmentation: fragmentation, file: nil, recipient: packet.recipient, links: [link]))
    }

    mutating func randomBytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }

    mutating func fragmentID() -> MeshFragment.ID { MeshFragment.ID(bytes: randomBytes(MeshFragment.ID.byteCount))! }

    static let tick = Duration.milliseconds(250)
    static let firstSyncRequest = Duration.seconds(5)
    /// Longer than the pause between two announcements of a phone whose screen is off in most cases.
    static let peerLifetime = Duration.seconds(180)
    static let maximumPeerCount = 1024
    private static let maximumJobCount = 64
}
