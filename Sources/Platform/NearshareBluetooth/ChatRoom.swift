internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// Texts with those who run BlueChat: as a central with those that were found, as a peripheral with one that has connected to us.
/// Lives on the radio's thread, which tells it what the bus tells.
final class BlueChatCentral {
    /// Somebody who speaks the service.
    private struct Peer {
        enum Phase {
            case idle
            case connecting(until: MonotonicInstant)
            case resolving(until: MonotonicInstant)
            case subscribing(until: MonotonicInstant)
            case linked
            /// Has connected to us.
            case served
        }

        let address: BluetoothAddress
        var name: String?
        var phase = Phase.idle
        var isOurs = false
        var failures = 0
        var dueAt: MonotonicInstant
        var textPath: String?
        var indicationPath: String?
        var disconnectPath: String?

        var isIdle: Bool { if case .idle = phase { true } else { false } }

        var isLinked: Bool {
            switch phase {
            case .linked, .served: true
            case .idle, .connecting, .resolving, .subscribing: false
            }
        }

        var deadline: MonotonicInstant? {
            switch phase {
            case .connecting(let until), .resolving(let until), .subscribing(let until): until
            case .idle, .linked, .served: nil
            }
        }
    }

    private let bus: SystemBus
    private let log: @Sendable (String) -> Void
    private let server: BlueChatPeripheral
    private var events: AsyncStream<ChatRadioEvent>.Continuation?
    private var peers: [String: Peer] = [:]
    /// Texts on their way, by the peer's path: what is left of each, and who waits.
    private var outgoing: [String: [Outgoing]] = [:]
    /// Who was asked to leave, and when we end it ourselves.
    private var leaving: [String: MonotonicInstant] = [:]

    private struct Outgoing {
        var values: [[UInt8]]
        let answer: @Sendable (LinkError?) -> Void
    }

    private static let maximumPeers = 32
    private static let maximumLinks = 4
    private static let maximumOutgoing = 16
    /// BlueChat's own central gives up after three seconds; a connection over BlueZ takes longer where others are made.
    private static let stepTime = Duration.seconds(10)
    private static let longestPause = Duration.seconds(60)
    /// A central that was asked to leave does so within this time.
    private static let leavingTime = Duration.seconds(3)

    init(bus: SystemBus, log: @escaping @Sendable (String) -> Void) throws(BusError) {
        self.bus = bus
        self.log = log
        server = try BlueChatPeripheral(bus: bus)
        server.onValue = { [unowned self] value, path in take(value, from: path) }
        server.onSubscribed = { [unowned self] in guess() }
    }

    /// Devices that have connected to us and whose purpose is not known: one that subscribes, and does not write, is among them.
    var unidentified: () -> [(path: String, name: String?)] = { [] }

    /// A device has been connected to, and what it speaks may be known better now: ``leaveToMesh(_:)`` may follow.
    var onConnected: (String) -> Void = { _ in }

    var isOn: Bool { events != nil }

    func isLinked(_ path: String) -> Bool { peers[path]?.isLinked ?? false }

    var isConnecting: Bool { peers.values.contains { $0.deadline != nil } }

    // MARK: Joining

    func join(as name: DisplayName, _ continuation: AsyncStream<ChatRadioEvent>.Continuation, on adapter: String) {
        leave(on: adapter)
        events = continuation
        server.start(name: BlueChat.name(name), on: adapter)
    }

    func leave(on adapter: String) {
        guard isOn else { return }
        for (path, peer) in peers where peer.isOurs { disconnect(path) }
        for path in Array(outgoing.keys) { failOutgoing(path) }
        peers = [:]
        leaving = [:]
        server.stop(on: adapter)
        events?.finish()
        events = nil
    }

    /// The daemon is new, or the adapter has come back.
    func renew(on adapter: String) {
        if isOn { server.renew(on: adapter) }
    }

