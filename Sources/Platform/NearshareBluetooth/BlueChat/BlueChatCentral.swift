internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// Exchanges texts with devices that run BlueChat: as a central with discovered devices, as a peripheral with one that has
/// connected. Belongs to the adapter's thread; performs the reactions of ``BlueChatPeerTable``.
final class BlueChatCentral {
    /// Devices that have connected and whose purpose is unknown, such as one that has subscribed without writing.
    var unidentifiedDevices: () -> [RemoteDevice] = { [] }
    /// Called when a device's services may be known better: ``yieldToMesh(_:)`` may follow.
    var onConnected: (String) -> Void = { _ in }
    private let bus: DBusConnection
    private let dependencies: AdapterDependencies
    private let peripheral: BlueChatPeripheral
    private var events: AsyncStream<ChatRadioEvent>.Continuation?
    private var peers = BlueChatPeerTable()
    private var texts = TextQueue()

    init(bus: DBusConnection, dependencies: AdapterDependencies) throws(DBusError) {
        self.bus = bus
        self.dependencies = dependencies
        peripheral = try BlueChatPeripheral(bus: bus, now: dependencies.clock)
        peripheral.onValue = { [unowned self] value, path in receive(value, from: path) }
        peripheral.onSubscribed = { [unowned self] in identifySubscriber() }
    }

    var isOn: Bool { events != nil }
    var isConnecting: Bool { peers.isConnecting }
    var linkedPaths: Set<String> { peers.linkedPaths }

    // MARK: Joining

    func join(as name: DisplayName, _ continuation: AsyncStream<ChatRadioEvent>.Continuation, on adapter: String) {
        leave(on: adapter)
        events = continuation
        peripheral.start(name: BlueChat.name(name), on: adapter)
    }

    func leave(on adapter: String) {
        guard isOn else { return }
        perform(peers.leave())
        peripheral.stop(on: adapter)
        events?.finish()
        events = nil
    }

    /// Registers everything again after BlueZ or the adapter has come back.
    func renew(on adapter: String) {
        if isOn { peripheral.renew(on: adapter) }
    }

    /// BlueZ or the adapter is gone.
    func suspend() {
        perform(peers.removeAll())
        peripheral.dropCentral()
    }

    // MARK: Reports of BlueZ

    /// A device that advertises the service, or offers it once connected.
    func discover(_ device: RemoteDevice) {
        guard isOn else { return }
        peers.discover(device.path, device.address, name: device.properties.name, at: dependencies.clock())
    }

    /// Gives up a device that also offers bitchat's service.
    /// - Returns: whether there is a connection of this process's own; it stays, for the mesh.
    func yieldToMesh(_ path: String) -> Bool {
        let (isOutgoing, reactions) = peers.yieldToMesh(path)
        perform(reactions)
        return isOutgoing
    }

    func addCharacteristic(_ path: String, uuid: String, of device: String) {
        peers.addCharacteristic(path, uuid: uuid, of: device)
    }

    func servicesResolved(_ path: String) { perform(peers.subscribeIfResolved(path, at: dependencies.clock())) }

    /// A characteristic of a remote device has indicated a value.
    func valueChanged(_ characteristic: String, _ value: [UInt8]) {
        guard let (path, isRequest) = peers.linkedPeer(ofCharacteristic: characteristic), let peer = peers[path] else { return }
        guard isRequest else { return emit(value, from: peer) }
        guard value == BlueChat.leave else { return }
        dependencies.log("\(peer.address) asks this central to disconnect")
        perform(peers.pause(path, at: dependencies.clock()))
    }

    func disconnected(_ path: String) {
        peripheral.disconnected(path)
        perform(peers.disconnected(path, at: dependencies.clock()))
    }

    func remove(_ path: String) {
        peripheral.disconnected(path)
        perform(peers.remove(path))
    }

    // MARK: As a central

    /// Starts the next connection that is due.
    /// - Parameter device: the device of a path; nil for one that is not reachable now.
    /// - Returns: whether a connection was started.
    func connectNext(at now: MonotonicInstant, reachable device: (String) -> RemoteDevice?) -> Bool {
        guard isOn else { return false }
        let reactions = peers.connectNext(at: now, reachable: device)
        perform(reactions)
        return !reactions.isEmpty
    }

    private func perform(_ reactions: [BlueChatPeerTable.Reaction]) {
        for reaction in reactions {
            switch reaction {
            case .connect(let path):
                call(path, BlueZ.call("Connect", of: BlueZ.device, at: path), BlueChatPeerTable.stepTimeout + .seconds(1)) {
                    central in
                    central.perform(central.peers.connected(path, at: central.dependencies.clock()))
                }
            case .identify(let path):
                onConnected(path)
                servicesResolved(path)
            case .subscribe(let path, let requests, let texts): subscribe(path, [requests, texts])
            case .disconnect(let path): try? bus.send(BlueZ.call("Disconnect", of: BlueZ.device, at: path))
            case .linked(let path): emitFound(path)
            case .unlinked(let address): events?.yield(.gone(address))
            case .cancelTexts(let path): cancelTexts(for: path)
            case .log(let text): dependencies.log(text)
            }
        }
    }

