package import NearshareBase
package import NearshareCrypto

/// A node of the mesh: accepts frames from its links and decides which frames are written to them.
///
/// A value without clock, randomness or links of its own, and the front of the parts that hold its state. Its driver calls a
/// method for each event (``linkUp(_:_:now:)``, ``receive(_:from:now:)``, ``advance(to:)``, and requests of the program). After
/// each call it asks for the consequences: ``drainEvents()``, ``deadline`` for the next call of ``advance(to:)``, and, for each
/// link that can accept frames, ``startWriting(to:)`` until the result is nil. It calls ``finishWriting(to:now:)`` once these
/// frames are written, because the time of writing paces the fragments.
///
///     frame ─► LinkBudgets ─► PacketHistory ─► for this node: PeerTable, SessionTable, IncomingFragments ─► events
///                                  │                          └► answers ─┐
///                                  └► for others ─► RelayDecision ─► RelayQueue ─► outboxes in LinkTable ─► startWriting(to:)
package struct MeshRouter: Sendable {
    /// This implementation's own choices. Constants of the specification are declared where they are used.
    ///
    /// Each rate is that of one source of links (``MeshLinkSource``). Each link has 1/12 of it to itself, and all links of the
    /// source have one full rate in common. So a single link never exceeds 13/12 of the rate, and a source never twice the rate. Where
    /// work costs processor time or writes to the disk, a source exceeds the rate by its bursts only. See ``LinkBudgets``.
    package struct Settings: Sendable {
        package var assembly = FragmentAssembler.Limits()
        /// Sustained frames per second accepted from one source (token-bucket rate).
        package var framesPerSecond = 5_000.0
        package var frameBurst = 20_000.0
        /// Sustained bytes per second accepted from one source. The bytes that decompression adds have a second rate of the same size
        /// (R2).
        package var bytesPerSecond = 8_388_608.0
        package var byteBurst = 33_554_432.0
        /// Signatures checked for one source. Checking one costs more than forging one (M2, R9).
        package var signaturesPerSecond = 200.0
        package var signatureBurst = 600.0
        /// Bytes compressed for one source to check signatures of payloads that another compressor made (M20).
        package var recompressedBytesPerSecond = 1_048_576.0
        package var recompressedByteBurst = 8_388_608.0
        /// Unsigned handshake messages answered for one source (R9).
        package var handshakesPerSecond = 5.0
        package var handshakeBurst = 60.0
        /// Peers added for one source that were not known before (R6).
        package var newPeersPerSecond = 4.0
        package var newPeerBurst = 256.0
        /// Packets relayed for one source without a signature that this node can check, and their bytes. Packets to everyone and packets
        /// for known peers each have this rate. It suffices for a file on a stream, and is little against what the next node accepts.
        package var relayedFramesPerSecond = 250.0
        package var relayedFrameBurst = 1_000.0
        package var relayedBytesPerSecond = 1_048_576.0
        package var relayedByteBurst = 4_194_304.0
        /// Bytes of public texts accepted from one source, after decompression.
        package var publicTextBytesPerSecond = 16_384.0
        package var publicTextBurst = 1_048_576.0
        /// Bytes of bundle packets accepted from those peers of one source that are no contacts. A link's share of the burst has room
        /// for the longest packet.
        package var bundleBytesPerSecond = 262_144.0
        package var bundleByteBurst = 524_288.0
        /// Sealed messages of one peer that are processed; the rest is lost, as on a radio link. Sealing proves the sender, so
        /// no other peer can use up the rate.
        package var sealedPerSecond = 100.0
        package var sealedBurst = 200.0
        /// Sealed payloads accepted from those peers of one source that are no contacts: the user reads far fewer, and storing a text
        /// takes milliseconds. The burst has room for the receipts for a long text.
        package var sealedPayloadsPerSecond = 8.0
        package var sealedPayloadBurst = 128.0
        /// Signed messages of one sender to everyone, shown and relayed. All that a neighbour stores of one sender fits into
        /// the burst.
        package var messagesPerSecond = 5.0
        package var messageBurst = 200.0
        /// Whether packets of other nodes are relayed. Otherwise the node only sends and receives.
        package var isRelaying = true
        /// A session in which nothing arrives for this time ends.
        package var sessionLifetime = Duration.seconds(86_400)

        package init() {}
    }

    let settings: Settings
    var node: LocalNode
    var links = LinkTable()
    var peers = PeerTable()
    var sync = PublicSync()
    var history = PacketHistory()
    var relays = RelayQueue()
    var fragments = FragmentScheduler()
    var incoming: IncomingFragments
    var sessions: SessionTable
    var privateMessages = PrivateMessages()
    var outgoingFiles = OutgoingFiles()
    var timers = RouterTimers()
    /// The latest decisions about packets, for diagnosis.
    package internal(set) var trace = PacketTrace()
    /// The number of frames that were dropped unread because their links had exceeded their limits.
    package internal(set) var unreadFrameCount = 0
    private var events: [MeshEvent] = []

    /// - Parameters:
    ///   - name: the display name that other peers see.
    ///   - random: the kernel's generator in a real node, because keys are drawn from it.
    package init(
        identity: LocalIdentity, name: DisplayName, settings: Settings = Settings(),
        random: any RandomNumberGenerator & Sendable
    ) {
        self.settings = settings
        node = LocalNode(identity: identity, name: name, random: random)
        incoming = IncomingFragments(limits: settings.assembly)
        sessions = SessionTable(identity: identity, settings: settings)
    }

    package var id: PeerID { node.id }

    // MARK: Consequences

    /// The events since the last call.
    package mutating func drainEvents() -> [MeshEvent] {
        defer { events = [] }
        return events
    }

    package var hasEvents: Bool { !events.isEmpty }

    mutating func emit(_ event: MeshEvent) { events.append(event) }

    /// Removes the next frame for a link without pacing fragments by the time of writing: for simulations, whose links take no time.
    /// nil when there is no frame for now.
    package mutating func dequeueFrame(for link: MeshLinkID) -> [UInt8]? { links.dequeueFrame(for: link) }

    /// Removes the next frame to write to a link; nil when there is none for now. A driver may remove several before it writes
    /// them. ``finishWriting(to:now:)`` must follow, because the time of writing paces the fragments.
    package mutating func startWriting(to link: MeshLinkID) -> [UInt8]? {
        let hadFragments = links.hasWaitingFragments(link)
        let frame = links.dequeueFrame(for: link)
        if hadFragments, !links.hasWaitingFragments(link) { fragments.startWriting(to: link) }
        return frame
    }

    /// Records that all frames removed by ``startWriting(to:)`` were written.
    package mutating func finishWriting(to link: MeshLinkID, now: MonotonicInstant) {
        guard let pacing = links.profile(of: link)?.pacing else { return }
        fragments.finishWriting(to: link, pacing: pacing, now: now)
    }

    package func hasFrame(for link: MeshLinkID) -> Bool { links.hasFrame(for: link) }

    /// When ``advance(to:)`` must be called, if there is no other event before.
    package var deadline: MonotonicInstant? {
        [
            relays.deadline, fragments.isEmpty ? nil : fragments.deadline(routing), sessions.textDeadline,
            timers.nextMaintenance,
        ].compactMap { $0 }.min()
    }

    // MARK: Peers

    /// All peers that have announced themselves.
    package var announcedPeers: [MeshPeer] { peers.announced }

    /// Peers with a session, so that every message to them is sealed and their key is authenticated.
    package var peersWithSession: [PeerID] { sessions.established }

    /// nil for a peer that has not announced itself.
    package func peer(_ id: PeerID) -> MeshPeer? { peers.peer(id) }

    /// The key that the current session with a peer has authenticated.
    package func authenticatedPeer(_ id: PeerID) -> AuthenticatedPeer? { sessions.authenticatedPeer(id) }

    /// Compares a key that signs in a peer's name with the one that the peer has proven.
    package func status(of key: SigningPublicKey, of id: PeerID) -> SigningKeyStatus {
        guard peers.hasProvenSigningKey(id) else { return .unknown }
        // The pin is proven, so a verdict other than accepted means a forged key.
        return peers.pinVerdict(on: key, of: id) == .accepted ? .proven : .forged
    }

    /// Whether a peer has stated its signing key inside a session, or is a contact of the user.
    package func hasProvenSigningKey(_ id: PeerID) -> Bool { peers.hasProvenSigningKey(id) }

    /// Whether a peer has proven its key on one of the links.
    package func isNeighbour(_ id: PeerID) -> Bool { peers.isNeighbour(id) }

    /// The links to a neighbour; of one that has not proven its key, those on which it claims to be one.
    package func neighbourLinks(of id: PeerID) -> Set<MeshLinkID> { peers.neighbourLinks(of: id) }

    /// Whether the keys of a peer are stored as those of a contact.
    package func isContact(_ id: PeerID) -> Bool { peers.isContact(id) }

    /// The degree to which the neighbour at the other end of a link is known: decides which links to keep when there are too many.
    package func linkAuthentication(of link: MeshLinkID) -> LinkAuthentication {
        if let neighbour = peers.provenNeighbour(on: link) { return .proven(neighbour, isContact: peers.isContact(neighbour)) }
        return peers.hasClaimants(on: link) ? .claimed : .silent
    }

    /// The number of a neighbour's own rejected requests, and of its own frames beyond the link's share, above what is tolerated. What
    /// the neighbour relays, and what other links of its address send, does not count.
    package func excess(of link: MeshLinkID, now: MonotonicInstant) -> Double { links.budgets.excess(of: link, now: now) }

    /// Limit on the links of a node that others opened. One source may have opened all of them.
    package static let maximumIncomingLinkCount = 12

    /// Sets the user's contacts with their signing keys. Contacts stay known whatever other peers announce, and no peer takes their
    /// ids.
    package mutating func setContacts(_ contacts: [PeerID: SigningPublicKey]) {
        peers.setContacts(contacts)
        for link in links.ids {
            guard let neighbour = peers.provenNeighbour(on: link) else { continue }
            links.budgets.setKnown(peers.isContact(neighbour), on: link)
        }
    }

    /// The keys that a peer has announced, or stated since.
    package func keys(of id: PeerID) -> (agreementKey: AgreementPublicKey, signingKey: SigningPublicKey)? {
        guard let record = peers[id], let agreementKey = record.agreementKey, let signingKey = record.signingKey else {
            return nil
        }
        return (agreementKey, signingKey)
    }

    /// Whether a peer has stated inside the current session, which proves its agreement key, that its signing key belongs to the
    /// same node.
    package func hasAuthenticatedKeys(_ id: PeerID) -> Bool {
        guard let record = peers[id], sessions.isEstablished(id), let signingKey = record.signingKey else { return false }
        return record.sessionState?.signingKey == signingKey.bytes
    }

    /// The neighbour over which a peer was heard last; nil where none is known, and for a neighbour.
    package func nextHop(to id: PeerID) -> PeerID? {
        guard let record = peers[id], !record.claimsToBeNeighbour,
            let link = record.links.reverseRoute ?? record.links.discovery
        else { return nil }
        return peers.provenNeighbour(on: link) ?? peers.claimants(on: link).min { $0.hex < $1.hex }
    }

    /// The share of the link over which a peer's latest authentic message was received; without one, of the link on which the peer
    /// has proven its key, or else of that over which it became known. nil once that link is closed.
    package func linkShare(of id: PeerID) -> MeshLinkShare? {
        guard let evidence = peers[id]?.links else { return nil }
        let proven = evidence.proven.min { $0.rawValue < $1.rawValue }
        return (evidence.reverseRoute ?? proven ?? evidence.discovery).flatMap { links.share(of: $0) }
    }

    /// The source on whose limits an event counts that its sender can cause at will. A public text counts for the host over whose
    /// link its author became known. An event whose sender a session or a signature proves counts for the host of that sender's
    /// latest message. The senders of other events are mere claims: these events count for ``PacketSource/gone``.
    package func source(of event: MeshEvent) -> PacketSource {
        switch event {
        case .publicMessage(let author, _, _, let host): source(of: author.id, behind: host)
        case .privateMessage(let peer, _, _), .verificationResponse(_, let peer):
            source(of: peer.id, behind: linkShare(of: peer.id)?.source)
        case .bundlePacket(_, let peer): source(of: peer, behind: linkShare(of: peer)?.source)
        default: .gone
        }
    }

    private func source(of sender: PeerID, behind host: MeshLinkSource?) -> PacketSource {
        isContact(sender) ? .known : host.map(PacketSource.host) ?? .gone
    }

    /// Whether the way to a peer has a Bluetooth hop, as far as this node knows.
    package func needsRadio(to id: PeerID) -> Bool { routing.needsRadio(to: id) }

    /// A view of the peers and links that chooses links. Callers discard it at once, because it shares their storage.
    var routing: MeshRouting { MeshRouting(own: id, peers: peers, links: links) }

    /// Ensures that a peer has a record.
    /// - Parameter link: the link over which the peer became known; nil where this node looks for the peer.
    /// - Returns: false when the table is full of peers that are needed (R6).
    mutating func ensureRecord(_ id: PeerID, from link: MeshLinkID? = nil, now: MonotonicInstant) -> Bool {
        guard peers[id] == nil else { return true }
        if peers.isFull {
            let candidate = peers.evictionCandidate(
                excluding: { outgoingFiles.isSending(to: $0) }, hasSession: { sessions.isEstablished($0) })
            guard let candidate else { return false }
            forget(candidate)
        }
        let limiter = TokenBucket(capacity: settings.messageBurst, perSecond: settings.messagesPerSecond, now: now)
        peers.insert(id, from: link, publicMessageLimiter: limiter, now: now)
        return true
    }

    /// Removes all state of a peer. Its queued messages are reported as undelivered.
    mutating func forget(_ id: PeerID) {
        let wasAnnounced = peers.remove(id)
        sessions.remove(id)
        for messageID in privateMessages.removePeer(id) { emit(.undelivered(messageID: messageID, to: id)) }
        incoming.files.removePeer(id)
        sync.removePeer(id)
        if wasAnnounced { emit(.peerLost(id)) }
    }

    // MARK: Links

    /// Adds an open link, and announces this node on it.
    /// - Parameter source: the host at the other end; nil when it is not known.
    package mutating func linkUp(
        _ link: MeshLinkID, _ profile: MeshLinkProfile, from source: MeshLinkSource? = nil, now: Moment
    ) {
        let moment = now.monotonic
        links.open(link, profile: profile, from: source, settings, now: moment)
        fragments.addLink(link, now: moment)
        sync.addLink(link, now: moment)
        // Before any other packet: signatures are checked against the announced key.
        announce(on: [link], now: now)
        if timers.nextAnnouncement == nil { scheduleAnnouncement(now: moment) }
        timers.startMaintenance(now: moment)
    }

    /// Removes a closed link. The peers that used it are reported as changed.
    package mutating func linkDown(_ link: MeshLinkID, now: Moment) {
        let source = links.source(of: link)
        links.close(link, now: now.monotonic)
        if let source, !links.hasLink(from: source) { history.close(source) }
        fragments.removeLink(link)
        incoming.removeLink(link)
        sync.removeLink(link)
        for peer in peers.removeLink(link) {
            emit(.peerChanged(peer))
            if !peers.isReachable(peer.id) { perform(outgoingFiles.endUnconfirmed(to: peer.id), now: now) }
        }
        if links.isEmpty { timers.nextAnnouncement = nil }
    }

    /// Whether the neighbour behind a link sends so many malformed frames that the link should be closed.
    package func shouldClose(_ link: MeshLinkID) -> Bool { links.isExhausted(link) }

    // MARK: Time

    /// Handles everything that is due.
    package mutating func advance(to now: Moment) {
        let moment = now.monotonic
        while let relay = relays.popDue(now: moment) {
            let origin = FragmentJob.Origin.relayed(from: relay.arrival, isAuthentic: relay.isAuthentic)
            for link in relay.links { write(relay.frame, of: relay.packet, on: link, origin: origin) }
        }
        sendDueFragments(now: now)
        deliverDueTexts(now: now)
        let isIdle = links.isEmpty && outgoingFiles.isEmpty && incoming.files.isEmpty
        if timers.popMaintenance(now: moment, isIdle: isIdle) { runMaintenance(now: now) }
    }

    private mutating func runMaintenance(now: Moment) {
        let moment = now.monotonic
        if let due = timers.nextAnnouncement, due <= moment {
            announce(on: Array(links.ids), now: now)
            scheduleAnnouncement(now: moment)
        }
        sessions.expire(now: moment)
        for id in peers.expired(now: moment) where !outgoingFiles.isSending(to: id) { forget(id) }
        for challenge in peers.retransmittedChallenges(now: moment) { send(challenge, now: now) }
        for (peer, message) in sessions.retransmissions(now: moment) {
            sendHandshake(message, to: peer, onAllLinks: true, now: now)
        }
        retryMessages(now: now)
        advanceFiles(now: now)
        for peer in sessions.peersToServe { sendQueued(to: peer, now: now) }
        requestSync(now: now)
        sync.expire(now: now.wall)
        incoming.expire(now: moment)
    }

    private mutating func scheduleAnnouncement(now: MonotonicInstant) {
        timers.nextAnnouncement = now + node.randomAnnouncementInterval(neighbourCount: peers.degree)
    }

    private mutating func requestSync(now: Moment) {
        for link in sync.popDueLinks(now: now.monotonic) {
            let packet = MeshPacket(
                type: .requestSync, ttl: 0, timestamp: node.nextTimestamp(at: now), sender: id,
                payload: sync.request.encoded[...])
            sync.recordRequest(to: peers.claimants(on: link), now: now.monotonic)
            send(packet, isSigned: true, on: [link])
        }
    }

    // MARK: This node

    /// Tells all peers that this node leaves.
    package mutating func leave(now: Moment) {
        send(
            MeshPacket(type: .leave, timestamp: node.nextTimestamp(at: now), sender: id, payload: []), isSigned: true)
    }

    /// Changes this node's name, and announces it at once.
    package mutating func rename(to name: DisplayName, now: Moment) {
        node.name = name
        announce(on: Array(links.ids), now: now)
    }

    /// Announces from now on that this node stores and forwards bundles.
    package mutating func enableBundles(now: Moment) {
        guard node.capabilities.insert(.bundles).inserted else { return }
        announce(on: Array(links.ids), now: now)
    }

    mutating func announce(on links: [MeshLinkID], now: Moment) {
        // A name has at most 63 bytes, so encoding it always succeeds.
        guard let packet = try? node.announcement(at: now) else { return }
        send(packet, isSigned: true, on: links)
    }
}
