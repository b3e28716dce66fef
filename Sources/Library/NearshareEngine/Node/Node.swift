internal import Logging
public import NearshareBase
internal import NearshareCrypto
public import NearshareDirect
public import NearshareInterfaces
internal import Synchronization

/// Runs a node for the duration of `body`, then cancels its tasks, closes its links and ends its threads.
package func withNode<Result: Sendable>(
    _ settings: NodeSettings, body: @Sendable (Node) async throws -> Result
) async throws -> Result {
    let node = Node(settings)
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await node.run() }
        do {
            let result = try await body(node)
            node.beginShutdown()
            try await group.waitForAll()
            return result
        } catch {
            node.beginShutdown()
            try await group.waitForAll()
            throw error
        }
    }
}

/// This machine among its peers: sends, receives, finds. Made by ``withNode(_:_:)``, which owns everything that it starts.
public final class Node: Sendable {
    private struct State {
        var links = LinkRegistry()
        var handshakes = HandshakeRateLimiter()
        var listeners = ListenerRegistry()
        var mesh: MeshDriver?
        var radio: Radio?
        var sessions: [SessionID: Session] = [:]
        var linkReceiver: (@Sendable (PassedLink) -> Bool)?
        var isShuttingDown = false
    }

    /// All transfers that this node takes part in, in either direction.
    public let transfers = TransferProgressManager()
    let settings: NodeSettings
    /// Fulfilled when the node begins to stop.
    let stopping = Promise<Bool>()
    private let state = Mutex(State())
    private let tasks = OwnedTasks()
    /// Bounds what untrusted peers may ask the user, on all paths (R11).
    let promptLimiter: SharedPromptLimiter

    init(_ settings: NodeSettings) {
        self.settings = settings
        promptLimiter = SharedPromptLimiter(clock: settings.clock)
    }

    /// The name that other peers see.
    public var name: DisplayName { settings.name }
    /// Lifetime of a secure session in the mesh.
    package var sessionLifetime: Duration { settings.meshSessionLifetime }
    /// The node's identifier: the first 8 bytes of its fingerprint.
    public var id: PeerID { settings.identity.peerID }

    // MARK: Scope

    func run() async {
        await tasks.run()
    }

    /// Starts a task that the node awaits before it ends.
    func start(_ job: @escaping OwnedTasks.Job) {
        tasks.start(job)
    }

    /// Begins an orderly shutdown: declines invitations, stops transfers so that they can be resumed, and informs the peers.
    package func beginShutdown() {
        let (links, listeners, mesh, sessions) = state.withLock { state in
            state.isShuttingDown = true
            state.radio = nil
            return (state.links.running, state.listeners.removeAll(), state.mesh, Array(state.sessions.values))
        }
        for session in sessions { session.end() }
        listeners.close()
        for link in links { link.close(.goingAway) }
        mesh?.stop()
        stopping.fulfil(true)
        tasks.finish()
    }

    // MARK: Receiving

    /// Listens, advertises, and delivers what peers offer. Ends when the node shuts down.
    /// - Parameters:
    ///   - service: the service type to advertise.
    ///   - info: key-value pairs to advertise; ``Listener/update(info:)`` changes them.
    ///   - port: 0 for a free port.
    ///   - usesRadio: listens over the radio as well, where the settings have one; it is ready a moment later.
    ///   - joinsMesh: relays frames for other peers, and receives over the mesh. Only one process per key may do so.
    public func listen(
        as service: ServiceType = .nearshare, info: DiscoveryInfo = .none, port: UInt16 = 0,
        usesRadio: Bool = true, joinsMesh: Bool = true
    ) throws(NodeError) -> Listener {
        let listener = makeListener(as: service, info: info, joinsMesh: joinsMesh)
        guard try openPort(port, of: listener) else {
            throw .unavailable("port \(port) is in use; choose another one with --port")
        }
        if usesRadio { startRadio(for: listener) }
        return listener
    }

