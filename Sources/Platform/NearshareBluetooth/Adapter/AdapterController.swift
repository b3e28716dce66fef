internal import Glibc
internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// One adapter as this process uses it, over BlueZ's daemon: owns the bus on a thread of its own.
///
/// BlueZ's signals go to the parts, each of which owns its state and returns reactions, and the controller carries these out:
///
///     ConnectionScheduler   remote devices, and connections to them as a central
///     DiscoverySession      when BlueZ scans
///     FrameLinks            links that connections have led to, and their subscriber
///     BrowserTable          subscribers to peers
///     GATTServer            services, advertising, links of centrals
///     BlueChatCentral       texts with BlueChat's peers
final class AdapterController: EventLoop {
    let bus: DBusConnection
    let dependencies: AdapterDependencies
    private(set) var adapter: AdapterProperties
    private(set) var server: GATTServer
    private(set) var chat: BlueChatCentral
    private var connections = ConnectionScheduler()
    private var discovery = DiscoverySession()
    private var frames = FrameLinks()
    private var browsers = BrowserTable()
    private var chatSubscription = 0
    /// When to read BlueZ's objects and register everything again: the daemon or the adapter has come back.
    private var renewalDue: MonotonicInstant?
    private let wakeup: EventFD
    private let requestedAdapter: String?

    private static let callTimeout = Duration.seconds(2)
    /// Time from which BlueZ accepts registrations after it has taken its bus name: it does so in the middle of its start.
    private static let daemonStartTime = Duration.seconds(1)

    /// - Parameter name: such as "hci0"; nil for the first that is powered on.
    init(adapter name: String?, wakeup: EventFD, dependencies: AdapterDependencies) throws(BluetoothError) {
        self.wakeup = wakeup
        self.dependencies = dependencies
        requestedAdapter = name
        do throws(DBusError) {
            bus = try DBusConnection()
        } catch {
            throw .noBus(error.text)
        }
        let objects = try BlueZ.objects(over: bus)
        adapter = try AdapterProperties.select(name, in: objects)
        do throws(DBusError) {
            server = try GATTServer(bus: bus, dependencies: dependencies)
            chat = try BlueChatCentral(bus: bus, dependencies: dependencies)
        } catch {
            throw BluetoothError(error)
        }
        do throws(DBusError) { try subscribeToSignals() } catch { throw BluetoothError(error) }
        server.onLink = { [unowned self] link in
            if let signal = connections.devices[link.devicePath]?.signal { link.setSignal(signal) }
            if !frames.emit(link) { link.close() }
        }
        server.admitsFrames = { [unowned self] in admitsFrames(from: $0) }
        chat.onConnected = { [unowned self] in identify($0) }
        chat.unidentifiedDevices = { [unowned self] in unidentifiedDevices }
        add(objects, areNew: false)
    }

    // MARK: Signals of BlueZ

