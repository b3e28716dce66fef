internal import Logging
package import NearshareBase
package import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

/// This node's participation in the mesh: frames go from neighbour to neighbour, to peers on other networks, and to phones that
/// run bitchat. Created by ``Node/joinMesh(usesRadio:)``.
///
/// ``RouterDriver`` runs the router and its links. This class passes the router's events, one after the other in ``run()``, to the
/// parts that act on them, and owns the tasks of the mesh.
///
///     NeighbourConnector ──links──► RouterDriver ──events──► MeshDriver ──► MeshPeers: who is there
///                                        ▲                        ├───────► MeshSender, MeshReceiver: files and texts
///                                        │                        ├───────► MeshQueries: pings, verification
///                                        └──────── requests ──────┴───────► BundleDriver, Messenger
package final class MeshDriver: Sendable {
    let settings: NodeSettings
    private let router: RouterDriver
    let neighbours: NeighbourConnector
    let knownPeers: MeshPeers
    let sender: MeshSender
    let receiver: MeshReceiver
    let queries: MeshQueries
    /// The driver that stores and forwards bundles; nil until it is started.
    let bundles = Mutex<BundleDriver?>(nil)
    /// The receiver of message events; it returns false for a text that is to be offered like a file. nil when all texts are
    /// offered.
    let messageHandler = Mutex<Handler<MeshMessageEvent, Bool>?>(nil)
    /// Fulfilled when all threads and tasks of the mesh have ended.
    let ended = Promise<Void>()
    private let tasks = OwnedTasks()
    private let pacer = Mutex(MeshLinkPacer())

    init(
        _ settings: NodeSettings, nodeTasks: OwnedTasks, _ transfers: TransferProgressManager,
        _ promptLimiter: SharedPromptLimiter, invitations: AsyncQueue<Invitation>?
    ) {
        self.settings = settings
        router = RouterDriver(settings)
        neighbours = NeighbourConnector(settings, router, tasks)
        knownPeers = MeshPeers(router, clock: settings.clock)
        sender = MeshSender(settings, router: router, tasks: tasks, transfers: transfers)
        receiver = MeshReceiver(
            settings, router: router, tasks: tasks, nodeTasks: nodeTasks, transfers: transfers, promptLimiter: promptLimiter,
            invitations: invitations)
        queries = MeshQueries(settings, router, tasks)
    }

    // MARK: Lifecycle

    /// Runs until the node stops and all links have ended. Without a thread for the router's deadlines there is no mesh.
    func run() async {
        do {
            let timer = try BlockingThread.start { self.router.runTimer() }
            await withDiscardingTaskGroup { group in
                group.addTask { await timer.join() }
                group.addTask { await self.followContacts() }
                group.addTask {
                    await self.router.events.run { self.handle($0) }
                    self.knownPeers.finishChanges()
                }
                group.addTask {
                    await self.knownPeers.runChanges { self.handlePeerChanges($0) }
                }
                await tasks.run()
            }
        } catch {
            settings.log.error("mesh: \(error)")
            stop()
            // Each task sees that the mesh has stopped, and ends what it was started for.
            await tasks.run()
        }
        sender.interruptAll()
        receiver.interruptAll()
        ended.fulfil()
    }

    /// Runs a task that ``run()`` waits for.
    /// - Returns: false when the mesh has stopped; then the task is not run.
    @discardableResult
    func start(_ job: @escaping OwnedTasks.Job) -> Bool { tasks.start(job) }

    /// Announces to the neighbours that this node leaves, lets queued frames go out, and ends the links.
    func stop() {
        receiver.declineOpenOffers()
        router.stop()
        bundles.withLock { $0 }?.stop()
        tasks.finish()
    }

    var isStopping: Bool { router.isStopping }

    /// Fulfilled when the node stops.
    var stopping: Promise<Void> { tasks.stopping }

    // MARK: The router

    /// Changes the router; its events are handled in their order by ``run()``.
    @discardableResult
    func update<Result, Failure: Error>(
        _ body: (inout MeshRouter, Moment) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try router.update(body)
    }

    func read<Result>(_ body: (MeshRouter) -> Result) -> Result { router.read(body) }

    /// Exchanges frames over a link that a neighbour has opened, until the link ends.
    func run(over link: any StreamLink) async {
        guard await admit(link) else {
            if !isStopping {
                settings.log.debug("mesh: link to \(link.remote) closed: it was not admitted within the rate of its address")
            }
            return link.close()
        }
        guard let id = await awaitSlot(for: link) else {
            if !isStopping { settings.log.debug("mesh: link to \(link.remote) closed: it got no slot") }
            return link.close()
        }
        await router.run(over: link, as: id)
    }

    /// Gives a neighbour's link a slot in the mesh: at once when there is room or another link gives way, otherwise after the
    /// links of its source that have waited longer.
    /// - Returns: nil at the timeout, when the peer has closed the link, or when the node stops.
    private func awaitSlot(for link: any StreamLink) async -> MeshLinkID? {
        let hasPredecessors = pacer.withLock { $0.hasLinksAwaitingSlot(from: link.remote) }
        if !hasPredecessors, let id = router.add(link) { return id }
        let step = pacer.withLock { pacer in
            pacer.awaitSlot(link.remote, isOpen: { !link.isFinishedByPeer }, now: settings.clock())
        }
        var slot: MeshLinkID?
        _ = await WaitingLinks.awaitTurn(
            after: step, stopping: tasks.stopping,
            admit: { number in
                guard pacer.withLock({ $0.isNext(number) }), let id = router.add(link) else {
                    return pacer.withLock { $0.awaitSlotLonger(number, now: settings.clock()) }
                }
                slot = id
                pacer.withLock { $0.removeAwaitingSlot(number) }
                return .serve
            },
            remove: { number in pacer.withLock { $0.removeAwaitingSlot(number) } })
        return slot
    }

    private func admit(_ link: any StreamLink) async -> Bool {
        let step = pacer.withLock { pacer in
            pacer.admit(link.remote, isOpen: { !link.isFinishedByPeer }, now: settings.clock())
        }
        return await WaitingLinks.awaitTurn(
            after: step, stopping: tasks.stopping,
            admit: { number in pacer.withLock { $0.admit(waited: number, now: settings.clock()) } },
            remove: { number in pacer.withLock { $0.remove(number) } })
    }

    // MARK: Peers

    /// All peers that have announced themselves: neighbours, and peers behind relays.
    package var peers: [MeshPeer] { knownPeers.all }

    /// The strength of the advertisement of a neighbour over Bluetooth that this machine received last; nil where none is known.
    package func signal(of id: PeerID) -> SignalReading? { router.signal(of: id) }

    /// Waits for the peer that `text` selects: an id, a name, or the beginning of one.
    /// - Parameter settlingTime: for other peers to appear before a name is decided, where that is longer than the usual time:
    ///   neighbours are connected one after the other.
    /// - Throws: ``NodeError``; `CancellationError`.
    package func find(
        _ text: String, knownAs ids: Set<PeerID> = [], settlingTime: Duration = .zero, timeout: Duration
    ) async throws -> MeshPeer {
        try await knownPeers.find(text, knownAs: ids, settlingTime: settlingTime, timeout: timeout)
    }

    /// Waits until there is a neighbour to which something for everyone can be sent.
    /// - Returns: false at the timeout.
    package func awaitNeighbour(timeout: Duration) async -> Bool { await knownPeers.awaitNeighbour(timeout: timeout) }

    // MARK: Sending

    /// Sends a file of at most 5 MiB, or a text, to a peer of the mesh, or to everyone.
    ///
    /// A nearshare peer is asked first. Phones receive it without being asked, and confirm little: a transfer to a phone is
    /// complete when all of it was sent.
    /// - Parameters:
    ///   - peer: nil for everyone.
    ///   - isEncrypted: false for a file that may be readable by all relays, for an app that takes no other; see
    ///     ``MeshRouter/sendFile(_:to:isSealed:now:)``.
    ///   - timeout: an offer that is not accepted within this time is withdrawn, and has expired.
    /// - Throws: ``NodeError/unavailable(_:)`` for a folder or several items.
    package func send(
        _ source: any ResourceSource, to peer: MeshPeer?, isEncrypted: Bool = true, timeout: Duration = .seconds(60)
    ) throws(NodeError) -> Transfer {
        try sender.send(source, to: peer, isEncrypted: isEncrypted, timeout: timeout)
    }

    /// The shortest possible duration of a file transfer to a peer, by the number and pacing of its fragments; nil for a file
    /// that is too large.
    package func estimate(byteCount: UInt64, to peer: MeshPeer) -> Duration? {
        sender.estimate(byteCount: byteCount, to: peer)
    }
}
