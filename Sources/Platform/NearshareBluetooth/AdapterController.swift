internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// One adapter as this process uses it, over BlueZ's daemon, confined to a thread of its own.
///
/// Scans for whoever speaks bitchat's service, connects to them one after the other, reads what they tell of themselves, and opens
/// frame links; at the same time serves and advertises the service, where that is wanted. What comes from the bus changes the
/// state; ``tick(at:)`` draws the consequences.
///
///     scanning ──found──► connecting ──► resolving ──► reading ──► attached ──frames wanted──► acquiring ──► linked
///        ▲                    └──────────────┴────────────┴──────────── failed ◄───────────────────┴──────────┘
///        └──────────────────────── with longer and longer pauses ─────────┘
final class AdapterController: EventLoop {
    let bus: SystemBus
    private let wakeup: Int32
    let wanted: String?
    var neighbours = DeviceTable()
    private(set) var server: GATTServer!
    private(set) var chat: BlueChatCentral!
    private var chatTurn = 0
    private var framesTurn = 0
    var adapter: Adapter
    var frames: AsyncStream<any FrameLink>.Continuation?
    private var browsers: [UInt64: Browser] = [:]
    private var nextID: UInt64 = 0
    private var discovery = DiscoveryState.atRest
    /// Links and attempts that want discovery off, by device.
    var holds: [BluetoothAddress: Int] = [:]
    private var isBroken = false
    /// The daemon is new, or has said that it is not ready: when to look at everything again.
    var renewAt: MonotonicInstant?
    let log: @Sendable (String) -> Void
    let warn: @Sendable (String) -> Void
    /// Since when connections are kept that nobody has asked for.
    var unwantedSince: MonotonicInstant?
    /// When a device that is not remembered is looked at next.
    var strangersFrom = MonotonicInstant(nanoseconds: 0)
    /// Devices that BlueZ was made to forget, and when.
    var refreshed: [BluetoothAddress: MonotonicInstant] = [:]
    let post: @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void

    struct Adapter {
        var path: String
        var address: BluetoothAddress
        var version: BlueZ.Version?
        var isPowered: Bool
        var isThere = true

        var name: String { BlueZ.name(of: path) }
    }

    private enum DiscoveryState {
        case on(since: MonotonicInstant)
        /// Refused, or resting: not before.
        case off(until: MonotonicInstant)

        static let atRest = Self.off(until: MonotonicInstant(nanoseconds: 0))
    }

    private struct Browser {
        let continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation
        var settledAt: MonotonicInstant?
    }

    // Of bitchat's own numbers (its specification, section 11): links as central, scanning in turns once several are there.
    static let maximumLinks = 6
    private static let restsFromLinkCount = 3
    private static let scanTime = Duration.seconds(5)
    private static let restTime = Duration.seconds(10)
    private static let settleTime = Duration.seconds(3)
    static let connectTime = Duration.seconds(10)
    /// Between two looks at devices that were not worth remembering.
    static let strangerPause = Duration.milliseconds(250)
    static let graceTime = Duration.seconds(10)
    /// So long somebody who has connected to us may say nothing. bitchat's phones begin at once.
    static let silence = Duration.seconds(60)
    static let refreshPause = Duration.seconds(60)
    /// A channel that is open past the grace time is looked at so often.
    private static let lookAgain = Duration.seconds(1)

    init(
        adapter name: String?, wakeup: Int32, log: @escaping @Sendable (String) -> Void,
        warn: @escaping @Sendable (String) -> Void,
        post: @escaping @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void
    ) throws(BluetoothError) {
        self.wakeup = wakeup
        self.post = post
        self.log = log
        self.warn = warn
        wanted = name
        do throws(BusError) {
            bus = try SystemBus()
        } catch {
            throw .noBus(error.text)
        }
        let objects = try BlueZ.objects(over: bus)
        adapter = try Self.adapter(name, in: objects)
        do throws(BusError) {
            server = try GATTServer(bus: bus, post: post)
            chat = try BlueChatCentral(bus: bus, log: log)
            try listen()
        } catch {
            throw BluetoothError(error)
        }
        server.onCentral = { [unowned self] link in
            guard let frames else { return link.close() }
            frames.yield(link)
        }
        server.mayServe = { [unowned self] device in mayServe(device) }
        chat.onConnected = { [unowned self] in noteChat($0) }
        chat.unidentified = { [unowned self] in
            neighbours.values.filter { $0.isConnected && !$0.isOurs && !$0.speaksMesh && !server.hasLink($0.path) }
                .map { ($0.path, $0.name) }
        }
        take(objects)
    }