    func dropAll() {
        for path in Array(peers.keys) { forget(path) }
        server.dropAll()
    }

    // MARK: What the bus tells

    /// A device that advertises the service, or has told it.
    func heard(_ path: String, _ address: BluetoothAddress, name: String?, at now: MonotonicInstant) {
        guard isOn else { return }
        // Whoever could not be reached makes room.
        if peers[path] == nil, peers.count >= Self.maximumPeers,
            let vain = peers.first(where: { $0.value.isIdle && $0.value.failures > 0 })
        {
            peers[vain.key] = nil
        }
        if peers[path] == nil, peers.count < Self.maximumPeers {
            // Who runs nearshare advertises twice, in turns, and is not to be disturbed on account of the wrong one.
            peers[path] = Peer(address: address, dueAt: now + Neighbour.courtesyTime)
        }
        if let name { peers[path]?.name = name }
    }

    /// A device that speaks bitchat's service as well: nothing more is done for it here.
    /// - Returns: whether there is a connection that was made for this; it stays.
    func leaveToMesh(_ path: String) -> Bool {
        guard let peer = peers[path] else { return false }
        switch peer.phase {
        // BlueZ makes one connection at a time; what it is asked for meanwhile fails.
        case .connecting, .served: return false
        case .idle, .resolving, .subscribing, .linked: break
        }
        failOutgoing(path)
        peers[path] = nil
        if peer.isLinked { events?.yield(.gone(peer.address.linkAddress(port: 0))) }
        return peer.isOurs
    }

    func tookCharacteristic(_ path: String, uuid: String, of device: String) {
        switch uuid {
        case BlueChat.fromCentral: peers[device]?.textPath = path
        case BlueChat.fromPeripheral: peers[device]?.indicationPath = path
        case BlueChat.disconnectRequest: peers[device]?.disconnectPath = path
        default: break
        }
    }

    /// A characteristic of another device has a new value: an indication.
    func valueChanged(_ path: String, _ value: [UInt8], at now: MonotonicInstant) {
        guard let (device, peer) = peers.first(where: { $0.value.indicationPath == path || $0.value.disconnectPath == path }),
            case .linked = peer.phase
        else { return }
        guard path == peer.disconnectPath else { return tell(value, from: peer) }
        guard value == BlueChat.leave else { return }
        log("\(peer.address) asks us to leave")
        end(device, pause: Self.longestPause, at: now)
    }

    func disconnected(_ path: String, at now: MonotonicInstant) {
        leaving[path] = nil
        server.disconnected(path)
        guard let peer = peers[path] else { return }
        failOutgoing(path)
        peers[path]!.isOurs = false
        switch peer.phase {
        case .idle: break
        case .served:
            events?.yield(.gone(peer.address.linkAddress(port: 0)))
            peers[path] = nil
        case .connecting, .resolving, .subscribing, .linked: fail(path, at: now)
        }
    }

    func forget(_ path: String) {
        leaving[path] = nil
        server.disconnected(path)
        failOutgoing(path)
        guard let peer = peers.removeValue(forKey: path) else { return }
        if peer.isLinked { events?.yield(.gone(peer.address.linkAddress(port: 0))) }
    }

    // MARK: Connecting

    func nextDue(at now: MonotonicInstant, isReachable: (String) -> Bool) -> String? {
        guard isOn, peers.values.count(where: \.isLinked) < Self.maximumLinks else { return nil }
        return peers.filter {
            $0.value.isIdle && $0.value.dueAt <= now && isReachable($0.key)
        }.min { $0.value.dueAt < $1.value.dueAt }?.key
    }

