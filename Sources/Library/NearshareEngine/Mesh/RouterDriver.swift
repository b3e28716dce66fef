internal import Logging
internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// Runs a ``MeshRouter`` on threads: each link has one that reads and one that writes, and one more waits for the router's
/// deadlines.
final class RouterDriver: Sendable {
    private struct State {
        var router: MeshRouter
        /// Closes each open link.
        var links: [MeshLinkID: @Sendable () -> Void] = [:]
        var lastLink: UInt64 = 0
        /// The node has announced that it leaves; queued frames still go out.
        var isStopping = false

        /// A link that closes needs no frames any more.
        func isOpen(_ link: MeshLinkID) -> Bool { links[link] != nil }
    }

    /// What a link's writer does next.
    private enum Writing {
        case write([UInt8])
        case end
    }

    /// The router's events in their order, until the timer has ended.
    let events: AsyncStream<MeshEvent>
    private let eventContinuation: AsyncStream<MeshEvent>.Continuation
    private let state: Monitor<State>
    private let clock: @Sendable () -> MonotonicInstant
    private let wallClock: @Sendable () -> WallTime
    private let log: Logger

    /// Limit on links, this node's and others' together.
    static let maximumLinkCount = 16
    private static let readByteCount = 64 << 10
    /// Time for the queued frames when the node stops.
    private static let farewellTimeout = Duration.milliseconds(500)

    init(_ settings: NodeSettings) {
        clock = settings.clock
        wallClock = settings.wallClock
        log = settings.log
        var routing = MeshRouter.Settings()
        routing.sessionLifetime = settings.meshSessionLifetime
        state = Monitor(
            State(
                router: MeshRouter(
                    identity: settings.identity, name: settings.name, settings: routing,
                    random: KernelRandom(draw: settings.random))))
        (events, eventContinuation) = AsyncStream.makeStream()
    }

    // MARK: The router

    /// Changes the router. The resulting events are queued in their order.
    func update<Result, Failure: Error>(
        _ body: (inout MeshRouter, Moment) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let now = now
        return try state.update { (state) throws(Failure) -> Result in
            defer { emitEvents(of: &state) }
            return try body(&state.router, now)
        }
    }

    func read<Result>(_ body: (MeshRouter) -> Result) -> Result { state.withLock { body($0.router) } }

    private var now: Moment { Moment(monotonic: clock(), wall: wallClock()) }

    private func emitEvents(of state: inout State) {
        for event in state.router.drainEvents() { eventContinuation.yield(event) }
    }

    // MARK: Stopping

    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Announces to the neighbours that this node leaves, lets queued frames go out, and closes the links.
    func stop() {
        let now = now
        state.update { state in
            guard !state.isStopping else { return }
            state.router.leave(now: now)
            state.isStopping = true
        }
    }

    // MARK: Links

    var hasRoomForLinks: Bool { state.withLock { !$0.isStopping && $0.links.count < Self.maximumLinkCount } }