    private func subscribeToSignals() throws(DBusError) {
        try bus.onSignal(
            "PropertiesChanged", of: BlueZ.properties, from: BlueZ.name, where: "path_namespace='/org/bluez'"
        ) { [unowned self] message in
            guard let interface = message.string(), let changed = message.dictionary() else { return }
            propertiesChanged(message.path, interface, changed, invalidated: message.value()?.strings ?? [])
        }
        try bus.onSignal("InterfacesAdded", of: BlueZ.objectManager, from: BlueZ.name) { [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.interfaces() else { return }
            add([path: interfaces], areNew: true)
        }
        try bus.onSignal("InterfacesRemoved", of: BlueZ.objectManager, from: BlueZ.name) { [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.value()?.strings else { return }
            removeInterfaces(interfaces, of: path)
        }
        try bus.onSignal("NameOwnerChanged", of: DBusConnection.name, from: DBusConnection.name, where: "arg0='\(BlueZ.name)'")
        {
            [unowned self] message in
            // Name, old owner, new owner.
            guard message.string() != nil, message.string() != nil, let owner = message.string() else { return }
            daemonChanged(hasOwner: !owner.isEmpty)
        }
    }

    /// - Parameter areNew: whether BlueZ has just created the objects.
    private func add(_ objects: BlueZ.Objects, areNew: Bool) {
        // A device comes before its characteristics, whose paths begin with its own.
        for (path, interfaces) in objects.sorted(by: { $0.key < $1.key }) {
            if let properties = interfaces[BlueZ.adapter] {
                adapterChanged(path, isPowered: properties["Powered"]?.bool == true)
            }
            guard path.hasPrefix(adapter.path + "/") else { continue }
            if let properties = interfaces[BlueZ.device] {
                perform(connections.add(path, properties, isNew: areNew, at: dependencies.clock(), in: context))
                deviceChanged(path, properties)
            }
            if let uuid = interfaces[BlueZ.characteristic]?["UUID"]?.string, let device = BlueZ.devicePath(of: path) {
                connections.addCharacteristic(path, uuid: uuid.lowercased(), of: device)
                chat.addCharacteristic(path, uuid: uuid.lowercased(), of: device)
            }
        }
    }

    private func propertiesChanged(
        _ path: String, _ interface: String, _ changed: BlueZ.Properties, invalidated: [String]
    ) {
        switch interface {
        case BlueZ.adapter:
            if let isPowered = changed["Powered"]?.bool { adapterChanged(path, isPowered: isPowered) }
        case BlueZ.characteristic:
            if let value = changed["Value"]?.bytes { chat.valueChanged(path, value) }
        case BlueZ.device where path.hasPrefix(adapter.path + "/"):
            perform(connections.update(path, changed, invalidated: invalidated, at: dependencies.clock(), in: context))
            deviceChanged(path, changed)
        default: break
        }
    }

    /// Notifies the parts other than the ``ConnectionScheduler``, which has the changes already.
    private func deviceChanged(_ path: String, _ changed: BlueZ.Properties) {
        identify(path)
        if changed["ServicesResolved"]?.bool == true { chat.servicesResolved(path) }
        if changed["Connected"]?.bool == false {
            server.disconnected(path)
            chat.disconnected(path)
        }
    }

    private func removeInterfaces(_ interfaces: [String], of path: String) {
        if path == adapter.path, interfaces.contains(BlueZ.adapter) { return setPowered(false) }
        if interfaces.contains(BlueZ.device) { perform(connections.remove(path)) }
        if interfaces.contains(BlueZ.characteristic), let device = BlueZ.devicePath(of: path) {
            connections.removeCharacteristic(path, of: device)
        }
    }

    private func adapterChanged(_ path: String, isPowered: Bool) {
        if path == adapter.path {
            setPowered(isPowered)
        } else if isPowered, !adapter.isPowered, requestedAdapter == nil {
            // Another one, or the same one under another name, as a dongle has that was plugged in again.
            renewalDue = dependencies.clock()
        }
    }

    private func setPowered(_ isPowered: Bool) {
        guard adapter.isPowered != isPowered else { return }
        adapter.isPowered = isPowered
        if isPowered { renewalDue = dependencies.clock() } else { suspend() }
    }

    /// BlueZ's name has another owner, or none: all objects and registrations of the old daemon are gone.
    /// - Parameter hasOwner: whether there is a new daemon.
    private func daemonChanged(hasOwner: Bool) {
        suspend()
        adapter.isPowered = false
        renewalDue = hasOwner ? dependencies.clock() + Self.daemonStartTime : nil
    }

    /// Discards all state that depended on the daemon, the adapter or the bus.
    private func suspend() {
        perform(connections.removeAll())
        server.suspend()
        chat.suspend()
        discovery.reset()
    }

    /// Reads BlueZ's objects and registers everything again. An adapter that is missing or powered off is announced by a signal
    /// later.
    private func renew(at now: MonotonicInstant) {
        renewalDue = nil
        guard let objects = try? bus.call(BlueZ.getObjects, timeout: Self.callTimeout).objects() else {
            renewalDue = now + Self.callTimeout
            return
        }
        guard let found = usableAdapter(in: objects) else { return }
        adapter = found
        add(objects, areNew: false)
        server.renew(on: adapter.path)
        chat.renew(on: adapter.path)
    }

    /// The requested adapter; without a request, the one used so far, or else another one that is powered on.
    private func usableAdapter(in objects: BlueZ.Objects) -> AdapterProperties? {
        if let requestedAdapter { return try? AdapterProperties.select(requestedAdapter, in: objects) }
        return (try? AdapterProperties.select(adapter.controllerName, in: objects))
            ?? (try? AdapterProperties.select(nil, in: objects))
    }

    // MARK: Reactions

    private var context: ConnectionScheduler.Context {
        ConnectionScheduler.Context(
            localAddress: adapter.address, adapterName: adapter.controllerName, isPowered: adapter.isPowered,
            wantsFrames: frames.isSubscribed, wantsPeers: !browsers.isEmpty, isAdvertising: server.isAdvertising,
            isBlueChatConnecting: chat.isConnecting, heldAddresses: discovery.heldAddresses,
            servedPaths: server.centrals.paths, chattingPaths: chat.linkedPaths)
    }

    private var discoveryContext: DiscoverySession.Context {
        DiscoverySession.Context(
            isWanted: adapter.isPowered && (frames.isSubscribed || !browsers.isEmpty || chat.isOn),
            isConnecting: connections.isConnecting || chat.isConnecting, outgoingLinkCount: connections.linkCount,
            linkCount: connections.linkCount + server.centrals.count)
    }

    private func perform(_ reactions: [ConnectionReaction]) {
        for reaction in reactions {
            switch reaction {
            case .call(let call, let path, let attempt): self.call(call, path, attempt: attempt)
            case .disconnect(let path): try? bus.send(BlueZ.call("Disconnect", of: BlueZ.device, at: path))
            case .removeFromBlueZ(let path):
                try? bus.send(BlueZ.call("RemoveDevice", of: BlueZ.adapter, at: adapter.path, with: [.objectPath(path)]))
            case .readProperties(let path): readProperties(path)
            case .stopDiscovery: perform(discovery.stop())
            case .openLink(let path, let attempt, let descriptors): openLink(path, attempt: attempt, descriptors)
            case .closeLink(let path): frames.close(path)
            case .signalChanged(let path, let signal):
                frames.setSignal(signal, of: path)
                server.setSignal(signal, of: path)
            case .removed(let path):
                server.disconnected(path)
                chat.remove(path)
            case .adapterConnectionsChanged: server.connectionsChanged(at: dependencies.clock())
            case .emit(let event): browsers.emit(event)
            case .log(let text): dependencies.log(text)
            case .warn(let text): dependencies.warn(text)
            }
        }
    }

    private func call(_ call: DeviceCall, _ path: String, attempt: Int) {
        let message = call.message(to: path)
        let complete: (AdapterController, DeviceReply) -> Void = { controller, reply in
            controller.perform(
                controller.connections.handle(
                    reply, attempt: attempt, of: path, at: controller.dependencies.clock(), in: controller.context))
        }
        // BlueZ's own attempts end with the scheduler's deadline, so the reply may take a little longer.
        let timeout = ConnectionScheduler.connectTimeout + .seconds(1)
        do throws(DBusError) {
            try bus.call(message, timeout: timeout) { [unowned self] result in
                switch result {
                case .success(let answer):
                    if call == .listServices {
                        add((answer.objects() ?? [:]).filter { $0.key.hasPrefix(path + "/") }, areNew: false)
                    }
                    complete(self, call.reply(from: answer))
                case .failure(let error): complete(self, call.failure(error))
                }
            }
        } catch {
            complete(self, call.failure(error))
        }
    }

    private func readProperties(_ path: String) {
        let call = BlueZ.call("GetAll", of: BlueZ.properties, at: path, with: [.string(BlueZ.device)])
        try? bus.call(call, timeout: Self.callTimeout) { [unowned self] result in
            guard let properties = (try? result.get())?.dictionary(), connections.devices[path] == nil else { return }
            perform(connections.add(path, properties, isNew: false, at: dependencies.clock(), in: context))
            deviceChanged(path, properties)
        }
    }

    private func perform(_ reaction: DiscoverySession.Reaction?) {
        switch reaction {
        case .start: startDiscovery()
        case .stop:
            // An error means that discovery was not running.
            _ = try? bus.call(BlueZ.call("StopDiscovery", of: BlueZ.adapter, at: adapter.path), timeout: Self.callTimeout)
        case nil: break
        }
    }

    private func startDiscovery() {
        // Without a filter, BlueZ hides devices that are not generally discoverable.
        let services = [GATTProfile.meshService] + (chat.isOn ? [BlueChat.service] : [])
        let filter: DBusValue = .dictionary([
            "UUIDs": .strings(services), "Transport": .string("le"), "DuplicateData": .boolean(true),
        ])
        dependencies.log("discovery starts")
        do throws(DBusError) {
            _ = try bus.call(
                BlueZ.call("SetDiscoveryFilter", of: BlueZ.adapter, at: adapter.path, with: [filter]), timeout: Self.callTimeout
            )
            _ = try bus.call(BlueZ.call("StartDiscovery", of: BlueZ.adapter, at: adapter.path), timeout: Self.callTimeout)
        } catch {
            discovery.startFailed(at: dependencies.clock())
        }
    }

    // MARK: Frames

    /// - Parameter subscription: identifies the subscriber; only it can unsubscribe.
    func subscribeToFrames(_ subscription: Int, _ continuation: AsyncStream<any FrameLink>.Continuation) {
        frames.subscribe(subscription, continuation)
    }

    func unsubscribeFromFrames(_ subscription: Int) {
        guard frames.unsubscribe(subscription) else { return }
        server.closeLinks()
    }

    private func openLink(_ path: String, attempt: Int, _ descriptors: ConnectionReaction.FrameDescriptors) {
        guard let device = connections.devices[path], let writing = descriptors.writing.release(),
            let notifications = descriptors.notifications.release()
        else { return }
        let link = GATTClientLink(
            writing: writing, notifications: notifications,
            maximumFrameByteCount: GATTProfile.frameLimit(mtu: descriptors.mtu), remote: device.address.linkAddress(port: 0),
            onClose: { [dependencies] in dependencies.post { $0.linkClosed(path, attempt: attempt) } })
        if let signal = device.signal { link.setSignal(signal) }
        frames.add(link, for: path)
    }

    private func linkClosed(_ path: String, attempt: Int) {
        frames.removeClosed(path)
        perform(connections.linkClosed(path, attempt: attempt, at: dependencies.clock(), in: context))
    }

    private func admitsFrames(from path: String) -> Bool {
        switch connections.admission(ofFramesFrom: path, localAddress: adapter.address) {
        case .accepted: return true
        case .replacesLocalLink:
            frames.close(path)
            return true
        case .rejected: return false
        }
    }

    // MARK: Peers

    func browse(_ continuation: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation) -> UInt64 {
        browsers.add(continuation, sightings: connections.devices.all.compactMap(\.sighting), at: dependencies.clock())
    }

    func endBrowsing(_ id: UInt64) { browsers.remove(id) }

    /// - Parameter completion: receives nil once advertised, or the reason why not.
    func advertise(_ record: ServiceRecord, completion: @escaping @Sendable (BluetoothError?) -> Void) {
        server.start(record, on: adapter.path, completion: completion)
    }

    func update(txt: [[UInt8]]) { server.update(txt: txt) }

    func withdraw() { server.stop(on: adapter.path) }

    /// Stops discovery until ``releaseDiscovery(_:channelWasOpen:)`` has been called as often as this function.
    func holdDiscovery(_ address: BluetoothAddress) { perform(discovery.hold(address)) }

    /// - Parameter channelWasOpen: whether a channel to the peer was open until now.
    func releaseDiscovery(_ address: BluetoothAddress, channelWasOpen: Bool) {
        discovery.release(address)
        if channelWasOpen { connections.channelClosed(address, at: dependencies.clock()) }
    }

    // MARK: BlueChat

    /// - Parameter subscription: identifies the subscriber; only it can leave.
    func joinChat(
        as name: DisplayName, _ subscription: Int, _ continuation: AsyncStream<ChatRadioEvent>.Continuation
    ) {
        chatSubscription = subscription
        chat.join(as: name, continuation, on: adapter.path)
        for path in connections.devices.paths { identify(path) }
        // Discovery starts again with BlueChat's service in the filter.
        perform(discovery.stop())
    }

    func leaveChat(_ subscription: Int) {
        guard subscription == chatSubscription else { return }
        chat.leave(on: adapter.path)
        perform(discovery.stop())
    }

    /// Leaves a device that offers bitchat's service to the mesh, and others that offer BlueChat's to the chat.
    private func identify(_ path: String) {
        guard let device = connections.devices[path] else { return }
        if device.properties.offersMesh {
            if chat.yieldToMesh(path) { connections.adoptConnection(path) }
        } else if device.properties.offersBlueChat {
            chat.discover(device)
        }
    }

    /// A device to which a connection for BlueChat may be made now. One that has just connected is about to write.
    private func deviceReachableForChat(_ path: String, at now: MonotonicInstant) -> RemoteDevice? {
        guard let device = connections.devices[path] else { return nil }
        let isReachable =
            device.properties.isConnected
            ? now - device.lastActivity >= RemoteDevice.courtesyTime : device.properties.isInRange
        return isReachable ? device : nil
    }

    private var unidentifiedDevices: [RemoteDevice] {
        connections.devices.all.filter {
            $0.properties.isConnected && !$0.origin.isOutgoing && !$0.properties.offersMesh
                && !server.centrals.contains($0.path)
        }
    }

    // MARK: Event loop

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        guard !bus.isDisconnected else { return nil }
        return [
            renewalDue, bus.deadline, server.nextDeadline, chat.nextDeadline(after: now), browsers.nextDeadline,
            connections.nextDeadline(after: now, in: context), discovery.nextDeadline(in: discoveryContext),
        ].compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        guard !bus.isDisconnected else { return }
        if let renewalDue, now >= renewalDue { renew(at: now) }
        browsers.tick(at: now)
        server.tick(at: now, on: adapter.path)
        perform(connections.tick(at: now, in: context))
        if adapter.isPowered, !connections.isConnecting, !chat.isConnecting, !discovery.isHeld {
            // BlueZ makes one connection at a time, and slowly while it scans.
            let isConnecting = chat.connectNext(at: now) { deviceReachableForChat($0, at: now) }
            if isConnecting { perform(discovery.stop()) }
        }
        chat.tick(at: now)
        perform(discovery.tick(at: now, in: discoveryContext))
        bus.flush()
    }

    func wait(timeout: Duration?) {
        do throws(DBusError) {
            try bus.wait(wakeup: wakeup, timeout: timeout)
        } catch {
            // The system bus ends with the machine, or not at all.
            suspend()
            browsers.finish(throwing: DiscoveryError("the system bus is not available any more: \(error.text); try again"))
        }
    }

    func close() {
        _ = frames.finish()
        server.closeLinks()
        browsers.finish()
        guard !bus.isDisconnected else { return }
        perform(discovery.stop())
        chat.leave(on: adapter.path)
        server.stop(on: adapter.path)
        discovery.releaseAll()
        perform(connections.disconnectAll(in: context))
        bus.flush()
    }
}

extension DeviceCall {
    /// - Parameter device: the device's object path.
    fileprivate func message(to device: String) -> DBusMethodCall {
        switch self {
        case .connect: BlueZ.call("Connect", of: BlueZ.device, at: device)
        case .listServices: BlueZ.getObjects
        case .readRecord(let path): BlueZ.call("ReadValue", of: BlueZ.characteristic, at: path, with: [.dictionary([:])])
        case .acquireNotify(let path): BlueZ.call("AcquireNotify", of: BlueZ.characteristic, at: path, with: [.dictionary([:])])
        case .acquireWrite(let path): BlueZ.call("AcquireWrite", of: BlueZ.characteristic, at: path, with: [.dictionary([:])])
        }
    }

    fileprivate func reply(from answer: DBusMessage) -> DeviceReply {
        switch self {
        case .connect: .connected
        case .listServices: .servicesListed
        case .readRecord: .record(answer.bytes())
        case .acquireNotify: .notifications(answer.fileDescriptor().map { OwnedDescriptor($0) })
        case .acquireWrite: .writing(answer.fileDescriptor().map { OwnedDescriptor($0) }, mtu: Int(answer.uint16() ?? 0))
        }
    }

    fileprivate func failure(_ error: DBusError) -> DeviceReply {
        let isAcquiredByOther =
            switch self {
            case .acquireNotify, .acquireWrite: BlueZ.isAcquiredByOther(error)
            case .connect, .listServices, .readRecord: false
            }
        return .failed(error.text, isAcquiredByOther: isAcquiredByOther)
    }
}