    /// Listens over the radio as well, where the settings have one; it is ready a moment later.
    package func startRadio(for listener: Listener) {
        guard settings.radio != nil else { return }
        startRadio(startMesh(of: listener), listener.continuations, listener.radioEvent)
    }

    /// A listener without a port: it serves links that another process passes, and those of a port that is opened later.
    package func makeListener(
        as service: ServiceType = .nearshare, info: DiscoveryInfo = .none, joinsMesh: Bool
    ) -> Listener {
        let (invitations, invitationContinuation) = AsyncStream.makeStream(
            of: Invitation.self, bufferingPolicy: .bufferingNewest(Self.maximumUnreadCount))
        let (requests, requestContinuation) = AsyncStream.makeStream(
            of: VerificationRequest.self, bufferingPolicy: .bufferingNewest(Self.maximumUnreadCount))
        let (sessions, sessionContinuation) = AsyncStream.makeStream(
            of: SessionInvitation.self, bufferingPolicy: .bufferingNewest(Self.maximumUnreadCount))
        let continuations = Listener.Continuations(
            invitations: invitationContinuation, verificationRequests: requestContinuation, sessions: sessionContinuation)
        start { [stopping] in
            _ = await stopping.value
            continuations.finish()
        }
        return Listener(
            invitations: invitations, verificationRequests: requests, sessionInvitations: sessions,
            continuations: continuations, service: service,
            record: SharedRecord(PeerTXTRecord(id: id, name: name, acceptsMeshLinks: joinsMesh, info: info)))
    }

    /// Opens a TCP port for a listener that has none, and advertises it.
    /// - Parameter port: 0 for a free port.
    /// - Returns: false when another socket has the port.
    package func openPort(_ port: UInt16, of listener: Listener) throws(NodeError) -> Bool {
        let socket: any StreamListener
        do throws(LinkError) {
            socket = try settings.transport.listen(port: port, interface: settings.interface)
        } catch {
            if error.code == .portInUse { return false }
            throw NodeError(error)
        }
        var advertisement: (any RunningAdvertisement)?
        if let discovery = settings.discovery {
            let tag = Hex.encode(settings.random(2))
            do {
                advertisement = try discovery.advertise(
                    Advertisement(
                        // Two processes with one identity may listen on one machine; the tag distinguishes them.
                        instance: "\(id.hex)-\(tag)", type: listener.service, port: socket.port,
                        txt: listener.record.current.strings, interface: settings.interface))
            } catch {
                socket.close()
                throw .unavailable(error.description)
            }
        }
        guard keep(socket, advertisement) else { throw .unavailable("the node is shutting down") }
        listener.endpoint.open(socket, advertisement)
        do throws(NodeError) {
            try startAccepting(from: socket, startMesh(of: listener), listener.continuations)
        } catch {
            closePort(of: listener)
            throw error
        }
        return true
    }

    /// Closes the TCP port of a listener and withdraws its advertisement. Existing links are served as before.
    package func closePort(of listener: Listener) {
        guard let (socket, advertisement) = listener.endpoint.close() else { return }
        if let advertisement {
            advertisement.stop()
            state.withLock { $0.listeners.remove(advertisement) }
        }
        remove(socket)
    }

    /// - Returns: nil for a listener that takes no frames.
    private func startMesh(of listener: Listener) -> MeshDriver? {
        guard listener.record.current.acceptsMeshLinks else { return nil }
        return startMesh(.lowerID, invitations: listener.continuations.invitations)
    }

    /// Limit on invitations and requests that the program has not read; the oldest are released, and so declined.
    private static let maximumUnreadCount = 256

    /// Accepts links on a thread of its own, until the listener is closed.
    private func startAccepting(
        from listener: any StreamListener, _ mesh: MeshDriver?, _ waiting: Listener.Continuations?
    ) throws(NodeError) {
        do throws(ThreadError) {
            let thread = try BlockingThread.start {
                // Ended by an error, it has nothing to serve any more.
                if !self.acceptLoop(listener, mesh, waiting) { waiting?.finish() }
            }
            start { await thread.join() }
        } catch {
            throw NodeError(error)
        }
    }