    /// Exchanges frames over a stream until it ends.
    func run(over link: any StreamLink, _ profile: MeshLinkProfile) async {
        await run(
            to: link.remote, profile, close: { link.close() }, reading: { self.read(from: link, $0) },
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
        to remote: LinkAddress, _ profile: MeshLinkProfile, close: @escaping @Sendable () -> Void,
        reading: @escaping @Sendable (MeshLinkID) -> Void, writing: @escaping @Sendable (MeshLinkID) -> Void
    ) async {
        guard let id = open(profile, close) else { return close() }
        log.debug("mesh: link to \(remote) opened")
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { await BlockingThread.run { reading(id) } }
                group.addTask { await BlockingThread.run { writing(id) } }
            }
        } onCancel: {
            close()
        }
        update { router, now in router.linkDown(id, now: now) }
        state.update { $0.links[id] = nil }
        close()
        log.debug("mesh: link to \(remote) closed")
    }

    /// - Returns: nil when there are too many links, or the node stops.
    private func open(_ profile: MeshLinkProfile, _ close: @escaping @Sendable () -> Void) -> MeshLinkID? {
        let now = now
        return state.update { state in
            guard !state.isStopping, state.links.count < Self.maximumLinkCount else { return nil }
            state.lastLink += 1
            let id = MeshLinkID(rawValue: state.lastLink)
            state.links[id] = close
            state.router.linkUp(id, profile, now: now)
            emitEvents(of: &state)
            return id
        }
    }

    // MARK: Readers

    private func read(from link: any StreamLink, _ id: MeshLinkID) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.readByteCount, alignment: 16)
        defer { buffer.deallocate() }
        var accumulator = MeshFrameAccumulator()
        var isValid = true
        while isValid, let count = try? link.read(into: buffer), count > 0 {
            accumulator.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            isValid = update { router, now in
                while let element = accumulator.next() {
                    // A stream loses nothing, so bytes between frames belong to another protocol.
                    guard case .frame(let frame) = element, accumulator.skippedBytes.isEmpty else { return false }
                    trace("received", frame, id)
                    router.receive(frame, from: id, now: now)
                }
                return accumulator.skippedBytes.isEmpty && !router.shouldClose(id)
            }
        }
        finishReading(from: link.remote, id, isValid: isValid) { link.close() }
    }

    private func read(from link: any FrameLink, _ id: MeshLinkID) {
        var pieces = FramePieceReader(link.delivery)
        var isValid = true
        while isValid, let piece = link.receive() {
            let frames = pieces.take(piece, at: clock())
            isValid = update { router, now in
                for frame in frames {
                    trace("received", frame, id)
                    router.receive(frame, from: id, now: now)
                }
                return !router.shouldClose(id)
            }
        }
        finishReading(from: link.remote, id, isValid: isValid) { link.close() }
    }

    private func finishReading(from remote: LinkAddress, _ id: MeshLinkID, isValid: Bool, _ close: () -> Void) {
        if !isValid { log.info("mesh: link to \(remote) closed: it carries no valid frames") }
        close()
        // Wakes the writer, which may wait for a frame.
        state.update { $0.links[id] = nil }
    }

    // MARK: Writers

    private func write(to link: any FrameLink, _ id: MeshLinkID) {
        while case .write(let frame) = waitForFrames(for: id, upTo: 0) {
            guard (try? link.send(frame)) != nil else { break }
        }
        link.close()
    }

    private func write(to link: any StreamLink, _ id: MeshLinkID) {
        while case .write(let frames) = waitForFrames(for: id, upTo: Self.readByteCount) {
            guard (try? LinkDemultiplexer.write(frames, to: link)) != nil else { break }
        }
        link.finishWriting()
        // Closing at once could discard the last frames; when the node stops, the neighbour closes after reading the end.
        if !isStopping { link.close() }
    }

    /// Waits for a frame, or for several that together reach `byteCount`.
    private func waitForFrames(for id: MeshLinkID, upTo byteCount: Int) -> Writing {
        state.wait { state in
            guard state.isOpen(id) else { return .end }
            guard var bytes = state.router.nextFrame(for: id) else { return state.isStopping ? .end : nil }
            trace("sent", bytes[...], id)
            while bytes.count < byteCount, let frame = state.router.nextFrame(for: id) {
                trace("sent", frame[...], id)
                bytes += frame
            }
            return .write(bytes)
        }
    }

    /// Logs type and ttl, which are the first bytes of a frame.
    private func trace(_ event: String, _ frame: ArraySlice<UInt8>, _ link: MeshLinkID) {
        log.trace(
            """
            mesh: frame \(event), link \(link.rawValue), type \(Hex.encode(Array(frame.dropFirst().prefix(1)))), \
            ttl \(frame.dropFirst(2).first ?? 0), \(frame.count) bytes
            """)
    }

    // MARK: Timer

    /// Advances the router whenever its deadline passes, until the node has stopped; then closes all links and ends the events.
    func runTimer() {
        var farewellEnd: MonotonicInstant?
        while true {
            let (deadline, isStopping, hasLinks) = state.withLock { ($0.router.deadline, $0.isStopping, !$0.links.isEmpty) }
            if isStopping {
                let end = farewellEnd ?? clock() + Self.farewellTimeout
                farewellEnd = end
                if !hasLinks || clock() >= end { break }
            }
            let wakeUp = [deadline, farewellEnd].compactMap { $0 }.min() ?? clock() + .seconds(3600)
            let isChanged: Void? = state.wait(untilNanoseconds: wakeUp.nanoseconds) { state in
                let isEmptied = state.isStopping && state.links.isEmpty
                return state.router.deadline != deadline || state.isStopping != isStopping || isEmptied ? () : nil
            }
            if isChanged == nil { update { router, now in router.advance(to: now) } }
        }
        for close in state.withLock({ Array($0.links.values) }) { close() }
        eventContinuation.finish()
    }
}

/// The kernel's randomness as a generator.
struct KernelRandom: RandomNumberGenerator, Sendable {
    /// Returns the given number of random bytes.
    let draw: @Sendable (Int) -> [UInt8]

    mutating func next() -> UInt64 { draw(8).reduce(0) { $0 << 8 | UInt64($1) } }
}
