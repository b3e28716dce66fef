internal import Glibc
internal import NearshareBase
internal import NearshareBus
internal import NearshareEdges
internal import NearshareWire

/// One adapter as this process uses it, over BlueZ's daemon, confined to a thread of its own.
///
/// Scans for whoever speaks bitchat's service, connects to them one after the other, reads what they tell of themselves, and opens
/// frame links; at the same time serves and advertises the service, where that is wanted. What comes from the bus changes the
/// state; ``tick(at:)`` draws the consequences.
///
///     scanning ──found──► connecting ──► resolving ──► reading ──► attached ──frames wanted──► acquiring ──► linked
///        ▲                    └──────────────┴────────────┴──────────── failed ◄───────────────────┴──────────┘
///        └──────────────────────── with longer and longer pauses ─────────┘
final class RadioLoop: ConfinedLoop {
    let bus: SystemBus
    private let wakeup: Int32
    private let wanted: String?
    var neighbours = Neighbourhood()
    private(set) var server: GATTServer!
    private(set) var chat: ChatRoom!
    private var chatTurn = 0
    private var framesTurn = 0
    private(set) var adapter: Adapter
    private var frames: AsyncStream<any FrameLink>.Continuation?
    private var browsers: [UInt64: Browser] = [:]
    private var nextID: UInt64 = 0
    private var discovery = DiscoveryState.atRest
    /// Links and attempts that want discovery off, by device.
    private var holds: [BluetoothAddress: Int] = [:]
    private var isBroken = false
    /// The daemon is new, or has said that it is not ready: when to look at everything again.
    private var renewAt: MonotonicInstant?
    private let log: @Sendable (String) -> Void
    private let warn: @Sendable (String) -> Void
    /// Since when connections are kept that nobody has asked for.
    private var unwantedSince: MonotonicInstant?
    /// When a device that is not remembered is looked at next.
    private var strangersFrom = MonotonicInstant(nanoseconds: 0)
    /// Devices that BlueZ was made to forget, and when.
    private var refreshed: [BluetoothAddress: MonotonicInstant] = [:]
    let post: @Sendable (@escaping @Sendable (RadioLoop) -> Void) -> Void

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
    private static let maximumLinks = 6
    private static let restsFromLinkCount = 3
    private static let scanTime = Duration.seconds(5)
    private static let restTime = Duration.seconds(10)
    private static let settleTime = Duration.seconds(3)
    private static let connectTime = Duration.seconds(10)
    /// Between two looks at devices that were not worth remembering.
    private static let strangerPause = Duration.milliseconds(250)
    private static let graceTime = Duration.seconds(10)
    /// So long somebody who has connected to us may say nothing. bitchat's phones begin at once.
    private static let silence = Duration.seconds(60)
    private static let refreshPause = Duration.seconds(60)
    /// A channel that is open past the grace time is looked at so often.
    private static let lookAgain = Duration.seconds(1)

    init(
        adapter name: String?, wakeup: Int32, log: @escaping @Sendable (String) -> Void,
        warn: @escaping @Sendable (String) -> Void,
        post: @escaping @Sendable (@escaping @Sendable (RadioLoop) -> Void) -> Void
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
            chat = try ChatRoom(bus: bus, log: log)
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
    private static func adapter(_ name: String?, in objects: BlueZ.Objects) throws(BluetoothError) -> Adapter {
        let (path, properties) = try BlueZ.findAdapter(name, in: objects)
        let name = BlueZ.name(of: path)
        guard let text = properties["Address"]?.text,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.text ?? "public")
        else { throw .failed("the adapter \(name) has no address") }
        guard properties["Powered"]?.flag == true else {
            throw RadioSwitch.blocking(name).map { .blocked(name, byHardware: $0 == .hardware) } ?? .poweredOff(name)
        }
        let version = properties["Modalias"]?.text.flatMap { BlueZ.Version(modalias: $0) }
        return Adapter(path: path, address: address, version: version, isPowered: true)
    }

    // MARK: What the bus tells

