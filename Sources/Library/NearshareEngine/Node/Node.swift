internal import Logging
public import NearshareBase
internal import NearshareCrypto
package import NearshareDirect
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

/// This machine among its peers: sends, receives, finds. It owns everything that it starts, and runs until the end of the closure
/// that `LocalMachine.run` calls, or until ``stop()``.
public final class Node: Sendable {
    struct State {
        var links = LinkRegistry()
        var unreadLinks = UnreadLinks()
        /// Links that are only told that there is no slot for them.
        var refusals = RefusedLinks()
        var handshakes = HandshakePacer()
        var listeners = ListenerRegistry()
        var mesh: MeshDriver?
        var radio: Radio?
        var sessions: [SessionID: Session] = [:]
        var networkMonitor: (any NetworkMonitor)?
        var hasWarnedOfOtherMachine = false
        /// This node as a LocalSend device; nil where it is none.
        var localSend: LocalSendServer?
        var linkReceiver: (@Sendable (PassedLink) async -> Bool)?
        var isShuttingDown = false
    }

    /// All transfers that this node takes part in, in either direction.
    public let transferProgress = TransferProgressManager()
    let settings: NodeSettings
    /// Opened when all tasks and threads of the node have ended.
    private let ended = Latch()
    /// Shared by the extensions of this folder.
    let state = Mutex(State())
    let tasks = OwnedTasks()
    /// Locked before ``state``, while a session is started or the port of a room is closed: sessions without a room share a port.
    let sessionPort = Mutex(())
    /// Bounds what untrusted peers may ask the user, on all paths (R11).
    let promptLimiter: SharedPromptLimiter

    init(_ settings: NodeSettings) {
        self.settings = settings
        promptLimiter = SharedPromptLimiter(clock: settings.clock) { [log = settings.log] peer in
            log.warning("too many offers or requests within a minute: one of \(peer) was declined unseen, and more may be")
        }
    }

    /// The name that other peers see.
    public var name: DisplayName { settings.name }
    /// Lifetime of a secure session in the mesh.
    package var sessionLifetime: Duration { settings.meshSessionLifetime }
    /// The node's identifier: the first 8 bytes of its fingerprint.
    public var id: PeerID { settings.identity.peerID }

    // MARK: Scope

    /// Starts a node that runs until ``stop()``.
    package static func start(_ settings: NodeSettings) -> Node {
        let node = Node(settings)
        // Owned: by the node; it ends with `stop()`, which waits for that.
        Task { await node.run() }
        return node
    }

    func run() async {
        await tasks.run()
        ended.open()
    }

    /// Ends the node's sessions, transfers, links and advertisements, and waits for its tasks and threads. Afterwards its
    /// operations throw errors. ``Session/leave(waiting:)`` before it waits until sent messages have arrived.
    ///
    /// Further calls wait as well. So do calls of cancelled tasks; a call inside of a closure that the node awaits, such as that
    /// of a ``TrustPolicy``, does not wait.
    public func stop() async {
        beginShutdown()
        guard !tasks.isCurrent else { return }
        await ended.wait()
    }

    /// Fulfilled when the node begins to stop.
    var stopping: Promise<Void> { tasks.stopping }

    /// Whether the node stops, or has stopped: no link that ends then was lost.
    package var isShuttingDown: Bool { state.withLock(\.isShuttingDown) }

    /// Waits until the node begins to stop, or the task is cancelled.
    package func waitUntilStopping() async { _ = await stopping.value }

    /// Claims the key for a session of this process, until the session is over and the returned value is released.
    /// - Returns: nil also for a node that is stopping, whose sessions end at once.
    func claimSessions() throws(NodeError) -> (any Sendable)? {
        guard !state.withLock(\.isShuttingDown) else { return nil }
        return try settings.claimSessions()
    }

    /// Starts a task that the node awaits before it ends.
    /// - Returns: false when the node is stopping; then the task is not run, and whatever waits for its outcome must be told.
    @discardableResult
    func start(_ job: @escaping OwnedTasks.Job) -> Bool { tasks.start(job) }

    /// Begins an orderly shutdown: declines invitations, stops transfers so that they can be resumed, and informs the peers.
    package func beginShutdown() {
        let (links, listeners, mesh, sessions, monitor) = state.withLock { state in
            state.isShuttingDown = true
            state.radio = nil
            return (
                state.links.running, state.listeners.removeAll(), state.mesh, Array(state.sessions.values),
                state.networkMonitor
            )
        }
        monitor?.close()
        for session in sessions { session.end() }
        listeners.close()
        for link in links { link.close(.goingAway) }
        mesh?.stop()
        tasks.finish()
    }

