internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Runs a ``MeshMachine`` on threads: each link has one that reads and one that writes, and one more runs the timers.
final class RouterDriver: Sendable {
    /// The next action of a link's writer.
    private enum Writing {
        case write([UInt8])
        case end
    }

    /// The router's events in their order, until the timer has ended.
    let events = MeshEventQueue()
    private let driver: MachineDriver<MeshMachine>
    /// Closes each open link.
    private let closures = Mutex<[MeshLinkID: @Sendable () -> Void]>([:])
    /// The open links of a radio, which know their signal strength.
    private let radioLinks = Mutex<[MeshLinkID: any FrameLink]>([:])
    /// The frames of which the links have read a part.
    private let partialFrames = Mutex(PartialFrames())
    private let clock: @Sendable () -> MonotonicInstant
    private let friends: @Sendable () -> Set<PeerID>
    private let log: Logger

    private static let readByteCount = 64 << 10
    /// Time after which a link counts as broken when the other machine acknowledges nothing, as on the direct path.
    private static let silenceTimeout = Duration.seconds(12)

    init(_ settings: NodeSettings) {
        log = settings.log
        clock = settings.clock
        friends = settings.friends
        var routing = MeshRouter.Settings()
        routing.sessionLifetime = settings.meshSessionLifetime
        var router = MeshRouter(
            identity: settings.identity, name: settings.name, settings: routing,
            random: KernelRandom(draw: settings.random))
        router.setContacts(settings.contacts())
        // At once, so that no thread is woken between a frame and its events.
        driver = MachineDriver(MeshMachine(router), clock: settings.moment) { [events] in events.append($0) }
    }

    // MARK: The router

    /// Changes the router. The resulting events are queued in their order.
    func update<Result, Failure: Error>(
        _ body: (inout MeshRouter, Moment) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try driver.update { (machine, now) throws(Failure) -> Result in try body(&machine.router, now) }
    }

    func read<Result>(_ body: (MeshRouter) -> Result) -> Result { driver.read { body($0.router) } }

    // MARK: Stopping

    var isStopping: Bool { driver.read { $0.isLeaving } }

    /// Announces to the neighbours that this node leaves, lets queued frames go out, and closes the links.
    func stop() {
        driver.update { machine, now in machine.leave(now: now) }
    }

    /// Runs the machine's timers until the node has left; then closes all links and ends the events.
    func runTimer() {
        driver.run()
        for close in closures.withLock({ Array($0.values) }) { close() }
        events.finish()
    }

    // MARK: Links

    var hasRoomForLinks: Bool { driver.read { $0.hasRoomForLinks } }

    /// Adds a link that a neighbour has opened.
    /// - Returns: nil when there are too many links, or the node stops; the caller closes the link then.
    func add(_ link: any StreamLink) -> MeshLinkID? {
        add(.stream, from: link.remote.sourceName) { link.close() }
    }

    /// Exchanges frames over a stream until it ends.
    /// - Parameter id: of a stream that the neighbour has opened; nil for one that this node has opened.
    func run(over link: any StreamLink, as id: MeshLinkID? = nil) async {
        link.setSilenceTimeout(Self.silenceTimeout)
        await run(
            to: link.remote, .stream, as: id, close: { link.close() },
            reading: { self.read(from: link, $0) },
            writing: { self.write(to: link, $0) })
    }

    /// Exchanges frames over a link that keeps each of them whole, until it ends.
    func run(over link: any FrameLink) async {
        // Not even the smallest fragment fits: a radio that has negotiated no more than its standard's minimum.
        guard link.maximumFrameByteCount >= MeshLinkProfile.smallestWrite else { return link.close() }
        let profile = MeshLinkProfile(maximumFrameByteCount: link.maximumFrameByteCount, isRadio: true)
        await run(
            to: link.remote, profile, close: { link.close() }, reading: { self.read(from: link, $0) },
            writing: { self.write(to: link, $0) })
    }

