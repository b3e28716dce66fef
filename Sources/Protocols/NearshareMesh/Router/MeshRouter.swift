package import NearshareBase
package import NearshareCrypto

/// A node of the frame path: takes frames from its links, and says which are to be written to them.
///
/// A value without clock, chance or links of its own. Its owner tells it what happens (``linkUp(_:_:now:)``,
/// ``receive(_:from:now:)``, ``advance(to:)``, and what people want), and after each asks for what is to be done:
/// ``nextFrame(for:now:)`` for each link that can take one, ``drainEvents()``, and ``deadline`` for when to ask again.
///
///     frame ─► known already? ─► for us: announcement, message, session, fragment …   ─► events
///                    │                └► answers ─┐
///                    └► for others ─► relay rule ─► (delay) ─► outboxes of the links ─► nextFrame(for:)
package struct MeshRouter: Sendable {
    /// Our own choices; what the specification fixes stands where it is used.
    package struct Settings: Sendable {
        package var assembly = FragmentAssembler.Limits()
        /// Of a neighbour's frames, so many are dealt with in a second over a longer time.
        package var framesPerSecond = 5_000.0
        package var frameBurst = 20_000.0
        /// And so many bytes, with what was compressed counted as it is afterwards (R2).
        package var bytesPerSecond = 8_388_608.0
        package var byteBurst = 33_554_432.0
        /// Checking a signature costs us more than making one up costs others (M2, R9).
        package var signaturesPerSecond = 200.0
        package var signatureBurst = 600.0
        /// Messages of handshakes that nobody vouches for with a signature (R9).
        package var handshakesPerSecond = 5.0
        package var handshakeBurst = 60.0
        /// Peers that nobody has heard of before (R6).
        package var newPeersPerSecond = 2.0
        package var newPeerBurst = 256.0
        /// Of what one peer seals for us, so many messages are read; what comes on top is lost, as on the air. Sealing proves who
        /// it is, so nobody else can use that up.
        package var sealedPerSecond = 100.0
        package var sealedBurst = 200.0
        /// Signed texts of one sender for everybody, here and passed on. All that a neighbour keeps of one fits into the burst.
        package var messagesPerSecond = 5.0
        package var messageBurst = 200.0
        /// Passes on what is for others. Without, a node only sends and receives.
        package var isRelaying = true
        /// A session with a peer counts as secure for so long; whatever comes in it renews it.
        package var sessionLifetime = Duration.seconds(86_400)

        package init() {}
    }

    struct Link {
        let profile: MeshLinkProfile
        var outbox = LinkOutbox()
        /// When the next fragment of ours may go out.
        var freeAt: MonotonicInstant
        var frames: TokenBucket
        var bytes: TokenBucket
        var signatures: TokenBucket
        var handshakes: TokenBucket
        var newcomers: TokenBucket
        var nextSyncRequest: MonotonicInstant
        var malformedCount = 0
    }

    struct PeerRecord {
        var name: DisplayName?
        var noiseKey: AgreementPublicKey?
        var signingKey: SigningPublicKey?
        var capabilities: MeshCapabilities?
        /// The timestamp of the latest announcement.
        var announced: UInt64 = 0
        var lastHeard: MonotonicInstant
        /// Where announcements came from that nobody had passed on. Anybody can claim that.
        var links: Set<MeshLinkID> = []
        /// Where the latest came from that only the peer can have sealed: some way to it leads there.
        var provenLink: MeshLinkID?
        var session: MeshPeerSession
        /// Proven in the present session.
        var state: MeshPeerState?
        /// When it was told ours in the present session.
        var sentState: MonotonicInstant?
        /// Sealed and sent as soon as there is a session.
        var waiting: [[UInt8]] = []
        /// What overtook the last message of the handshake that opens it.
        var early: [(frame: MeshFrame, link: MeshLinkID)] = []
        /// When something that could not be opened led to a new handshake.
        var recovered: MonotonicInstant?
        /// Private messages without an answer, sent again in time.
        var unanswered: [Unanswered] = []
        /// Ids of the latest messages that were taken, which may come again.
        var messageIDs: [String] = []
        /// Sync requests answered lately, and when we asked last.
        var syncAnswers: [MonotonicInstant] = []
        var askedForSync: MonotonicInstant?
        /// New files that it may offer.
        var offers: TokenBucket
        var sealed: TokenBucket
        var messages: TokenBucket
    }

    struct Unanswered {
        var id: String
        var payload: [UInt8]
        var sent: MonotonicInstant
        var attempts = 0
    }

    struct Relay {
        var frame: [UInt8]
        var key: PacketKey
        var links: [MeshLinkID]
        var packet: MeshPacket
        /// Towards ``relayByteCount``.
        var cost: Int
    }

    package let id: PeerID
    let identity: LocalIdentity
    let settings: Settings
    var name: DisplayName
    var capabilities = MeshCapabilities.ours
    var random: any RandomNumberGenerator & Sendable
    var links: [MeshLinkID: Link] = [:]
    var peers: [PeerID: PeerRecord] = [:]
    var events: [MeshEvent] = []
    var seen = DuplicateFilter(capacity: 20_000, lifetime: .seconds(1200))
    var seenFragments = DuplicateFilter(capacity: 50_000, lifetime: .seconds(1200))
    /// Old messages are asked for, so they are remembered for as long as they may be answered.
    var seenMessages = DuplicateFilter(capacity: 10_000, lifetime: MeshRouter.messageLifetime + .seconds(300))
    var pins = KeyPins()
    var relays = DeadlineQueue<Relay>()
    var relayByteCount = 0
    /// What waits to be passed on, and from which links it has come meanwhile.
    var waitingRelays: [PacketKey: Set<MeshLinkID>] = [:]
    var assembler: FragmentAssembler
    var store = SyncStore()
    var jobs: [FragmentJob] = []
    var outgoing: [MeshFileKey: OutgoingFile] = [:]
    var incoming: [MeshFileKey: IncomingFile] = [:]
    var nextAnnouncement: MonotonicInstant?
    var nextTick: MonotonicInstant?
    var lastTimestamp: UInt64 = 0
    var toldOfClock: MonotonicInstant?

    /// - Parameters:
    ///   - name: what others see.
    ///   - random: the kernel's in a real node: keys are drawn from it.
    package init(
        identity: LocalIdentity, name: DisplayName, settings: Settings = Settings(),
        random: any RandomNumberGenerator & Sendable, now: Moment
    ) {
        id = identity.peerID
        self.identity = identity
        self.name = name
        self.settings = settings
        self.random = random
        assembler = FragmentAssembler(limits: settings.assembly)
    }

    // MARK: What its owner asks for

    /// What has happened since this was asked last.
    package mutating func drainEvents() -> [MeshEvent] {
        defer { events = [] }
        return events
    }

    /// The next frame to write to a link; nil when there is none for now.
    package mutating func nextFrame(for link: MeshLinkID) -> [UInt8]? { links[link]?.outbox.removeFirst() }

    /// Whether anything waits to be written.
    package func hasFrame(for link: MeshLinkID) -> Bool { links[link].map { !$0.outbox.isEmpty } ?? false }

    /// When ``advance(to:)`` is to be called, if nothing else happens before.
    package var deadline: MonotonicInstant? { [relays.nextDeadline, nextFragment, nextTick].compactMap { $0 }.min() }

    /// Everybody who has been heard of.
    package var knownPeers: [MeshPeer] { peers.keys.compactMap { peer($0) } }

    /// With whom there is a session, so that nothing goes to them unsealed and their key is proven.
    package var peersWithSession: [PeerID] { peers.filter { $0.value.session.isEstablished }.keys.sorted { $0.hex < $1.hex } }

    package func peer(_ id: PeerID) -> MeshPeer? {
        guard let record = peers[id], let name = record.name, let key = record.noiseKey else { return nil }
        return MeshPeer(
            id: id, name: name, fingerprint: Fingerprint(of: key),
            capabilities: record.state?.capabilities ?? record.capabilities, isDirect: !record.links.isEmpty)
    }

    /// Whose key the present session with a peer has proven.
    package func authenticatedPeer(_ id: PeerID) -> AuthenticatedPeer? { peers[id]?.session.peer }

    /// How many neighbours have announced themselves.
    var degree: Int { peers.values.count { !$0.links.isEmpty } }

    // MARK: What happens

    package mutating func linkUp(_ link: MeshLinkID, _ profile: MeshLinkProfile, now: Moment) {
        let moment = now.monotonic
        links[link] = Link(
            profile: profile, freeAt: moment,
            frames: TokenBucket(capacity: settings.frameBurst, perSecond: settings.framesPerSecond, now: moment),
            bytes: TokenBucket(capacity: settings.byteBurst, perSecond: settings.bytesPerSecond, now: moment),
            signatures: TokenBucket(capacity: settings.signatureBurst, perSecond: settings.signaturesPerSecond, now: moment),
            handshakes: TokenBucket(capacity: settings.handshakeBurst, perSecond: settings.handshakesPerSecond, now: moment),
            newcomers: TokenBucket(capacity: settings.newPeerBurst, perSecond: settings.newPeersPerSecond, now: moment),
            nextSyncRequest: moment + Self.firstSyncRequest)
        // Before anything else: signatures are checked against what was announced.
        announce(on: [link], now: now)
        if nextAnnouncement == nil { scheduleAnnouncement(now: moment) }
        if nextTick == nil { nextTick = moment + Self.tick }
    }

    package mutating func linkDown(_ link: MeshLinkID, now: Moment) {
        links[link] = nil
        for id in peers.keys where peers[id]!.links.remove(link) != nil {
            if let peer = peer(id) { events.append(.peerChanged(peer)) }
        }
        if links.isEmpty { nextAnnouncement = nil }
    }

    /// A neighbour behind the link sends what no node sends; the link had better be closed.
    package func shouldClose(_ link: MeshLinkID) -> Bool { (links[link]?.malformedCount ?? 0) > 64 }

    /// Does what has become due.
    package mutating func advance(to now: Moment) {
        let moment = now.monotonic
        while let relay = relays.popDue(moment) {
            relayByteCount -= relay.cost
            // Links are between two: who has it meanwhile needs it no more, but others may not have heard it.
            let heard = waitingRelays.removeValue(forKey: relay.key) ?? []
            for link in relay.links where !heard.contains(link) { write(relay.frame, of: relay.packet, on: link, .relayed) }
        }
        sendDueFragments(now: moment)
        if let tick = nextTick, tick <= moment {
            nextTick = links.isEmpty && outgoing.isEmpty && incoming.isEmpty ? nil : moment + Self.tick
            runMaintenance(now: now)
        }
    }

    /// Says goodbye to everybody.
    package mutating func leave(now: Moment) {
        send(MeshPacket(type: .leave, timestamp: timestamp(now), sender: id, payload: []), signing: true)
    }

    package mutating func rename(to name: DisplayName, now: Moment) {
        self.name = name
        announce(on: Array(links.keys), now: now)
    }

    private mutating func runMaintenance(now: Moment) {
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
        sendWhatFilesHeldUp(now: now)
        requestSync(now: now)
        store.expire(now: now.wall)
        assembler.expire(now: moment)
    }

    func isNeeded(_ id: PeerID) -> Bool { outgoing.keys.contains { $0.peer == id } }

    mutating func forget(_ id: PeerID) {
        let wasKnown = peer(id) != nil
        peers[id] = nil
        store.removeAnnouncement(of: id)
        if wasKnown { events.append(.peerLost(id)) }
    }

    // MARK: Announcing

    mutating func announce(on links: [MeshLinkID], now: Moment) {
        let neighbours = peers.filter { !$0.value.links.isEmpty }.keys.sorted { $0.hex < $1.hex }
        let announcement = MeshAnnouncement(
            nickname: name.claimed, noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: identity.signingKey.publicKey.bytes, neighbours: Array(neighbours), capabilities: capabilities)
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
    mutating func timestamp(_ now: Moment) -> UInt64 {
        lastTimestamp = max(UInt64(max(0, now.wall.milliseconds)), lastTimestamp + 1)
        return lastTimestamp
    }

    /// Sends a packet of our own: to its recipient where that is a neighbour, else to everybody.
    mutating func send(_ packet: MeshPacket, signing: Bool, on given: [MeshLinkID]? = nil) {
        do {
            let packet = signing ? try packet.signed(by: identity) : packet
            remember(packet)
            let frame = try packet.encoded(isPadded: packet.isPaddedOnAir)
            for link in given ?? route(of: packet, besides: nil) { write(frame, of: packet, on: link, .own) }
        } catch {
            // What is sent this way was checked before: it fits.
            assertionFailure("\(error)")
        }
    }

    private mutating func remember(_ packet: MeshPacket) {
        guard packet.type == .message, let frame = try? MeshFrame(packet) else { return }
        store.insert(frame)
    }

    /// The links that a packet leaves on.
    func route(of packet: MeshPacket, besides arrival: MeshLinkID?) -> [MeshLinkID] {
        var towards: Set<MeshLinkID> = []
        switch RouteDecision(for: packet, at: id, isNeighbour: { peers[$0].map { !$0.links.isEmpty } ?? false }) {
        case .nobody: return []
        case .neighbour(let hop): towards = peers[hop]?.links ?? []
        case .everybody:
            if packet.isDirected, let recipient = packet.recipient { towards = peers[recipient]?.links ?? [] }
        }
        // Who claims to be a neighbour may not be one. What is ours goes where the peer has answered from, too.
        if packet.sender == id, !towards.isEmpty, let recipient = packet.recipient, let link = peers[recipient]?.provenLink {
            towards.insert(link)
        }
        let open = towards.filter { links[$0] != nil }
        let wide = open.isEmpty ? Set(links.keys) : open
        return onePerNeighbour(wide, besides: arrival).sorted { $0.rawValue < $1.rawValue }
    }

    /// Of links that lead to the same neighbour, as when both have connected to each other, or share a network and are in range of
    /// each other's radio, the best one: a second time the frame would tell nothing new. None to whom it came from.
    ///
    /// Anybody can claim to be a neighbour's second link; so none is left out before one is proven, and never the proven one.
    func onePerNeighbour(_ given: Set<MeshLinkID>, besides arrival: MeshLinkID? = nil) -> Set<MeshLinkID> {
        var left = given
        for record in peers.values where record.links.count > 1 {
            guard let proven = record.provenLink, record.links.contains(proven), links[proven] != nil else { continue }
            let kept = arrival == proven ? [] : Set([proven, best(of: record.links) ?? proven])
            for link in record.links where !kept.contains(link) { left.remove(link) }
        }
        if let arrival { left.remove(arrival) }
        return left
    }

    /// A stream before a radio; else the newest, as an older one may be dead without anybody having noticed.
    func best(of links: Set<MeshLinkID>) -> MeshLinkID? {
        links.filter { self.links[$0] != nil }.max { one, other in
            let (isOneStream, isOtherStream) = (!self.links[one]!.profile.isRadio, !self.links[other]!.profile.isRadio)
            return isOneStream == isOtherStream ? one.rawValue < other.rawValue : isOtherStream
        }
    }

    enum Origin {
        case own
        case relayed
    }

    /// Queues a frame for a link; one that is too large for it goes in fragments.
    mutating func write(_ frame: [UInt8], of packet: MeshPacket, on link: MeshLinkID, _ origin: Origin) {
        guard let profile = links[link]?.profile else { return }
        guard frame.count > profile.largestWrite else {
            let queue: LinkOutbox.Priority =
                switch packet.type {
                case .fragment: .bulk
                case .announce, .noiseHandshake, .noiseEncrypted, .leave, .requestSync, .ping, .pong:
                    origin == .own ? .urgent : .normal
                default: .normal
                }
            links[link]!.outbox.append(frame, queue)
            return
        }
        // Others' packets have a share of their own, so that they can't take our place.
        let alike = jobs.filter { $0.file == nil && $0.isRelayed == (origin == .relayed) }
        guard alike.count < Self.maximumJobCount,
            alike.reduce(frame.count, { $0 + $1.byteCount }) <= Self.maximumJobByteCount,
            let fragmentation = try? MeshFragmentation(
                packet, frame: frame, id: fragmentID(),
                chunkByteCount: MeshFragmentation.chunkByteCount(forLargestWrite: profile.largestWrite, route: packet.route))
        else { return }
        jobs.append(
            FragmentJob(
                fragmentation: fragmentation, byteCount: frame.count, isRelayed: origin == .relayed, file: nil,
                recipient: packet.recipient, links: [link]))
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
    /// Of packets that are too large for a link, besides files of our own.
    private static let maximumJobCount = 64
    private static let maximumJobByteCount = 8 << 20
}