    /// Closes a listener.
    func remove(_ listener: any StreamListener) {
        state.withLock { $0.listeners.remove(listener) }
        listener.close()
    }

    /// Keeps a listener and its advertisement until the node shuts down.
    /// - Returns: false when it is shutting down already.
    func keep(_ listener: any StreamListener, _ advertisement: (any RunningAdvertisement)?) -> Bool {
        let isKept = state.withLock { state in
            guard !state.isShuttingDown else { return false }
            state.listeners.insert(listener, advertisement)
            return true
        }
        if !isKept {
            advertisement?.stop()
            listener.close()
        }
        return isKept
    }

    var knownRadio: Radio? { state.withLock { $0.radio } }

    /// - Returns: the radio to use, which another task may have opened first.
    func remember(_ radio: Radio) -> Radio {
        state.withLock { state in
            let chosen = state.radio ?? radio
            if !state.isShuttingDown { state.radio = chosen }
            return chosen
        }
    }

    // MARK: The mesh

    /// Joins the mesh through the neighbours nearby, without advertising this node: for sending.
    /// - Parameter usesRadio: also through the radio's neighbours, where the settings have one.
    package func joinMesh(usesRadio: Bool = true) -> MeshDriver {
        let mesh = startMesh(.always, invitations: nil)
        if usesRadio, settings.radio != nil {
            mesh.start { [self] in
                guard let radio = try? await openRadio() else { return }
                mesh.runLinks(of: radio.frames)
            }
        }
        return mesh
    }

    /// Starts the node's only mesh driver, or returns the one that runs.
    private func startMesh(_ initiative: MeshDriver.Initiative, invitations: AsyncStream<Invitation>.Continuation?)
        -> MeshDriver
    {
        let (mesh, isNew) = state.withLock { state in
            if let mesh = state.mesh { return (mesh, false) }
            let mesh = MeshDriver(settings, transfers, promptLimiter, invitations: invitations)
            state.mesh = mesh
            return (mesh, true)
        }
        guard isNew else { return mesh }
        start { await mesh.run() }
        if settings.discovery != nil {
            mesh.start { [self] in
                do {
                    let changes = try browseNetwork()
                    await mesh.maintainNeighbours(changes, initiative)
                } catch {
                    settings.log.error("\(error)")
                }
            }
        }
        if state.withLock({ $0.isShuttingDown }) { mesh.stop() }
        return mesh
    }

    /// Leaves the mesh for good, announces it, and returns when the messenger and the mesh have stopped; everything else goes
    /// on. A process calls this before another one with the same key takes its place.
    /// - Throws: ``NodeError/unavailable(_:)`` when discovery is no longer available.
    package func leaveMesh(_ receiving: Listener) async throws(NodeError) {
        try receiving.stopTakingFrames()
        guard let mesh = state.withLock({ $0.mesh }) else { return }
        mesh.stop()
        _ = await mesh.ended.value
    }

    // MARK: Sessions

    /// Starts a session without other members; ``Session/invite(_:context:secret:timeout:)`` adds them.
    ///
    /// Members connect to each other, so the node listens, on a port that is free unless it receives already.
    public func startSession(_ settings: SessionSettings = SessionSettings()) throws(NodeError) -> Session {
        if listeningPort == nil { try listenForMembers() }
        // Safe: `random` returns as many bytes as asked for.
        return makeSession(SessionID(bytes: self.settings.random(SessionID.byteCount))!, settings)
    }

    /// The TCP port of the first listener; nil when the node does not listen.
    var listeningPort: UInt16? { state.withLock { $0.listeners.port } }

    private func listenForMembers() throws(NodeError) {
        let listener: any StreamListener
        do {
            listener = try settings.transport.listen(port: 0, interface: settings.interface)
        } catch {
            throw NodeError(error)
        }
        state.withLock { $0.listeners.insert(listener, nil) }
        do throws(NodeError) {
            try startAccepting(from: listener, nil, nil)
        } catch {
            remove(listener)
            throw error
        }
    }

