internal import Logging
package import NearshareBase
internal import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

/// This node's participation in the mesh: frames go from neighbour to neighbour, to peers on other networks, and to phones that
/// run bitchat. Created by ``Node/joinMesh(usesRadio:)``.
///
/// ``RouterDriver`` runs the router and its links. This class turns the router's events into transfers and invitations, one
/// after the other in ``run()``, and owns the tasks of the mesh.
package final class MeshDriver: Sendable {
    let settings: NodeSettings
    let transfers: TransferProgressManager
    /// Receives the offers of peers; nil for a node that accepts none.
    let invitations: AsyncStream<Invitation>.Continuation?
    let router: RouterDriver
    let outgoing = Mutex(OutgoingMeshTransfers())
    let incoming = Mutex(IncomingMeshTransfers())
    let promptLimiter: SharedPromptLimiter
    /// The driver that stores and forwards bundles; nil until it is started.
    let bundles = Mutex<BundleDriver?>(nil)
    /// The receiver of message events; it returns false for a text that is to be offered like a file. nil when all texts are
    /// offered.
    let messageHandler = Mutex<Handler<MeshMessageEvent, Bool>?>(nil)
    /// Fulfilled when the node stops.
    let stopping = Promise<Bool>()
    /// Fulfilled when all threads and tasks of the mesh have ended.
    let ended = Promise<Bool>()
    /// The latest decisions about bundles, for diagnosis.
    let bundleTrace: BundleTrace
    /// Answers of peers to pings and challenges.
    let answers = Broadcast<MeshEvent>()
    /// Peers that appeared, changed or left.
    let peerChanges = Broadcast<PeerID>()
    /// Peers that appeared, changed or left, for consumers whose work grows with the number of peers.
    let collectedPeerChanges: ChangeCollector<PeerID>
    /// Whether the links of the radio are served.
    let servesRadio = Mutex(false)
    private let tasks = OwnedTasks()

    init(
        _ settings: NodeSettings, _ transfers: TransferProgressManager, _ promptLimiter: SharedPromptLimiter,
        invitations: AsyncStream<Invitation>.Continuation?
    ) {
        self.settings = settings
        self.promptLimiter = promptLimiter
        self.transfers = transfers
        self.invitations = invitations
        router = RouterDriver(settings)
        bundleTrace = BundleTrace(wallClock: settings.wallClock)
        collectedPeerChanges = ChangeCollector(clock: settings.clock)
    }

    // MARK: Life

    /// Runs until the node stops and all links have ended. Without a thread for the router's deadlines there is no mesh.
    func run() async {
        do {
            let timer = try BlockingThread.start { self.router.runTimer() }
            await withDiscardingTaskGroup { group in
                group.addTask { await timer.join() }
                group.addTask {
                    await self.router.events.run { self.handle($0) }
                    self.collectedPeerChanges.finish()
                }
                group.addTask {
                    await self.collectedPeerChanges.run { self.handlePeerChanges($0) }
                }
                await tasks.run()
            }
        } catch {
            settings.log.error("mesh: \(error)")
            stop()
            // Each task sees that the mesh has stopped, and ends what it was started for.
            await tasks.run()
        }
        interruptAll()
        ended.fulfil(true)
    }

    /// Runs a task that ``run()`` waits for.
    /// - Returns: false when the mesh has stopped; then the task is not run.
    @discardableResult
    func start(_ job: @escaping OwnedTasks.Job) -> Bool { tasks.start(job) }

    /// Announces to the neighbours that this node leaves, lets queued frames go out, and ends the links.
    func stop() {
        router.stop()
        bundles.withLock { $0 }?.stop()
        stopping.fulfil(true)
        tasks.finish()
    }

    var isStopping: Bool { router.isStopping }

    // MARK: The router

    /// Changes the router; its events are handled in their order by ``run()``.
    @discardableResult
    func update<Result, Failure: Error>(
        _ body: (inout MeshRouter, Moment) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try router.update(body)
    }

    func read<Result>(_ body: (MeshRouter) -> Result) -> Result { router.read(body) }

    /// Exchanges frames over a link until it ends.
    /// - Parameter isIncoming: the neighbour has opened it.
    func run(over link: any StreamLink, isIncoming: Bool = false) async {
        await router.run(over: link, .stream, isIncoming: isIncoming)
    }

    /// Exchanges frames over a link until it ends.
    func run(over link: any FrameLink) async { await router.run(over: link) }

    // MARK: Peers

    /// All peers that have announced themselves: neighbours, and peers behind relays.
    package var peers: [MeshPeer] { read { $0.knownPeers } }

    /// Waits for the peer that `text` selects: an id, a name, or the beginning of one.
    /// - Throws: ``NodeError``; `CancellationError`.
    package func find(
        _ text: String, knownAs ids: Set<PeerID> = [], timeout: Duration
    ) async throws -> MeshPeer {
        // Subscribed before the peers are read, so that no change is lost between the two.
        let changes = peerChanges.subscribe()
        let finder = PeerFinder(text: text, knownAs: ids, clock: settings.clock)
        for peer in peers { finder.receive(.present(Self.nearby(peer))) }
        let found = try await finder.find(timeout: timeout) { update in
            for await id in changes {
                update(self.read { $0.peer(id) }.map { .present(Self.nearby($0)) } ?? .absent(id))
            }
        }
        // The peer may have just left.
        guard let peer = read({ $0.peer(found.id) }) else { throw NodeError.notFound(text, nearby: []) }
        return peer
    }

    private static func nearby(_ peer: MeshPeer) -> NearbyPeer { NearbyPeer(id: peer.id, name: peer.name, addresses: []) }
}