    private func run(
        to remote: LinkAddress, _ profile: MeshLinkProfile, as id: MeshLinkID? = nil, close: @escaping @Sendable () -> Void,
        reading: @escaping @Sendable (MeshLinkID) -> Void, writing: @escaping @Sendable (MeshLinkID) -> Void
    ) async {
        guard let id = id ?? add(profile, from: nil, close) else { return close() }
        log.debug("mesh: link to \(remote) opened")
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                do throws(ThreadError) {
                    let reader = try BlockingThread.start { reading(id) }
                    group.addTask { await reader.join() }
                    let writer = try BlockingThread.start { writing(id) }
                    group.addTask { await writer.join() }
                } catch {
                    log.error("mesh: link to \(remote): \(error)")
                    close()
                }
            }
        } onCancel: {
            close()
        }
        driver.update { machine, now in machine.linkDown(id, now: now) }
        closures.withLock { $0[id] = nil }
        close()
        log.debug("mesh: link to \(remote) closed")
    }

    /// - Returns: nil when there are too many links, or the node stops.
    private func add(
        _ profile: MeshLinkProfile, from address: String?, _ close: @escaping @Sendable () -> Void
    ) -> MeshLinkID? {
        let friends = friends()
        let (id, replaced) = driver.update { machine, now in
            (machine.linkUp(profile, from: address, friends: friends, now: now), machine.drainReplaced())
        }
        for link in replaced {
            log.info("mesh: a link gives way to another one")
            closures.withLock { $0[link] }?()
        }
        guard let id else { return nil }
        closures.withLock { $0[id] = close }
        // The node may have left in between, and has closed the links that it knew.
        return driver.read { $0.isFinished } ? nil : id
    }

    /// The latest signal strength of the radio links to a neighbour; nil where none is known.
    func signal(of id: PeerID) -> SignalReading? {
        let links = read { $0.neighbourLinks(of: id) }
        let open = radioLinks.withLock { $0 }
        return links.compactMap { open[$0]?.signal }.max { $0.time < $1.time }
    }

    // MARK: Readers

    private func read(from link: any StreamLink, _ id: MeshLinkID) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.readByteCount, alignment: 16)
        defer { buffer.deallocate() }
        defer { partialFrames.withLock { $0.remove(id) } }
        var accumulator = MeshFrameAccumulator()
        var isValid = true
        while isValid, let count = try? link.read(into: buffer), count > 0 {
            accumulator.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            isValid = update { router, now in
                while let element = accumulator.next() {
                    // A stream loses nothing, so bytes between frames belong to another protocol.
                    guard case .frame(let frame) = element, accumulator.skippedBytes.isEmpty else { return false }
                    receive(frame, from: id, &router, now: now)
                }
                return accumulator.skippedBytes.isEmpty && !router.shouldClose(id)
            }
            limitPartialFrames(accumulator.heldByteCount, on: id, from: link.remote.sourceName)
        }
        finishReading(from: link.remote, id, isValid: isValid) { link.close() }
    }

    private func read(from link: any FrameLink, _ id: MeshLinkID) {
        radioLinks.withLock { $0[id] = link }
        defer { radioLinks.withLock { $0[id] = nil } }
        var pieces = FramePieceReader(link.delivery)
        var isValid = true
        while isValid, let piece = link.receive() {
            let frames = pieces.receive(piece, at: clock())
            isValid = update { router, now in
                for frame in frames { receive(frame, from: id, &router, now: now) }
                return !router.shouldClose(id)
            }
        }
        finishReading(from: link.remote, id, isValid: isValid) { link.close() }
    }

    /// Records what a link holds of its last frame. When all links hold too much, the one with most is closed.
    private func limitPartialFrames(_ byteCount: Int, on id: MeshLinkID, from address: String) {
        guard let largest = partialFrames.withLock({ $0.record(byteCount, on: id, from: address) }) else { return }
        log.info("mesh: link \(largest.rawValue) closed: the ends of its frames do not come")
        closures.withLock { $0[largest] }?()
    }

    private func receive(_ frame: ArraySlice<UInt8>, from id: MeshLinkID, _ router: inout MeshRouter, now: Moment) {
        trace("received", frame, id)
        let unreadCount = router.unreadFrameCount
        router.receive(frame, from: id, now: now)
        if router.unreadFrameCount > unreadCount { trace("dropped: its address is over its limits", frame, id, .debug) }
    }

    private func finishReading(from remote: LinkAddress, _ id: MeshLinkID, isValid: Bool, _ close: () -> Void) {
        if !isValid { log.info("mesh: link to \(remote) closed: malformed frames") }
        close()
        // Wakes the writer, which may wait for a frame.
        driver.update { machine, _ in machine.stopWriting(to: id) }
    }

    // MARK: Writers

    private func write(to link: any FrameLink, _ id: MeshLinkID) {
        while case .write(let frame) = waitForFrames(for: id, coalescingTo: 0) {
            guard (try? link.send(frame)) != nil else { break }
        }
        link.close()
    }

    private func write(to link: any StreamLink, _ id: MeshLinkID) {
        while case .write(let frames) = waitForFrames(for: id, coalescingTo: Self.readByteCount) {
            guard (try? LinkDemultiplexer.write(frames, to: link)) != nil else { break }
        }
        link.finishWriting()
        // Closing at once could discard the last frames; when the node stops, the neighbour closes after reading the end.
        if !isStopping { link.close() }
    }

    /// Waits for a frame, and appends queued ones until all together have at least `byteCount` bytes.
    private func waitForFrames(for id: MeshLinkID, coalescingTo byteCount: Int) -> Writing {
        let written = clock()
        return driver.wait { machine in
            guard machine.isOpen(id) else { return .end }
            machine.router.finishWriting(to: id, now: written)
            guard var bytes = machine.router.startWriting(to: id) else { return machine.isLeaving ? .end : nil }
            trace("sent", bytes[...], id)
            while bytes.count < byteCount, let frame = machine.router.startWriting(to: id) {
                trace("sent", frame[...], id)
                bytes += frame
            }
            return .write(bytes)
        }
    }

    /// Logs type and ttl, which are the first bytes of a frame.
    private func trace(_ event: String, _ frame: ArraySlice<UInt8>, _ link: MeshLinkID, _ level: Logger.Level = .trace) {
        log.log(
            level: level,
            """
            mesh: frame \(event), link \(link.rawValue), type \(Hex.encode(Array(frame.dropFirst().prefix(1)))), \
            ttl \(frame.dropFirst(2).first ?? 0), \(frame.count) bytes
            """)
    }
}