    /// Returns the session with this id, or creates it; there is at most one.
    func makeSession(_ id: SessionID, _ settings: SessionSettings) -> Session {
        let made = Session(id, settings, self)
        let (session, isShuttingDown) = state.withLock { state in
            let session = state.sessions[id] ?? made
            state.sessions[id] = session
            return (session, state.isShuttingDown)
        }
        guard session === made else {
            made.end()
            return session
        }
        start { await session.run() }
        if isShuttingDown { session.end() }
        return session
    }

    func session(_ id: SessionID) -> Session? { state.withLock { $0.sessions[id] } }

    func forget(_ session: Session) {
        state.withLock { state in
            if state.sessions[session.id] === session { state.sessions[session.id] = nil }
        }
    }

    // MARK: Incoming links

    /// Lets another process of the user serve the direct links that peers open over TCP.
    /// - Parameter receiver: nil for none. Returns false for a link that the node serves itself.
    package func passLinks(to receiver: (@Sendable (PassedLink) -> Bool)?) {
        state.withLock { $0.linkReceiver = receiver }
    }

    private func passOn(_ link: PrefixedLink) -> Bool {
        guard let receiver = state.withLock({ $0.linkReceiver }), let link = PassedLink(link) else { return false }
        return receiver(link)
    }

    /// Serves a link that another process has accepted.
    /// - Parameters:
    ///   - descriptor: owned by the node from now on.
    ///   - opening: the bytes that were read from it.
    package func serve(_ descriptor: Int32, opening: [UInt8], for listener: Listener) {
        guard let link = settings.transport.link(adopting: descriptor) else {
            return settings.log.error("a connection that the running node has passed on is not usable")
        }
        guard let ticket = admit(LinkSource(link.remote), link) else {
            settings.log.info("a connection from \(link.remote) was refused: too many")
            return link.close()
        }
        start { [self] in
            await serve(PrefixedLink(link, opening), listener.continuations, ticket)
            release(ticket)
        }
    }

    /// - Returns: false when the system refuses to accept connections any more.
    @discardableResult
    func acceptLoop(_ listener: any StreamListener, _ mesh: MeshDriver?, _ waiting: Listener.Continuations?) -> Bool {
        while true {
            do throws(LinkError) {
                let link = try listener.accept()
                guard let ticket = admit(LinkSource(link.remote), link) else {
                    settings.log.info("a connection from \(link.remote) was refused: too many")
                    link.close()
                    continue
                }
                start { [self] in
                    switch await LinkDemultiplexer(link, timeout: DirectLimits.handshakeTimeout) {
                    case .direct(let link):
                        if waiting == nil || !passOn(link) { await serve(link, waiting, ticket) }
                    case .frames(let link, let theirs):
                        // The mesh has limits of its own.
                        state.withLock { $0.links.attach(ticket, disuse: { _ in nil }, end: { link.close() }) }
                        if let mesh { await carryFrames(over: link, theirs, on: mesh) } else { link.close() }
                    case .nothing: link.close()
                    }
                    release(ticket)
                }
            } catch {
                guard error.code != .closed else { return true }
                settings.log.error("\(error)")
                return false
            }
        }
    }

    /// Gives a link that a peer has opened a place, if need be that of an untrusted link that nobody uses.
    /// - Returns: nil when all places are in use, or the address has left too many handshakes without a key.
    func admit(_ source: LinkSource, _ link: any StreamLink) -> LinkRegistry.Ticket? {
        let admission = state.withLock { state -> LinkRegistry.Admission in
            let now = settings.clock()
            if state.isShuttingDown || !state.handshakes.allows(link.remote.host, now: now) { return .refused }
            return state.links.admit(from: source, limits: settings.limits, now: now) { link.close() }
        }
        guard case .admitted(let ticket, let end) = admission else { return nil }
        end?()
        return ticket
    }