    func connect(_ path: String, wasConnected: Bool, at now: MonotonicInstant) {
        peers[path]!.phase = .connecting(until: now + Self.stepTime)
        log("connecting to \(peers[path]!.address), who chats")
        ask(path, BlueZ.call(path, BlueZ.device, "Connect"), Self.stepTime + .seconds(1)) { room, _ in
            guard case .connecting = room.peers[path]!.phase else { return }
            room.peers[path]!.isOurs = !wasConnected
            room.peers[path]!.phase = .resolving(until: .now + Self.stepTime)
            room.onConnected(path)
            room.subscribe(path)
        }
    }

    /// Goes on when all three characteristics are known.
    func subscribe(_ path: String) {
        guard let peer = peers[path], case .resolving = peer.phase, peer.textPath != nil,
            let indications = peer.indicationPath, let requests = peer.disconnectPath
        else { return }
        peers[path]!.phase = .subscribing(until: .now + Self.stepTime)
        ask(path, BlueZ.call(requests, BlueZ.characteristic, "StartNotify"), Self.stepTime) { room, _ in
            room.ask(path, BlueZ.call(indications, BlueZ.characteristic, "StartNotify"), Self.stepTime) { room, _ in
                guard case .subscribing = room.peers[path]!.phase else { return }
                room.peers[path]!.phase = .linked
                room.peers[path]!.failures = 0
                room.tellFound(path)
            }
        }
    }

    private func fail(_ path: String, at now: MonotonicInstant) {
        guard let peer = peers[path] else { return }
        let pause = Duration.seconds(1 << min(peer.failures, 6))
        peers[path]!.failures += 1
        end(path, pause: min(pause, Self.longestPause), at: now)
    }

    /// Ends what there is with a peer that we have connected to; it may be tried again after a pause.
    private func end(_ path: String, pause: Duration, at now: MonotonicInstant) {
        guard let peer = peers[path] else { return }
        peers[path]!.phase = .idle
        peers[path]!.dueAt = now + pause
        failOutgoing(path)
        if peer.isLinked { events?.yield(.gone(peer.address.linkAddress(port: 0))) }
        // An attempt that never ends would keep BlueZ from everything else.
        if peer.isOurs || peer.deadline != nil { disconnect(path) }
    }

    private func disconnect(_ path: String) {
        peers[path]?.isOurs = false
        try? bus.send(BlueZ.call(path, BlueZ.device, "Disconnect"))
    }

    private func ask(
        _ path: String, _ call: BusCall, _ timeout: Duration, then: @escaping (BlueChatCentral, BusMessage) -> Void
    ) {
        do throws(BusError) {
            try bus.call(call, timeout: timeout) { [weak self] result in
                guard let self, peers[path] != nil else { return }
                switch result {
                case .success(let answer): then(self, answer)
                case .failure(let error):
                    log("\(call.member) of \(BlueZ.name(of: path)) fails: \(error.text)")
                    fail(path, at: .now)
                }
            }
        } catch {
            fail(path, at: .now)
        }
    }

    // MARK: Being connected to

    /// What a central has written.
    private func take(_ value: [UInt8], from path: String) {
        serve(path, name: nil)
        if let peer = peers[path] { tell(value, from: peer) }
    }

    private func serve(_ path: String, name: String?) {
        guard isOn, let address = BlueZ.address(ofDevice: path) else { return }
        if peers[path] == nil {
            guard peers.count < Self.maximumPeers else { return }
            peers[path] = Peer(address: address, dueAt: .now)
        }
        if let name { peers[path]!.name = name }
        guard !peers[path]!.isLinked else { return }
        peers[path]!.phase = .served
        server.central = path
        tellFound(path)
    }

    /// BlueZ does not say who has subscribed. Where only one can have, it is that one.
    private func guess() {
        guard server.central == nil else { return }
        let candidates = unidentified().filter { peers[$0.path]?.isOurs != true }
        if candidates.count == 1 { serve(candidates[0].path, name: candidates[0].name) }
    }

    // MARK: Texts

    private func tellFound(_ path: String) {
        guard let peer = peers[path] else { return }
        log("chatting with \(peer.address)")
        let name = peer.name.flatMap { DisplayName(truncating: $0) }
        events?.yield(.found(peer.address.linkAddress(port: 0), name: name))
    }