    private func listen() throws(BusError) {
        let sender = "type='signal',sender='\(BlueZ.name)'"
        try bus.onSignal(
            matching: "\(sender),interface='\(BlueZ.properties)',member='PropertiesChanged',path_namespace='/org/bluez'"
        ) { [unowned self] message in
            guard let interface = message.string(), let changed = message.dictionary() else { return }
            let gone = message.value()?.texts ?? []
            change(message.path, interface, changed, gone: gone)
        }
        try bus.onSignal(matching: "\(sender),interface='\(BlueZ.objectManager)',member='InterfacesAdded'") {
            [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.interfaces() else { return }
            take([path: interfaces], areNew: true)
        }
        try bus.onSignal(matching: "\(sender),interface='\(BlueZ.objectManager)',member='InterfacesRemoved'") {
            [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.value()?.texts else { return }
            remove(path, interfaces)
        }
        let owners = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(BlueZ.name)'"
        try bus.onSignal(matching: owners) { [unowned self] _ in daemonChanged() }
    }

    /// - Parameter areNew: whether BlueZ has just learned of them.
    private func take(_ objects: BlueZ.Objects, areNew: Bool = false) {
        for (path, interfaces) in objects {
            if path == adapter.path, let properties = interfaces[BlueZ.adapter] {
                adapter.isThere = true
                setPowered(properties["Powered"]?.flag ?? true)
            }
            guard path.hasPrefix(adapter.path + "/") else { continue }
            if let properties = interfaces[BlueZ.device] { takeDevice(path, properties, isNew: areNew) }
            if let properties = interfaces[BlueZ.characteristic] { takeCharacteristic(path, properties) }
        }
    }

    private func takeDevice(_ path: String, _ properties: BlueZ.Properties, isNew: Bool) {
        guard neighbours[path] == nil else { return change(path, BlueZ.device, properties, gone: []) }
        guard let text = properties["Address"]?.text,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.text ?? "public"),
            let room = neighbours.room(forStrength: properties["RSSI"]?.integer ?? Neighbour.weakest)
        else { return }
        if case .taken(let other) = room { forget(other) }
        neighbours[path] = Neighbour(path: path, address: address, since: .now)
        neighbours[path]!.isNew = isNew && properties["RSSI"] == nil
        change(path, BlueZ.device, properties, gone: [])
    }

    /// One that was not worth remembering may be by now: it has come nearer, or others have gone.
    private func lookAtStranger(_ path: String, strength: Int, at now: MonotonicInstant) {
        guard now >= strangersFrom, path.hasPrefix(adapter.path + "/dev_"), neighbours.room(forStrength: strength) != nil else {
            return
        }
        strangersFrom = now + Self.strangerPause
        let call = BlueZ.call(path, BlueZ.properties, "GetAll", [.string(BlueZ.device)])
        try? bus.call(call, timeout: Self.connectTime) { [weak self] result in
            guard let self, let properties = (try? result.get())?.dictionary(), neighbours[path] == nil else { return }
            takeDevice(path, properties, isNew: false)
        }
    }

    private func takeCharacteristic(_ path: String, _ properties: BlueZ.Properties) {
        guard let device = devicePath(of: path), neighbours[device] != nil, let uuid = properties["UUID"]?.text else { return }
        chat.tookCharacteristic(path, uuid: uuid.lowercased(), of: device)
        switch uuid.lowercased() {
        case GATTProfile.meshCharacteristic: neighbours[device]!.meshPath = path
        case GATTProfile.recordCharacteristic: neighbours[device]!.recordPath = path
        default: break
        }
    }

    /// Of an object below a device.
    private func devicePath(of path: String) -> String? {
        let parts = path.split(separator: "/")
        guard parts.count > 4, parts[3].hasPrefix("dev_") else { return nil }
        return "/" + parts[..<4].joined(separator: "/")
    }

    private func change(_ path: String, _ interface: String, _ changed: BlueZ.Properties, gone: [String]) {
        if path == adapter.path, interface == BlueZ.adapter, let isPowered = changed["Powered"]?.flag {
            return setPowered(isPowered)
        }
        if interface == BlueZ.characteristic, let value = changed["Value"]?.bytes {
            return chat.valueChanged(path, value, at: .now)
        }
        guard interface == BlueZ.device else { return }
        guard neighbours[path] != nil else {
            if let strength = changed["RSSI"]?.integer { lookAtStranger(path, strength: strength, at: .now) }
            return
        }
        if let name = changed["Name"]?.text { neighbours[path]!.name = name }
        if let uuids = changed["UUIDs"]?.texts {
            neighbours[path]!.speaksMesh = uuids.contains { $0.lowercased() == GATTProfile.meshService }
            neighbours[path]!.isKnownByHeart = uuids.contains { $0.lowercased() == GATTProfile.attributeService }
            neighbours[path]!.chats = uuids.contains { $0.lowercased() == BlueChat.service }
        }
        if changed["Paired"]?.flag == true || changed["Trusted"]?.flag == true { neighbours[path]!.isBonded = true }
        if let strength = changed["RSSI"]?.integer {
            neighbours[path]!.isHeard = true
            neighbours[path]!.isNew = false
            neighbours[path]!.strength = strength
        }
        if gone.contains("RSSI") { neighbours[path]!.isHeard = false }
        noteChat(path)
        if let isResolved = changed["ServicesResolved"]?.flag {
            neighbours[path]!.isResolved = isResolved
            resolve(path)
            if isResolved { chat.subscribe(path) }
        }
        if let isConnected = changed["Connected"]?.flag {
            if isConnected, !neighbours[path]!.isConnected, !neighbours[path]!.phase.isConnecting {
                neighbours[path]!.wasConnectedTo(at: .now)
                server.connectionsChanged(at: .now)
            }
            if !isConnected, neighbours[path]!.isConnected { server.connectionsChanged(at: .now) }
            neighbours[path]!.isConnected = isConnected
            if !isConnected { disconnected(path) }
        }
    }

    private func remove(_ path: String, _ interfaces: [String]) {
        if path == adapter.path, interfaces.contains(BlueZ.adapter) {
            adapter.isThere = false
            return setPowered(false)
        }
        if interfaces.contains(BlueZ.device) { forget(path) }
        if interfaces.contains(BlueZ.characteristic), let device = devicePath(of: path), neighbours[device] != nil {
            if neighbours[device]!.meshPath == path { neighbours[device]!.meshPath = nil }
            if neighbours[device]!.recordPath == path { neighbours[device]!.recordPath = nil }
        }
    }

    private func setPowered(_ isPowered: Bool) {
        guard adapter.isPowered != isPowered else { return }
        adapter.isPowered = isPowered
        if isPowered {
            renewAt = .now
        } else {
            dropAll()
        }
    }

    /// What the old one had registered, and all its objects, went with it.
    private func daemonChanged() {
        dropAll()
        adapter.isPowered = false
        // It comes in the middle of its own start.
        renewAt = .now + .seconds(1)
    }

    private func dropAll() {
        for path in neighbours.paths { forget(path) }
        server.dropAll()
        chat.dropAll()
        discovery = .atRest
    }

    // MARK: Neighbours

    private func disconnected(_ path: String) {
        server.disconnected(path)
        chat.disconnected(path, at: .now)
        guard let neighbour = neighbours[path] else { return }
        neighbours[path]!.isResolved = false
        neighbours[path]!.isOurs = false
        switch neighbour.phase {
        case .idle, .connecting: break
        default: fail(path)
        }
    }

    private func forget(_ path: String) {
        server.disconnected(path)
        chat.forget(path)
        guard let neighbour = neighbours[path] else { return }
        neighbours[path] = nil
        neighbour.link?.close()
        tellGone(neighbour)
    }

    /// The attempt, or the link, is over; another one comes after a pause that grows.
    func fail(_ path: String) {
        guard let neighbour = neighbours[path] else { return }
        log("\(BlueZ.name(of: path)) is left alone for a while (\(neighbour.phase))")
        neighbour.link?.close()
        // BlueZ may hold on to what was half done; the next attempt begins with a connection of its own.
        if neighbour.phase.isConnecting { disconnect(neighbour) }
        neighbours[path]!.rest(at: .now)
        if neighbours[path]!.failures >= Neighbour.givesUpAfter { tellGone(neighbour) }
    }

    /// Whether frames that a central writes to us make a link. Between two nodes that have each connected to the other, the way of
    /// the one with the lower address stays.
    private func mayServe(_ device: String) -> Bool {
        guard let neighbour = neighbours[device], neighbour.link != nil, neighbour.record != nil else { return true }
        guard adapter.address > neighbour.address else { return false }
        neighbour.link?.close()
        return true
    }

    // MARK: What is wanted

    private var wantsNeighbours: Bool { frames != nil || !browsers.isEmpty }
    private var isConnecting: Bool { chat.isConnecting || neighbours.values.contains { $0.phase.isConnecting } }

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
    private func noteChat(_ path: String) {
        guard let neighbour = neighbours[path] else { return }
        if neighbour.speaksMesh {
            if chat.leaveToMesh(path) { neighbours[path]!.isOurs = true }
        } else if neighbour.chats {
            chat.heard(path, neighbour.address, name: neighbour.name, at: .now)
        }
    }

    private func isReachableForChat(_ path: String) -> Bool {
        guard let neighbour = neighbours[path] else { return false }
        // Who has connected to us is about to write.
        if neighbour.isConnected { return MonotonicInstant.now - neighbour.since >= Neighbour.courtesyTime }
        return neighbour.isHeard
    }

    private func tell(_ event: DiscoveryEvent) {
        for browser in browsers.values { browser.continuation.yield(event) }
    }

    private func tellGone(_ neighbour: Neighbour) {
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

    private var linkCount: Int { neighbours.values.count { $0.link != nil } }

    private func stopDiscovery(until: MonotonicInstant = MonotonicInstant(nanoseconds: 0)) {
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

    private func giveUp(_ path: String) {
        if neighbours[path]?.isConnected == false {
            // Ends BlueZ's own attempt, which would go on for half a minute.
            try? bus.send(BlueZ.call(path, BlueZ.device, "Disconnect"))
        }
        fail(path)
    }

    /// Nobody wants to know of anybody any more. Not at once: whoever has found a peer opens a channel to it next, over the same
    /// connection.
    private func letGoIfUnwanted(at now: MonotonicInstant) {
        guard !wantsNeighbours, neighbours.values.contains(where: { $0.phase.isAttached }) else {
            unwantedSince = nil
            return
        }
        let since = unwantedSince ?? now
        unwantedSince = since
        guard now - since >= Self.graceTime else { return }
        for (path, neighbour) in neighbours.all where neighbour.phase.isAttached && holds[neighbour.address] == nil {
            disconnect(neighbour)
            neighbours[path]!.phase = .idle
        }
    }

    /// Has connected to us and wants nothing: neither frames, nor a channel, nor a chat. A controller has room for a few connections.
    private func isSilent(_ neighbour: Neighbour) -> Bool {
        neighbour.isCaller && neighbour.isConnected && !neighbour.isOurs && neighbour.phase.isIdle && !neighbour.isBonded
            && holds[neighbour.address] == nil && !server.hasLink(neighbour.path) && !chat.isLinked(neighbour.path)
    }

    private func dropSilent(at now: MonotonicInstant) {
        for neighbour in neighbours.values where isSilent(neighbour) && now - neighbour.since >= Self.silence {
            log("\(BlueZ.name(of: neighbour.path)) has connected and says nothing")
            // Not again at once.
            neighbours[neighbour.path]!.since = now
            try? bus.send(BlueZ.call(neighbour.path, BlueZ.device, "Disconnect"))
        }
    }

    /// Ends a connection that we have made, unless a channel is open on it.
    private func disconnect(_ neighbour: Neighbour) {
        guard neighbour.isOurs, neighbour.isConnected, holds[neighbour.address] == nil else { return }
        neighbours[neighbour.path]?.isOurs = false
        try? bus.send(BlueZ.call(neighbour.path, BlueZ.device, "Disconnect"))
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

    // MARK: Connecting

    /// Whether it is worth a connection at some time.
    private func mayBegin(_ neighbour: Neighbour) -> Bool {
        guard neighbour.speaksMesh, neighbour.isHeard || neighbour.isConnected, !server.hasLink(neighbour.path) else {
            return false
        }
        switch neighbour.phase {
        case .idle: return linkCount < Self.maximumLinks
        case .attached: return frames != nil && linkCount < Self.maximumLinks
        default: return false
        }
    }

    /// Has BlueZ forget devices of which it may know no longer what they speak; it tells of them anew as soon as they are heard.
    private func refreshStale(at now: MonotonicInstant) {
        for neighbour in neighbours.values where neighbour.isStale {
            let isLate = refreshed[neighbour.address].map { now - $0 >= Self.refreshPause } ?? true
            guard isLate, refreshed.count < Neighbourhood.capacity else { continue }
            refreshed[neighbour.address] = now
            log("\(BlueZ.name(of: neighbour.path)) is looked at anew")
            try? bus.send(BlueZ.call(adapter.path, BlueZ.adapter, "RemoveDevice", [.objectPath(neighbour.path)]))
        }
        refreshed = refreshed.filter { now - $0.value < Self.refreshPause }
    }

    private func connectNext(at now: MonotonicInstant) {
        // An adapter makes one connection at a time, and it is not to be disturbed.
        guard !isConnecting else { return }
        let due = neighbours.values.filter { mayBegin($0) && dueAt($0) <= now }
        // In a crowd, who is near first.
        func rank(_ one: Neighbour) -> (Int, Int, Int, MonotonicInstant) {
            (one.phase.isAttached ? 0 : 1, one.failures, -one.strength, one.dueAt)
        }
        guard let next = due.min(by: { rank($0) < rank($1) }) else { return }
        if case .attached = next.phase { return acquire(next.path) }
        connect(next.path, at: now)
    }

    private func connectNextToChat(at now: MonotonicInstant) {
        guard !isConnecting, holds.isEmpty, let path = chat.nextDue(at: now, isReachable: isReachableForChat) else { return }
        stopDiscovery()
        chat.connect(path, wasConnected: neighbours[path]?.isConnected ?? false, at: now)
    }

    /// Two that both advertise must not connect to each other at once: while they try, neither can be heard. And who has connected
    /// to us is about to write; or it is a connection that BlueZ is about to end, in which nothing may be begun.
    private func dueAt(_ neighbour: Neighbour) -> MonotonicInstant {
        let isTheirs =
            neighbour.isConnected ? !neighbour.isOurs : server.isAdvertising && adapter.address > neighbour.address
        return isTheirs ? max(neighbour.dueAt, neighbour.since + Neighbour.courtesyTime) : neighbour.dueAt
    }

    private func connect(_ path: String, at now: MonotonicInstant) {
        stopDiscovery()
        log("connecting to \(BlueZ.name(of: path))")
        neighbours[path]!.phase = .connecting(until: now + Self.connectTime)
        let wasConnected = neighbours[path]!.isConnected
        ask(path, BlueZ.call(path, BlueZ.device, "Connect"), Self.connectTime + .seconds(1)) { loop, _ in
            guard case .connecting = loop.neighbours[path]!.phase else { return }
            loop.neighbours[path]!.isConnected = true
            // What was made for a chat is ours, too.
            if !wasConnected { loop.neighbours[path]!.isOurs = true }
            loop.neighbours[path]!.phase = .resolving(until: .now + Self.connectTime)
            loop.post { $0.resolve(path) }
        }
    }

    /// Goes on when BlueZ knows all services of the device. Called again when it says so.
    func resolve(_ path: String) {
        guard let neighbour = neighbours[path], case .resolving(let until) = neighbour.phase, neighbour.isResolved else {
            return
        }
        // It says so before it has told of them all, where it remembers them from the last time.
        neighbours[path]!.phase = .reading(until: until)
        ask(path, BlueZ.getObjects, Self.connectTime) { loop, answer in
            loop.take((answer.objects() ?? [:]).filter { $0.key.hasPrefix(path + "/") })
            guard case .reading = loop.neighbours[path]!.phase else { return }
            loop.read(path)
        }
    }

    private func read(_ path: String) {
        guard let neighbour = neighbours[path], neighbour.meshPath != nil else { return fail(path) }
        guard let recordPath = neighbour.recordPath else { return attach(path) }
        neighbours[path]!.phase = .reading(until: .now + Self.connectTime)
        ask(path, BlueZ.call(recordPath, BlueZ.characteristic, "ReadValue", [.dictionary([:])]), Self.connectTime) {
            loop, answer in
            guard case .reading = loop.neighbours[path]!.phase else { return }
            loop.neighbours[path]!.record = answer.bytes().flatMap { ServiceRecord($0) }
            if let sighting = loop.neighbours[path]!.sighting { loop.tell(.seen(sighting)) }
            loop.attach(path)
        }
    }

    private func attach(_ path: String) {
        neighbours[path]!.phase = .attached
        neighbours[path]!.dueAt = .now
        // It can be reached, and nothing more is wanted.
        if frames == nil { neighbours[path]!.failures = 0 }
    }

    private func acquire(_ path: String) {
        guard let mesh = neighbours[path]?.meshPath else { return fail(path) }
        neighbours[path]!.phase = .acquiring(until: .now + Self.connectTime)
        // First the way back: the other side answers the first thing that we write.
        ask(path, BlueZ.call(mesh, BlueZ.characteristic, "AcquireNotify", [.dictionary([:])]), Self.connectTime) {
            loop, answer in
            guard let notified = answer.descriptor() else { return loop.fail(path) }
            guard case .acquiring = loop.neighbours[path]!.phase else {
                Glibc.close(notified)
                return
            }
            loop.neighbours[path]!.acquired = AcquiredDescriptor(notified)
            let call = BlueZ.call(mesh, BlueZ.characteristic, "AcquireWrite", [.dictionary([:])])
            loop.ask(path, call, Self.connectTime) { loop, answer in
                guard let writing = answer.descriptor(), let mtu = answer.uint16() else { return loop.fail(path) }
                loop.link(path, writing: writing, mtu: Int(mtu))
            }
        }
    }

    /// Twice in a row, because BlueZ may hold on to what the last connection had.
    private func isTaken(_ path: String) {
        guard let neighbour = neighbours[path], neighbour.failures == 1 else { return }
        warn(
            "another program on this machine exchanges frames with \(neighbour.address) over \(adapter.name), and BlueZ lets only one; "
                + "end it, or use another adapter with --adapter")
    }

    private func link(_ path: String, writing: Int32, mtu: Int) {
        guard let neighbour = neighbours[path], case .acquiring = neighbour.phase, let notified = neighbour.acquired?.take(),
            let frames
        else {
            Glibc.close(writing)
            return
        }
        let link = CentralLink(
            writing: writing, notified: notified,
            largestWrite: min(mtu - GATTProfile.headerByteCount, GATTProfile.largestWrite),
            remote: neighbour.address.linkAddress(port: 0),
            onClose: { [post] in post { $0.linkEnded(path) } })
        log("frames go to \(BlueZ.name(of: path)), \(mtu) bytes at once")
        neighbours[path]!.phase = .linked(link, since: .now)
        frames.yield(link)
    }

    private func linkEnded(_ path: String) {
        guard let neighbour = neighbours[path], case .linked(_, let since) = neighbour.phase else { return }
        // One that held for a while was a good one.
        if MonotonicInstant.now - since > Neighbour.longestPause { neighbours[path]!.failures = 0 }
        neighbours[path]!.rest(at: .now)
        // The way of the other side may go over the same connection.
        if !server.hasLink(path) { disconnect(neighbour) }
    }

    /// Asks the daemon about a neighbour that is still there when the answer comes; without one, the attempt has failed.
    private func ask(
        _ path: String, _ call: BusCall, _ timeout: Duration, then: @escaping (RadioLoop, BusMessage) -> Void
    ) {
        do throws(BusError) {
            try bus.call(call, timeout: timeout) { [unowned self] result in
                guard neighbours[path] != nil else { return }
                switch result {
                case .success(let answer): then(self, answer)
                case .failure(let error):
                    log("\(call.member) of \(BlueZ.name(of: path)) fails: \(error.text)")
                    if call.member.hasPrefix("Acquire"), BlueZ.isTakenElsewhere(error) { isTaken(path) }
                    fail(path)
                }
            }
        } catch {
            fail(path)
        }
    }
}