    private func recordFailedHandshake(of host: String) {
        state.withLock { $0.handshakes.recordFailure(of: host, now: settings.clock()) }
    }

    /// Releases the place of a link that has ended.
    func release(_ ticket: LinkRegistry.Ticket) { state.withLock { $0.links.release(ticket) } }

    private func carryFrames(over link: any StreamLink, _ theirs: Preamble, on mesh: MeshDriver) async {
        let version = Preamble.supportedMesh.newestInCommon(with: theirs)
        let answer = version.map { Preamble(kind: .mesh, newest: $0, oldest: $0) } ?? .supportedMesh
        let isAnswered = try? await BlockingThread.run { (try? LinkDemultiplexer.write(answer.encoded, to: link)) != nil }
        guard isAnswered == true, version != nil else { return link.close() }
        await mesh.run(over: link, isIncoming: true)
    }

    /// Handles an incoming link until it ends.
    /// - Parameters:
    ///   - waiting: receives the peer's offers; nil on a link for a session of this node.
    ///   - ticket: its place among the incoming links.
    ///   - expected: the peer at the other end; nil for any.
    func serve(
        _ link: any StreamLink, _ waiting: Listener.Continuations?, _ ticket: LinkRegistry.Ticket,
        expecting expected: PeerID? = nil
    ) async {
        let driver = makeDriver(link, .responder)
        state.withLock { state in
            state.links.attach(ticket, disuse: { driver.disuse(now: $0) }, end: { driver.close(.tooManyLinks) })
        }
        await run(driver) { [self] in
            var known = LinkPeerInfo(link.remote)
            var open = OpenInvitations()
            let linkEnd = Promise<TransferOutcome>()
            let peerConfirmed = Promise<Bool>()
            let visit = IncomingSessionLink(driver, link, linkEnd)
            defer { linkEnd.fulfil(.interrupted) }
            defer { if known.proven == nil { recordFailedHandshake(of: link.remote.host) } }
            for await event in driver.events {
                known.learn(from: event)
                switch event {
                case .established(let peer, _):
                    if let expected, peer.id != expected { driver.close(.violation) }
                    let trustStatus = settings.trustStatus(peer, nil)
                    if trustStatus.isBlocked { driver.close(.blocked) }
                    if trustStatus.isFriend { driver.reserve() }
                    let end = state.withLock { state in
                        state.links.settle(
                            ticket, isFriend: trustStatus.isFriend, limits: settings.limits, now: settings.clock())
                    }
                    end?()
                case .greeted: break
                case .verificationAnswered(let matches): peerConfirmed.fulfil(matches)
                case .shortCode(let code):
                    open.shortCodeIsReady(code)
                    visit.shortCodeIsReady(code)
                case .session(let frame): receive(frame, of: visit, known, waiting)
                case .verificationRequested:
                    guard let peer = known.peer(settings), let code = known.shortCode else { continue }
                    guard let waiting, let prompt = promptLimiter.admit(peer, on: .link(link.remote)) else {
                        // A "no" would mean that the codes differ.
                        driver.close(.unattended)
                        continue
                    }
                    waiting.verificationRequests.yield(
                        VerificationRequest(
                            peer: peer, shortCode: code, link: driver, end: linkEnd, peerConfirmed: peerConfirmed,
                            prompt: prompt))
                case .invited(let offer, let expiry):
                    if let (session, sessionLink) = visit.joined {
                        session.handle(offer, until: expiry, on: driver, known, &open, sessionLink)
                        continue
                    }
                    // An offer may arrive with the last handshake message, before a blocked peer is disconnected.
                    guard let peer = known.peer(settings), let waiting else { continue }
                    guard let prompt = promptLimiter.admit(peer, on: .link(link.remote)) else {
                        driver.decline(offer.id, because: .busy)
                        continue
                    }
                    let invitation = makeInvitation(offer, from: peer, until: expiry, on: driver, prompt: prompt)
                    open.insert(invitation, as: offer.id, known.shortCode)
                    waiting.invitations.yield(invitation)
                case .invitationEnded(let id, let outcome): open.end(id, outcome)
                case .closed(let end):
                    settings.log.debug("link from \(link.remote) ended: \(end)")
                    open.endAll()
                    visit.end()
                }
            }
        }
    }

