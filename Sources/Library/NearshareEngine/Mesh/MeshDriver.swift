internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

/// This node's place in the mesh: frames go from neighbour to neighbour, to people with whom we share no network, and to phones
/// that run bitchat. Made by ``Node/joinMesh(interface:)``.
///
/// ``MeshRouter`` decides. Each link has a thread that reads and one that writes; one more keeps the router's deadlines; what
/// the router tells is dealt with one after the other in ``run()``.
package final class MeshDriver: Sendable {
    struct State {
        var router: MeshRouter
        /// What cuts each.
        var links: [MeshLinkID: @Sendable () -> Void] = [:]
        var lastLink: UInt64 = 0
        /// Says goodbye; what is queued still goes out.
        var isStopping = false
    }

    /// What the router's files are here.
    struct Files {
        var outgoing: [MeshFileKey: Outgoing] = [:]
        var texts: [TransferID: OutgoingText] = [:]
        var invitations: [MeshFileKey: WaitingInvitation] = [:]
        var incoming: [MeshFileKey: Incoming] = [:]
        /// Came for everybody, from people whose keys are not proven yet.
        var unproven: [PeerID: [MeshReceivedFile]] = [:]
        /// Texts that a person was asked about, the oldest first: they come again until they are acknowledged.
        var offeredTexts: [(key: OfferedText, isTaken: Bool)] = []
        /// Bytes of files that came without being offered, and that nobody has decided about.
        var undecidedByteCount = 0
        var limiter = InvitationRateLimiter()
    }

    /// A text that somebody offers, by the id that they have given it.
    struct OfferedText: Hashable {
        let id: String
        let sender: PeerID
    }

    /// One of our files on its way.
    struct Outgoing {
        let transfer: Transfer
        let peer: MeshPeer
        let size: UInt64
        /// Withdrawn because nobody has answered.
        var isExpired = false
    }

    /// A text of ours on its way, in one message or several.
    struct OutgoingText {
        let transfer: Transfer
        let peer: MeshPeer
        var unacknowledged: Set<String>
    }

    struct WaitingInvitation {
        weak var invitation: Invitation?
    }

    /// A file that a person here has accepted, and that is still coming.
    struct Incoming {
        let transfer: Transfer
        let sink: AcceptedSink
        let size: UInt64
    }

    /// Used by one thread at a time: the one that delivers.
    struct AcceptedSink: @unchecked Sendable {
        let sink: any ResourceSink
    }

    typealias Job = @Sendable () async -> Void

    let settings: NodeSettings
    let transfers: TransferProgressManager
    let files = Mutex(Files())
    /// Messages that others carry, once they are wanted.
    let messages = Mutex<BundleDriver?>(nil)
    /// Who takes texts that come through the mesh; nil where they are offered as files are.
    let texts = Mutex<(@Sendable (MeshText) -> Bool)?>(nil)
    /// Where what others offer goes; nil for a node that takes nothing.
    let invitations: AsyncStream<Invitation>.Continuation?
    /// Peers that came, changed or went.
    let peerChanges = Broadcast<PeerID>()
    /// The node stops.
    let stopping = Promise<Bool>()
    /// All threads and tasks of the mesh have ended.
    let ended = Promise<Bool>()
    private let state: Monitor<State>
    private let events: AsyncStream<MeshEvent>
    private let eventContinuation: AsyncStream<MeshEvent>.Continuation
    private let jobs: AsyncStream<Job>
    private let jobContinuation: AsyncStream<Job>.Continuation

    /// Neighbours at once, ours and others' links together.
    static let maximumLinks = 16
    private static let readByteCount = 64 << 10
    /// What is left to write when the node stops has this long.
    private static let farewellTime = Duration.milliseconds(500)

    init(_ settings: NodeSettings, _ transfers: TransferProgressManager, invitations: AsyncStream<Invitation>.Continuation?) {
        self.settings = settings
        self.transfers = transfers
        self.invitations = invitations
        var routing = MeshRouter.Settings()
        routing.sessionLifetime = settings.meshSessionLifetime
        state = Monitor(
            State(
                router: MeshRouter(
                    identity: settings.identity, name: settings.name, settings: routing,
                    random: KernelRandom(draw: settings.random))))
        (events, eventContinuation) = AsyncStream.makeStream()
        (jobs, jobContinuation) = AsyncStream.makeStream()
    }

    // MARK: Life

    /// Runs until the node stops and all links have ended.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await BlockingThread.run { self.keepTime() } }
            group.addTask {
                for await event in self.events { self.take(event) }
            }
            for await job in jobs { group.addTask { await job() } }
        }
        abandonAll()
        ended.fulfil(true)
    }

    /// Something that runs beside, and that the node's end waits for.
    func start(_ job: @escaping Job) {
        jobContinuation.yield(job)
    }

    /// Tells the neighbours, lets what is queued go out, and ends the links.
    func stop() {
        let now = moment
        state.update { state in
            guard !state.isStopping else { return }
            state.router.leave(now: now)
            state.isStopping = true
        }
        messages.withLock { $0 }?.stop()
        stopping.fulfil(true)
        jobContinuation.finish()
    }

    /// Carries frames over a link until it ends.
    func carry(_ link: any StreamLink, _ profile: MeshLinkProfile = .stream) async {
        await carry(
            to: link.remote, profile, close: { link.close() }, reading: { self.readLoop($0, link) },
            writing: { self.writeLoop($0, link) })
    }

    /// Carries frames over a link that keeps each whole until it ends.
    func carry(_ link: any FrameLink) async {
        // Not even the smallest fragment goes through: a radio that has not agreed on more than the standard's least.
        guard link.maximumFrameByteCount >= MeshLinkProfile.smallestWrite else { return link.close() }
        let profile = MeshLinkProfile(maximumFrameByteCount: link.maximumFrameByteCount, isRadio: true)
        await carry(
            to: link.remote, profile, close: { link.close() }, reading: { self.readLoop($0, link) },
            writing: { self.writeLoop($0, link) })
    }

    private func carry(
        to remote: LinkAddress, _ profile: MeshLinkProfile, close: @escaping @Sendable () -> Void,
        reading: @escaping @Sendable (MeshLinkID) -> Void, writing: @escaping @Sendable (MeshLinkID) -> Void
    ) async {
        let now = moment
        let id: MeshLinkID? = state.update { state in
            guard !state.isStopping, state.links.count < Self.maximumLinks else { return nil }
            state.lastLink += 1
            let id = MeshLinkID(rawValue: state.lastLink)
            state.links[id] = close
            state.router.linkUp(id, profile, now: now)
            tell(&state)
            return id
        }
        guard let id else { return close() }
        settings.log.debug("frames go over the link to \(remote)")
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { await BlockingThread.run { reading(id) } }
                group.addTask { await BlockingThread.run { writing(id) } }
            }
        } onCancel: {
            close()
        }
        change { router, now in router.linkDown(id, now: now) }
        state.update { $0.links[id] = nil }
        close()
        settings.log.debug("frames no longer go over the link to \(remote)")
    }

    var hasRoomForLinks: Bool { state.withLock { !$0.isStopping && $0.links.count < Self.maximumLinks } }
    var isStopping: Bool { state.withLock { $0.isStopping } }

    // MARK: The router

    var moment: Moment { Moment(monotonic: settings.clock(), wall: settings.wallClock()) }

    /// Does something with the router; its events are dealt with in their order, on ``run()``.
    @discardableResult
    func change<Result, Failure: Error>(
        _ body: (inout MeshRouter, Moment) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let now = moment
        return try state.update { (state) throws(Failure) -> Result in
            defer { tell(&state) }
            return try body(&state.router, now)
        }
    }

    func look<Result>(_ body: (MeshRouter) -> Result) -> Result { state.withLock { body($0.router) } }

    private func tell(_ state: inout State) {
        for event in state.router.drainEvents() { eventContinuation.yield(event) }
    }

    // MARK: Threads

    private func readLoop(_ id: MeshLinkID, _ link: any StreamLink) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.readByteCount, alignment: 16)
        defer { buffer.deallocate() }
        var accumulator = MeshFrameAccumulator()
        var isGood = true
        while isGood, let count = try? link.read(into: buffer), count > 0 {
            accumulator.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            isGood = change { router, now in
                while let found = accumulator.next() {
                    // On a stream that loses nothing, only somebody who speaks something else gets lost.
                    guard case .frame(let frame) = found, accumulator.skippedBytes.isEmpty else { return false }
                    trace("came", frame, id)
                    router.receive(frame, from: id, now: now)
                }
                return accumulator.skippedBytes.isEmpty && !router.shouldClose(id)
            }
        }
        if !isGood { settings.log.info("\(link.remote) sends what are no frames; the link is closed") }
        link.close()
        // The writer may be waiting for something to write.
        state.update { $0.links[id] = nil }
    }

    private func readLoop(_ id: MeshLinkID, _ link: any FrameLink) {
        var pieces = FramePieceReader(link.delivery)
        var isGood = true
        while isGood, let piece = link.receive() {
            let frames = pieces.take(piece, at: settings.clock())
            isGood = change { router, now in
                for frame in frames {
                    trace("came", frame, id)
                    router.receive(frame, from: id, now: now)
                }
                return !router.shouldClose(id)
            }
        }
        if !isGood { settings.log.info("\(link.remote) sends what are no frames; the link is closed") }
        link.close()
        // The writer may be waiting for something to write.
        state.update { $0.links[id] = nil }
    }

    private func writeLoop(_ id: MeshLinkID, _ link: any FrameLink) {
        while true {
            let frame: [UInt8]? = state.wait { state -> [UInt8]?? in
                guard state.links[id] != nil else { return .some(nil) }
                guard let frame = state.router.nextFrame(for: id) else { return state.isStopping ? .some(nil) : nil }
                trace("goes", frame[...], id)
                return .some(frame)
            }
            guard let frame, (try? link.send(frame)) != nil else { break }
        }
        link.close()
    }

    private func writeLoop(_ id: MeshLinkID, _ link: any StreamLink) {
        while true {
            let batch: [UInt8]? = state.wait { state -> [UInt8]?? in
                guard state.links[id] != nil else { return .some(nil) }
                guard var batch = state.router.nextFrame(for: id) else { return state.isStopping ? .some(nil) : nil }
                trace("goes", batch[...], id)
                while batch.count < Self.readByteCount, let frame = state.router.nextFrame(for: id) {
                    trace("goes", frame[...], id)
                    batch += frame
                }
                return .some(batch)
            }
            guard let batch else { break }
            guard (try? LinkDemultiplexer.write(batch, to: link)) != nil else { break }
        }
        link.finishWriting()
        // Closed at once, what was written last might be lost; the neighbour closes when it has read the end.
        if !isStopping { link.close() }
    }

    /// For people who look for a fault: of a frame its type and how far it may still go, which stand before all else.
    private func trace(_ what: String, _ frame: ArraySlice<UInt8>, _ link: MeshLinkID) {
        settings.log.trace(
            """
            mesh: a frame \(what) over link \(link.rawValue): type \(Hex.encode(Array(frame.dropFirst().prefix(1)))), \
            ttl \(frame.dropFirst(2).first ?? 0), \(frame.count) bytes
            """)
    }

    private func keepTime() {
        var end: MonotonicInstant?
        while true {
            let deadline = state.withLock { state in state.router.deadline }
            let (isStopping, isEmpty) = state.withLock { ($0.isStopping, $0.links.isEmpty) }
            if isStopping {
                end = end ?? settings.clock() + Self.farewellTime
                if isEmpty || settings.clock() >= end! { break }
            }
            let waitUntil = [deadline, end].compactMap { $0 }.min() ?? settings.clock() + .seconds(3600)
            let isChanged: Void? = state.wait(untilNanoseconds: waitUntil.nanoseconds) { state in
                state.router.deadline != deadline || state.isStopping != isStopping
                    || (isStopping && state.links.isEmpty) ? () : nil
            }
            if isChanged == nil { change { router, now in router.advance(to: now) } }
        }
        for close in state.withLock({ Array($0.links.values) }) { close() }
        eventContinuation.finish()
    }

    // MARK: Who is there

    /// Everybody who has been heard of, neighbours and those whom others reach.
    package var peers: [MeshPeer] { look { $0.knownPeers } }

    /// Waits until a peer appears that `text` means: an id, a name, or the beginning of one.
    /// - Throws: ``PeerLookupError``.
    package func find(_ text: String, timeout: Duration) async throws -> MeshPeer {
        // Subscribed before the peers are read, so that no change is lost between the two.
        let changes = peerChanges.subscribe()
        let finder = PeerFinder(text: text, clock: settings.clock)
        for peer in peers { finder.receive(.present(Self.nearby(peer))) }
        let found = try await finder.find(timeout: timeout) { update in
            for await id in changes {
                update(self.look { $0.peer(id) }.map { .present(Self.nearby($0)) } ?? .absent(id))
            }
        }
        // It may have gone in this moment.
        guard let peer = look({ $0.peer(found.id) }) else { throw PeerLookupError.notFound(text, nearby: []) }
        return peer
    }

    private static func nearby(_ peer: MeshPeer) -> NearbyPeer { NearbyPeer(id: peer.id, name: peer.name, addresses: []) }
}

/// The node's randomness for the router.
struct KernelRandom: RandomNumberGenerator, Sendable {
    let draw: @Sendable (Int) -> [UInt8]

    mutating func next() -> UInt64 { draw(8).reduce(0) { $0 << 8 | UInt64($1) } }
}