    // MARK: Receiving

    /// Listens, advertises, and delivers what peers offer. Ends when the node shuts down.
    ///
    /// A node has one listener for each type. After ``Listener/stopAdvertising()``, a further call advertises it again, with the
    /// new `info`, and returns it: its port, radio and part in the mesh stay, and so do its unread invitations and its reader.
    /// - Parameters:
    ///   - service: the service type to advertise.
    ///   - info: key-value pairs to advertise, at most 12 with 400 bytes in total; ``Listener/update(info:)`` changes them. Keys
    ///     are printable ASCII without an equals sign, not equal without regard to case, and none of v, id, n and m.
    ///   - port: 0 for a free port.
    ///   - usesRadio: listens over the radio as well, where the settings have one; it is ready a moment later.
    ///   - joinsMesh: relays frames for other peers, and receives over the mesh. Only one process per key may do so. nil to do so
    ///     under the service type of nearshare only.
    /// - Throws: ``NodeError/invalidParameter(_:)`` for pairs that break the rules, and when this node listens under the service
    ///   type already; ``NodeError/unavailable(_:)`` when another socket has the port, when this node cannot listen there or advertise
    ///   it, and when it is stopping or has stopped.
    public func listen(
        as service: ServiceType = .nearshare, info: [String: String] = [:], port: UInt16 = 0,
        usesRadio: Bool = true, joinsMesh: Bool? = nil
    ) throws(NodeError) -> Listener {
        let info = try DiscoveryInfo(checking: info)
        let listener = closedListener(as: service, info: info, joinsMesh: joinsMesh ?? (service == .nearshare))
        if let present = state.withLock({ $0.listeners.beginReceiving(listener) }) {
            try advertiseAgain(present, info, port: port)
            return present
        }
        do throws(NodeError) {
            guard try openPort(port, of: listener) else { throw NodeError(LinkError.portInUse(port)) }
        } catch {
            state.withLock { $0.listeners.endReceiving(listener) }
            throw error
        }
        finishQueues(of: listener)
        if usesRadio { startRadio(for: listener) }
        return listener
    }

    /// Advertises a listener that has stopped advertising.
    private func advertiseAgain(_ listener: Listener, _ info: DiscoveryInfo, port: UInt16) throws(NodeError) {
        // Peers would send to the one or the other of two listeners.
        guard let (attempt, former) = listener.endpoint.beginAdvertising(onPort: port) else {
            throw .invalidParameter(
                "this node listens as \(listener.service.name) on port \(listener.port) already; use that listener")
        }
        if let former { state.withLock { $0.listeners.remove(former) } }
        let advertisement: (any RunningAdvertisement)?
        do throws(NodeError) {
            let record = listener.record.change { $0.info = info }
            advertisement = try advertise(record, as: listener.service, port: listener.port)
        } catch {
            listener.stopAdvertising()
            throw error
        }
        guard insert(nil, advertisement) else { throw Self.stoppedError }
        // Withdrawn again, or closed, meanwhile.
        if !listener.endpoint.finishAdvertising(advertisement, attempt: attempt) { remove(advertisement) }
    }

    /// Listens over the radio as well, where the settings have one; it is ready a moment later.
    package func startRadio(for listener: Listener) {
        guard settings.radio != nil else { return }
        startRadio(startMesh(of: listener), queues: listener.queues, state: listener.radioEvent)
    }

    /// A listener without a port: it serves links that another process passes, and those of a port that is opened later.
    package func makeListener(
        as service: ServiceType = .nearshare, info: DiscoveryInfo = .none, joinsMesh: Bool
    ) -> Listener {
        let listener = closedListener(as: service, info: info, joinsMesh: joinsMesh)
        finishQueues(of: listener)
        return listener
    }

    private func closedListener(as service: ServiceType, info: DiscoveryInfo, joinsMesh: Bool) -> Listener {
        Listener(
            queues: Listener.Queues(), service: service,
            record: SharedRecord(PeerTXTRecord(id: id, name: name, acceptsMeshLinks: joinsMesh, info: info)))
    }