    /// - Throws: also for an adapter that is there and can't be used.
    static func adapter(_ name: String?, in objects: BlueZ.Objects) throws(BluetoothError) -> Adapter {
        let (path, properties) = try BlueZ.findAdapter(name, in: objects)
        let name = BlueZ.name(of: path)
        guard let text = properties["Address"]?.text,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.text ?? "public")
        else { throw .failed("the adapter \(name) has no address") }
        guard properties["Powered"]?.flag == true else {
            throw RFKill.blocking(name).map { .blocked(name, byHardware: $0 == .hardware) } ?? .poweredOff(name)
        }
        let version = properties["Modalias"]?.text.flatMap { BlueZ.Version(modalias: $0) }
        return Adapter(path: path, address: address, version: version, isPowered: true)
    }

    /// The daemon, the adapter or the bus is gone, and all that was made with it.
    func dropAll() {
        for path in neighbours.paths { forget(path) }
        server.dropAll()
        chat.dropAll()
        discovery = .atRest
    }

    // MARK: What is wanted

    var wantsNeighbours: Bool { frames != nil || !browsers.isEmpty }
    var isConnecting: Bool { chat.isConnecting || neighbours.values.contains { $0.phase.isConnecting } }

    /// - Parameter turn: who asks; only they can close them again.
    func openFrames(_ turn: Int, _ continuation: AsyncStream<any FrameLink>.Continuation) {
        frames?.finish()
        frames = continuation
        framesTurn = turn
    }

    func closeFrames(_ turn: Int) {
        if turn == framesTurn { closeFrames() }
    }

    private func closeFrames() {
        frames?.finish()
        frames = nil
        for neighbour in neighbours.values { neighbour.link?.close() }
        server.closeLinks()
    }

    func browse(_ continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation) -> UInt64 {
        nextID += 1
        browsers[nextID] = Browser(continuation: continuation, settledAt: .now + Self.settleTime)
        for neighbour in neighbours.values {
            if let sighting = neighbour.sighting { continuation.yield(.seen(sighting)) }
        }
        return nextID
    }

    func endBrowsing(_ id: UInt64) { browsers[id] = nil }

    /// - Parameter answer: is told when it is advertised, or why not.
    func advertise(_ record: ServiceRecord, answer: @escaping @Sendable (BluetoothError?) -> Void) {
        server.start(record, on: adapter.path, answer: answer)
    }

    func update(_ txt: [[UInt8]]) { server.record?.txt = txt }

    func withdraw() { server.stop(on: adapter.path) }

    // MARK: Chat

    /// - Parameter turn: who asks; only they can leave again.
    func joinChat(as name: DisplayName, _ turn: Int, _ continuation: AsyncStream<ChatRadioEvent>.Continuation) {
        chatTurn = turn
        chat.join(as: name, continuation, on: adapter.path)
        for path in neighbours.paths { noteChat(path) }
        // The filter is another one.
        stopDiscovery()
    }

    func leaveChat(_ turn: Int) {
        guard turn == chatTurn else { return }
        chat.leave(on: adapter.path)
        stopDiscovery()
    }

    /// Those who speak bitchat's service have a better way to us.
    func noteChat(_ path: String) {
        guard let neighbour = neighbours[path] else { return }
        if neighbour.speaksMesh {
            if chat.leaveToMesh(path) { neighbours[path]!.isOurs = true }
        } else if neighbour.chats {
            chat.heard(path, neighbour.address, name: neighbour.name, at: .now)
        }
    }

    func isReachableForChat(_ path: String) -> Bool {
        guard let neighbour = neighbours[path] else { return false }
        // Who has connected to us is about to write.
        if neighbour.isConnected { return MonotonicInstant.now - neighbour.since >= Neighbour.courtesyTime }
        return neighbour.isHeard
    }

    func tell(_ event: DiscoveryEvent) {
        for browser in browsers.values { browser.continuation.yield(event) }
    }

    func tellGone(_ neighbour: Neighbour) {
        guard let key = neighbour.sighting?.key else { return }
        neighbours[neighbour.path]?.record = nil
        tell(.gone(key))
    }

    // MARK: Discovery

    /// Discovery stops, and stays so until as many releases have come.
    func hold(_ address: BluetoothAddress) {
        holds[address, default: 0] += 1
        stopDiscovery()
    }

    func release(_ address: BluetoothAddress) {
        let left = holds[address, default: 1] - 1
        holds[address] = left > 0 ? left : nil
        // Whoever had a channel may be about to open another one.
        for neighbour in neighbours.values where neighbour.address == address { neighbours[neighbour.path]!.since = .now }
    }

    var linkCount: Int { neighbours.values.count { $0.link != nil } }

    func stopDiscovery(until: MonotonicInstant = MonotonicInstant(nanoseconds: 0)) {
        guard case .on = discovery else { return }
        discovery = .off(until: until)
        // An error means that it was off anyway.
        _ = try? bus.call(BlueZ.call(adapter.path, BlueZ.adapter, "StopDiscovery"), timeout: .seconds(2))
    }

    private func startDiscovery(at now: MonotonicInstant) {
        // Without a filter, BlueZ keeps devices to itself that do not call themselves generally discoverable.
        let services = [GATTProfile.meshService] + (chat.isOn ? [BlueChat.service] : [])
        let filter: BusValue = .dictionary([
            "UUIDs": .strings(services), "Transport": .string("le"), "DuplicateData": .boolean(true),
        ])
        discovery = .on(since: now)
        log("looking for others")
        do throws(BusError) {
            _ = try bus.call(BlueZ.call(adapter.path, BlueZ.adapter, "SetDiscoveryFilter", [filter]), timeout: .seconds(2))
            _ = try bus.call(BlueZ.call(adapter.path, BlueZ.adapter, "StartDiscovery"), timeout: .seconds(2))
        } catch {
            discovery = .off(until: now + .seconds(2))
        }
    }

    private func steerDiscovery(at now: MonotonicInstant) {
        guard adapter.isPowered, wantsNeighbours || chat.isOn, holds.isEmpty, !isConnecting, linkCount < Self.maximumLinks
        else {
            return stopDiscovery()
        }
        switch discovery {
        case .off(let until): if now >= until { startDiscovery(at: now) }
        case .on(let since):
            // With company already, it is enough to look now and then.
            let isEnough = linkCount + server.linkCount >= Self.restsFromLinkCount && now - since >= Self.scanTime
            if isEnough { stopDiscovery(until: now + Self.restTime) }
        }
    }

    // MARK: Loop

    var nextDeadline: MonotonicInstant? {
        guard !isBroken else { return nil }
        var deadlines = [
            renewAt, bus.deadline, server.deadline, chat.deadline,
            unwantedSince.map { max($0 + Self.graceTime, .now + Self.lookAgain) },
        ]
        deadlines += browsers.values.map(\.settledAt)
        deadlines += neighbours.values.filter(isSilent).map { $0.since + Self.silence }
        if wantsNeighbours, adapter.isPowered {
            deadlines += neighbours.values.filter { mayBegin($0) || $0.phase.deadline != nil }.map {
                $0.phase.deadline ?? dueAt($0)
            }
        }
        if wantsNeighbours || chat.isOn, adapter.isPowered {
            switch discovery {
            case .off(let until): if until > .now { deadlines.append(until) }
            case .on(let since):
                if linkCount + server.linkCount >= Self.restsFromLinkCount { deadlines.append(since + Self.scanTime) }
            }
        }
        return deadlines.compactMap { $0 }.min()
    }

    func tick(at now: MonotonicInstant) {
        guard !isBroken else { return }
        if let due = renewAt, now >= due { renew(at: now) }
        for (id, browser) in browsers where browser.settledAt.map({ now >= $0 }) ?? false {
            browsers[id]!.settledAt = nil
            browser.continuation.yield(.settled)
        }
        server.tick(at: now, on: adapter.path)
        for (path, neighbour) in neighbours.all {
            if let deadline = neighbour.phase.deadline, now >= deadline { giveUp(path) }
        }
        if adapter.isPowered, wantsNeighbours {
            refreshStale(at: now)
            connectNext(at: now)
        }
        if adapter.isPowered { connectNextToChat(at: now) }
        chat.tick(at: now)
        letGoIfUnwanted(at: now)
        dropSilent(at: now)
        steerDiscovery(at: now)
        bus.flush()
    }

    /// Nobody is waiting for this; what fails is tried again.
    private func renew(at now: MonotonicInstant) {
        renewAt = nil
        guard let objects = try? bus.call(BlueZ.getObjects, timeout: .seconds(2)).objects(),
            let found = try? Self.adapter(wanted ?? adapter.name, in: objects)
        else {
            renewAt = now + .seconds(2)
            return
        }
        adapter = found
        take(objects)
        server.renew(on: adapter.path)
        chat.renew(on: adapter.path)
    }

    func wait(milliseconds: Int32) {
        var polled = [
            pollfd(fd: isBroken ? -1 : bus.descriptor, events: bus.events, revents: 0),
            pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
        ]
        poll(&polled, nfds_t(polled.count), milliseconds)
        guard !isBroken else { return }
        do throws(BusError) {
            try bus.process()
        } catch {
            // The bus itself has ended, which happens with the whole machine or not at all.
            dropAll()
            for browser in browsers.values {
                browser.continuation.finish(throwing: DiscoveryError("the system bus has ended: \(error.text); try again"))
            }
            isBroken = true
        }
    }

    func close() {
        closeFrames()
        for browser in browsers.values { browser.continuation.finish() }
        browsers = [:]
        guard !isBroken else { return }
        stopDiscovery()
        chat.leave(on: adapter.path)
        server.stop(on: adapter.path)
        holds = [:]
        for neighbour in neighbours.values { disconnect(neighbour) }
        bus.flush()
    }
}