    private func subscribe(_ path: String, _ characteristics: [String]) {
        guard let first = characteristics.first else { return perform(peers.subscribed(path)) }
        call(path, BlueZ.call("StartNotify", of: BlueZ.characteristic, at: first), BlueChatPeerTable.stepTimeout) { central in
            central.subscribe(path, Array(characteristics.dropFirst()))
        }
    }

    /// Calls a method about one peer; a failure ends the attempt to link to it.
    private func call(
        _ path: String, _ call: DBusMethodCall, _ timeout: Duration, then: @escaping (BlueChatCentral) -> Void
    ) {
        do throws(DBusError) {
            try bus.call(call, timeout: timeout) { [weak self] result in
                guard let self, peers[path] != nil else { return }
                switch result {
                case .success: then(self)
                case .failure(let error):
                    dependencies.log("\(call.member) of \(BlueZ.name(of: path)) failed: \(error.text)")
                    perform(peers.fail(path, at: dependencies.clock()))
                }
            }
        } catch {
            perform(peers.fail(path, at: dependencies.clock()))
        }
    }

    // MARK: As a peripheral

    private func receive(_ value: [UInt8], from path: String) {
        serve(path, name: nil)
        if let peer = peers[path] { emit(value, from: peer) }
    }

    private func serve(_ path: String, name: String?) {
        guard isOn else { return }
        let reactions = peers.serve(path, name: name, at: dependencies.clock())
        if !reactions.isEmpty { peripheral.central = path }
        perform(reactions)
    }

    /// BlueZ does not report which central has subscribed. If there is only one candidate, it is that one.
    private func identifySubscriber() {
        guard peripheral.central == nil else { return }
        let candidates = unidentifiedDevices().filter { peers[$0.path]?.isOutgoing != true }
        if candidates.count == 1, let device = candidates.first { serve(device.path, name: device.properties.name) }
    }

    // MARK: Texts

    private func emitFound(_ path: String) {
        guard let peer = peers[path] else { return }
        dependencies.log("chatting with \(peer.address)")
        events?.yield(.found(peer.linkAddress, name: peer.name.flatMap { DisplayName(truncating: $0) }))
    }

    private func emit(_ value: [UInt8], from peer: BlueChatPeer) {
        guard let text = BlueChat.text(value) else { return }
        events?.yield(.text(text, from: peer.linkAddress))
    }

    /// - Parameter completion: receives nil once the peer has confirmed the text, else the reason why not.
    func send(_ text: String, to address: LinkAddress, completion: @escaping @Sendable (LinkError?) -> Void) {
        guard let path = peers.path(of: address), let peer = peers[path], peer.isLinked else {
            return completion(LinkError(.unreachable, "\(address.host) is not linked over BlueChat"))
        }
        guard !texts.isFull(for: path) else {
            return completion(LinkError(.unavailable, "too many messages wait for \(address.host); try again in a moment"))
        }
        let limit = peer.state == .served ? peripheral.maximumValueSize : GATTProfile.maximumWriteSize
        let values = BlueChat.values(of: text, largest: limit)
        guard !values.isEmpty else { return completion(nil) }
        if texts.append(values, for: path, completion: completion) { sendNext(to: path) }
    }

    private func sendNext(to path: String) {
        guard let peer = peers[path], let value = texts.next(for: path) else { return }
        if peer.state == .served {
            return peripheral.indicate(value) { [weak self] isConfirmed in self?.sent(to: path, isConfirmed: isConfirmed) }
        }
        guard let characteristic = peer.characteristics.text else { return sent(to: path, isConfirmed: false) }
        let call = BlueZ.call(
            "WriteValue", of: BlueZ.characteristic, at: characteristic,
            with: [.bytes(value), .dictionary(["type": .string("request")])])
        do throws(DBusError) {
            try bus.call(call, timeout: BlueChatPeerTable.stepTimeout) { [weak self] result in
                self?.sent(to: path, isConfirmed: (try? result.get()) != nil)
            }
        } catch {
            sent(to: path, isConfirmed: false)
        }
    }

    private func sent(to path: String, isConfirmed: Bool) {
        guard isConfirmed else { return cancelTexts(for: path) }
        texts.confirm(for: path)?(nil)
        sendNext(to: path)
    }

    private func cancelTexts(for path: String) {
        for completion in texts.removeAll(for: path) {
            completion(LinkError(.broken, "the message could not be delivered: the peer is out of range or does not confirm"))
        }
    }

    func disconnect(from address: LinkAddress) {
        guard let path = peers.path(of: address), let peer = peers[path] else { return }
        guard peer.state == .served else { return perform(peers.pause(path, at: dependencies.clock())) }
        peripheral.requestDisconnect()
        peers.expectDisconnect(path, at: dependencies.clock())
    }

    // MARK: Time

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        guard isOn else { return nil }
        return [peers.nextDeadline(after: now), peripheral.nextDeadline].compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        guard isOn else { return }
        perform(peers.tick(at: now))
        peripheral.tick(at: now)
    }
}