    /// Ends the sequences of a listener when the node stops.
    private func finishQueues(of listener: Listener) {
        let isStarted = start { [stopping, queues = listener.queues] in
            _ = await stopping.value
            queues.finish()
        }
        if !isStarted { listener.queues.finish() }
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
        let advertisement: (any RunningAdvertisement)?
        do throws(NodeError) {
            advertisement = try advertise(listener.record.current, as: listener.service, port: socket.port)
        } catch {
            socket.close()
            throw error
        }
        guard insert(socket, advertisement) else { throw Self.stoppedError }
        listener.endpoint.open(socket, advertisement)
        do throws(NodeError) {
            try startAccepting(from: socket, startMesh(of: listener), queues: listener.queues)
        } catch {
            closePort(of: listener)
            throw error
        }
        return true
    }

    /// Advertises a port of this node.
    /// - Returns: nil without discovery.
    func advertise(
        _ record: PeerTXTRecord, as service: ServiceType, port: UInt16
    ) throws(NodeError) -> (any RunningAdvertisement)? {
        guard let discovery = settings.discovery else { return nil }
        findMembers(for: service)
        let tag = Hex.encode(settings.random(2))
        do {
            return try discovery.advertise(
                Advertisement(
                    // Two processes with one identity may listen on one machine; the tag distinguishes them.
                    instance: "\(id.hex)-\(tag)", type: service, port: port, txt: record.strings,
                    interface: settings.interface))
        } catch {
            throw .unavailable(error.description)
        }
    }

    /// Closes the TCP port of a listener and withdraws its advertisement. Existing links are served as before.
    package func closePort(of listener: Listener) {
        state.withLock { $0.listeners.endReceiving(listener) }
        guard let (socket, advertisement) = listener.endpoint.close() else { return }
        remove(advertisement)
        remove(socket)
    }

    private func remove(_ advertisement: (any RunningAdvertisement)?) {
        guard let advertisement else { return }
        advertisement.stop()
        state.withLock { $0.listeners.remove(advertisement) }
    }

    /// - Returns: nil for a listener that takes no frames.
    func startMesh(of listener: Listener) -> MeshDriver? {
        guard listener.record.current.acceptsMeshLinks else { return nil }
        return startMesh(initiator: .lowerID, invitations: listener.queues.invitations)
    }

    /// Accepts links on a thread of its own, until the listener is closed.
    func startAccepting(
        from listener: any StreamListener, _ mesh: MeshDriver?, queues: Listener.Queues?
    ) throws(NodeError) {
        do throws(ThreadError) {
            let thread = try BlockingThread.start {
                // Ended by an error, it has nothing to serve any more.
                if !self.acceptLoop(listener, mesh, queues: queues) { queues?.finish() }
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

    /// Adds a listener and its advertisement, which stay until the node shuts down.
    /// - Parameter listener: nil for an advertisement of one that was added before.
    /// - Returns: false when it is shutting down already.
    func insert(_ listener: (any StreamListener)?, _ advertisement: (any RunningAdvertisement)?) -> Bool {
        let isKept = state.withLock { state in
            guard !state.isShuttingDown else { return false }
            state.listeners.insert(listener, advertisement)
            return true
        }
        if !isKept {
            advertisement?.stop()
            listener?.close()
        }
        return isKept
    }

    static var stoppedError: NodeError { .unavailable("the node is stopping, or has stopped; start another one") }

    var openedRadio: Radio? { state.withLock { $0.radio } }

    /// - Returns: the radio to use, which another task may have opened first.
    func setRadio(_ radio: Radio) -> Radio {
        state.withLock { state in
            let chosen = state.radio ?? radio
            if !state.isShuttingDown { state.radio = chosen }
            return chosen
        }
    }

    // MARK: Links

    /// Runs a link's threads beside `body`, and waits for both.
    func run<Result: Sendable>(_ driver: LinkDriver, _ body: @escaping @Sendable () async -> Result) async -> Result {
        let isWelcome = state.withLock { state in
            state.links.insert(driver)
            return !state.isShuttingDown
        }
        if !isWelcome { driver.close(.goingAway) }
        if driver.localNetworkHost != nil { startNetworkMonitor() }
        async let threads: Void = driver.run()
        let result = await body()
        await threads
        state.withLock { $0.links.remove(driver) }
        return result
    }

    func makeDriver(_ link: any StreamLink, _ role: HandshakeRole) -> LinkDriver {
        var limits = settings.limits.connection
        // Links that this node has opened are its program's concern.
        if role == .responder { limits.unusedLinkTimeout = settings.limits.unusedLinkTimeout }
        return LinkDriver(
            link: link,
            parameters: LinkDriver.Parameters(
                role: role, identity: settings.identity, name: settings.name, ciphers: RecordCiphers.local,
                encryption: settings.encryption, limits: limits, clock: settings.clock,
                wallClock: settings.wallClock, random: settings.random))
    }
}