    func makeInvitation(
        _ offer: TransferOffer, from peer: Peer, until expiry: MonotonicInstant, on driver: LinkDriver,
        prompt: PromptAdmission = .exempt
    ) -> Invitation {
        // The peer's id is unique on its own link only; the local one identifies the transfer in this node (A4).
        var progress = TransferProgress(
            id: settings.freshTransferID(), direction: .incoming, total: offer.offer.totalSize,
            totalEntries: offer.offer.entryCount)
        progress.phase = .waiting
        return Invitation(
            peer: peer, offer: offer.offer, contents: offer.contents, features: offer.features, context: offer.context,
            resumeKey: offer.resumeKey,
            expiry: expiry,
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: transfers,
            answering: Invitation.Answering(
                accept: { transfer, sink, part, keepsPartial in
                    driver.accept(offer, part: part, transfer: transfer, sink: sink, keepsPartial: keepsPartial)
                },
                decline: { driver.decline(offer.id, because: $0) }, prompt: prompt))
    }

    // MARK: Sending

    /// Connects to a peer. Transfers and requests on the connection end with `body`.
    /// - Parameter body: receives the connection, whose peer has proven the expected key.
    public func withConnection<Result: Sendable>(
        to destination: PeerDestination, body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        let link = try await connect(to: destination)
        let driver = makeDriver(link, .initiator)
        let answer: Swift.Result<Result, any Error> = await run(driver) { [self] in
            do {
                let connection = try await Connection.open(driver, link.remote, destination, settings, transfers)
                let result = try await connection.following(body)
                driver.close(.done)
                return .success(result)
            } catch {
                driver.close(.goingAway)
                return .failure(error)
            }
        }
        return try answer.get()
    }

    func connect(to destination: PeerDestination) async throws(NodeError) -> any StreamLink {
        var failure = NodeError.unreachable("no address to connect to")
        for address in destination.addresses {
            let transport: any StreamTransport
            switch address.medium {
            case .network: transport = settings.transport
            case .bluetooth: transport = try await openRadio().transport
            }
            let time = settings.limits.connectTime
            let outcome: Result<any StreamLink, LinkError>
            do throws(ThreadError) {
                outcome = try await BlockingThread.run {
                    do throws(LinkError) {
                        return .success(try transport.connect(to: address, timeout: time))
                    } catch {
                        return .failure(error)
                    }
                }
            } catch {
                throw NodeError(error)
            }
            switch outcome {
            case .success(let link): return link
            case .failure(let error):
                settings.log.debug("\(error)")
                failure = NodeError(error)
            }
        }
        throw failure
    }

    // MARK: Links

    /// Runs a link's threads beside `body`, and waits for both.
    func run<Result: Sendable>(_ driver: LinkDriver, _ body: @escaping @Sendable () async -> Result) async -> Result {
        let isWelcome = state.withLock { state in
            state.links.insert(driver)
            return !state.isShuttingDown
        }
        if !isWelcome { driver.close(.goingAway) }
        async let threads: Void = driver.run()
        let result = await body()
        await threads
        state.withLock { $0.links.remove(driver) }
        return result
    }

    func makeDriver(_ link: any StreamLink, _ role: HandshakeRole) -> LinkDriver {
        var limits = settings.limits.connection
        // Links that this node has opened are its program's concern.
        if role == .responder { limits.disuseTimeout = settings.limits.disuseTimeout }
        return LinkDriver(
            link: link,
            parts: LinkDriver.Parts(
                role: role, identity: settings.identity, name: settings.name, ciphers: RecordCiphers.here,
                encryption: settings.encryption, limits: limits, clock: settings.clock,
                wallClock: settings.wallClock, random: settings.random))
    }
}