    private func tell(_ value: [UInt8], from peer: Peer) {
        guard let text = BlueChat.text(value) else { return }
        events?.yield(.text(text, from: peer.address.linkAddress(port: 0)))
    }

    /// - Parameter answer: is told when the other side has it, or why not.
    func send(_ text: String, to peer: LinkAddress, answer: @escaping @Sendable (LinkError?) -> Void) {
        guard let (path, found) = peers.first(where: { $0.value.address.linkAddress(port: 0) == peer }), found.isLinked else {
            return answer(LinkError(.unreachable, "\(peer.host) does not chat with us, or no longer"))
        }
        guard outgoing[path, default: []].count < Self.maximumOutgoing else {
            return answer(LinkError(.unavailable, "\(peer.host) takes texts too slowly; wait a moment"))
        }
        let largest = if case .served = found.phase { server.largestValue } else { GATTProfile.maximumFrameByteCount }
        let values = BlueChat.values(of: text, largest: largest)
        guard !values.isEmpty else { return answer(nil) }
        outgoing[path, default: []].append(Outgoing(values: values, answer: answer))
        if outgoing[path]!.count == 1 { sendNext(path) }
    }

    /// One value at a time; the next one when the other side has confirmed it.
    private func sendNext(_ path: String) {
        guard let peer = peers[path], let value = outgoing[path]?.first?.values.first else { return }
        if case .served = peer.phase {
            return server.indicate(value) { [weak self] isConfirmed in self?.sent(path, isDone: isConfirmed) }
        }
        guard let textPath = peer.textPath else { return sent(path, isDone: false) }
        let call = BlueZ.call(
            textPath, BlueZ.characteristic, "WriteValue", [.bytes(value), .dictionary(["type": .string("request")])])
        let isAsked: Void? = try? bus.call(call, timeout: Self.stepTime) { [weak self] result in
            self?.sent(path, isDone: (try? result.get()) != nil)
        }
        if isAsked == nil { sent(path, isDone: false) }
    }

    private func sent(_ path: String, isDone: Bool) {
        guard let first = outgoing[path]?.first else { return }
        guard isDone else { return failOutgoing(path) }
        outgoing[path]![0].values.removeFirst()
        if outgoing[path]![0].values.isEmpty {
            outgoing[path]!.removeFirst()
            first.answer(nil)
        }
        if outgoing[path]!.isEmpty { outgoing[path] = nil } else { sendNext(path) }
    }

    private func failOutgoing(_ path: String) {
        for waiting in outgoing.removeValue(forKey: path) ?? [] {
            waiting.answer(LinkError(.broken, "the text did not get there: the other side is gone, or does not confirm"))
        }
    }

    func disconnect(from peer: LinkAddress, at now: MonotonicInstant) {
        guard let (path, found) = peers.first(where: { $0.value.address.linkAddress(port: 0) == peer }) else { return }
        guard case .served = found.phase else { return end(path, pause: Self.longestPause, at: now) }
        server.askToLeave()
        leaving[path] = now + Self.leavingTime
    }

    // MARK: Time

    var deadline: MonotonicInstant? {
        guard isOn else { return nil }
        let due = peers.values.compactMap { peer -> MonotonicInstant? in
            if case .idle = peer.phase { return peer.dueAt }
            return peer.deadline
        }
        return (due.filter { $0 > .now } + leaving.values + [server.deadline].compactMap { $0 }).min()
    }

    func tick(at now: MonotonicInstant) {
        guard isOn else { return }
        for (path, peer) in peers where peer.deadline.map({ now >= $0 }) ?? false { fail(path, at: now) }
        for (path, due) in leaving where now >= due {
            leaving[path] = nil
            disconnect(path)
        }
        server.tick(at: now)
    }
}
