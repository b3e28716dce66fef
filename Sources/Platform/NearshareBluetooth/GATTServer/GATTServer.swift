internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// The adapter's GATT server: the frames that centrals write and are notified of, and the record that they read. Belongs to the
/// adapter's thread.
final class GATTServer {
    /// Receives the link of each central that begins to write frames.
    var onLink: (GATTServerLink) -> Void = { _ in }
    /// Decides whether the frames of a device, by its path, are accepted.
    var admitsFrames: (String) -> Bool = { _ in true }
    private(set) var advertising = AdvertisingState()
    private(set) var centrals = CentralTable()
    private var window = NotificationWindow()
    private let queue: NotificationQueue
    private let bus: DBusConnection
    private let application: GATTApplication
    private let dependencies: AdapterDependencies
    private var record: ServiceRecord?
    private var onAdvertised: (@Sendable (BluetoothError?) -> Void)?

    private enum Path {
        static let root = "/org/nearshare"
        static let mesh = root + "/mesh"
        static let frames = mesh + "/frames"
        static let record = root + "/record"
        static let value = record + "/value"
    }

    /// The ATT MTU of a connection that has not negotiated one.
    private static let defaultMTU = 23
    private static let pingTimeout = Duration.seconds(5)

    init(bus: DBusConnection, dependencies: AdapterDependencies) throws(DBusError) {
        self.bus = bus
        self.dependencies = dependencies
        queue = NotificationQueue(onNonEmpty: { dependencies.post { $0.server.sendNotifications() } })
        application = try GATTApplication(bus: bus, root: Path.root, services: Self.services)
        application.onCall = { [unowned self] in reply(to: $0) }
        application.onReleased = { [unowned self] in advertising.released() }
    }

    private static let services = [
        GATTApplication.Service(
            path: Path.mesh, uuid: GATTProfile.meshService,
            characteristics: [
                GATTApplication.Characteristic(
                    path: Path.frames, uuid: GATTProfile.meshCharacteristic,
                    flags: ["read", "write", "write-without-response", "notify"])
            ]),
        GATTApplication.Service(
            path: Path.record, uuid: GATTProfile.recordService,
            characteristics: [
                GATTApplication.Characteristic(path: Path.value, uuid: GATTProfile.recordCharacteristic, flags: ["read"])
            ]),
    ]

    // MARK: Advertising

    var isAdvertising: Bool { advertising.isAdvertising }

    /// Registers the services and advertises them.
    /// - Parameter completion: called once: with nil when advertised, or with the reason why not.
    func start(
        _ record: ServiceRecord, on adapter: String, completion: @escaping @Sendable (BluetoothError?) -> Void
    ) {
        self.record = record
        onAdvertised = completion
        perform(advertising.start(), on: adapter)
    }

    func update(txt: [[UInt8]]) { record?.txt = txt }

    func stop(on adapter: String) {
        guard advertising.isOn else { return }
        perform(advertising.stop(), on: adapter)
        end()
    }

    /// Registers everything again after BlueZ or the adapter has come back.
    func renew(on adapter: String) { perform(advertising.renew(), on: adapter) }

    func connectionsChanged(at now: MonotonicInstant) {
        // A full server has no use for another central.
        if !centrals.isFull { advertising.connectionsChanged(at: now) }
    }

    private func end() {
        record = nil
        onAdvertised = nil
        centrals.closeAll()
    }

    private func perform(_ reactions: [AdvertisingState.Reaction], on adapter: String) {
        for reaction in reactions {
            switch reaction {
            case .registerApplication:
                application.register(on: adapter) { [weak self] error in
                    guard let self else { return }
                    perform(
                        advertising.applicationRegistered(error.map { BluetoothError($0) }, at: dependencies.clock()),
                        on: adapter)
                }
            case .registerAdvertisement:
                application.advertise(on: adapter) { [weak self] error in
                    guard let self else { return }
                    perform(
                        advertising.advertisementRegistered(
                            error.map { .cannotAdvertise($0.text) }, at: dependencies.clock()), on: adapter)
                }
            case .unregisterAdvertisement: application.unadvertise(on: adapter)
            case .unregisterApplication: application.unregister(on: adapter)
            case .forgetDaemon: application.forgetDaemon()
            case .report(let error):
                onAdvertised?(error)
                onAdvertised = nil
                if error != nil { end() }
            }
        }
    }

    // MARK: Links

    func disconnected(_ device: String) { centrals.close(device) }

    func closeLinks() { centrals.closeAll() }

    func setSignal(_ signal: SignalReading, of device: String) { centrals.setSignal(signal, of: device) }

    /// BlueZ or the adapter is gone.
    func suspend() {
        centrals.closeAll()
        advertising.suspend()
        window.reset()
    }

    var nextDeadline: MonotonicInstant? { [centrals.nextDeadline, advertising.nextDeadline].compactMap(\.self).min() }

    func tick(at now: MonotonicInstant, on adapter: String) {
        centrals.closeSilent(at: now)
        perform(advertising.tick(at: now), on: adapter)
    }

    private func receive(_ bytes: [UInt8], from device: String, mtu: Int) {
        guard admitsFrames(device) else { return }
        let now = dependencies.clock()
        if centrals.deliver(bytes, from: device, at: now) { return }
        // The peer behind the address is known from its frames only.
        guard !centrals.isFull, let address = BlueZ.address(ofDevice: device) else { return }
        let link = GATTServerLink(
            devicePath: device, maximumFrameByteCount: GATTProfile.frameLimit(mtu: mtu), remote: address.linkAddress(port: 0),
            queue: queue, onClose: { [dependencies] in dependencies.post { $0.server.removeClosedLink(device) } })
        centrals.add(link, for: device, at: now)
        onLink(link)
        _ = centrals.deliver(bytes, from: device, at: now)
    }

    private func removeClosedLink(_ device: String) { centrals.removeClosed(device) }

    private func sendNotifications() {
        while window.isOpen, let frame = queue.popFirst() {
            application.notify(frame, of: Path.frames)
            guard let ping = window.recordSent() else { continue }
            let call = BlueZ.call("Ping", of: "org.freedesktop.DBus.Peer", at: "/")
            do throws(DBusError) {
                try bus.call(call, timeout: Self.pingTimeout) { [weak self] _ in
                    self?.window.recordEnd(of: ping)
                    self?.sendNotifications()
                }
            } catch {
                // No reply will come. The rest follows with the next frame, if there is a bus then.
                window.reset()
                return bus.flush()
            }
        }
        bus.flush()
    }

    // MARK: Calls of BlueZ

    private func reply(to call: DBusMessage) -> DBusReply? {
        switch (call.interface, call.member, call.path) {
        case (BlueZ.characteristic, "WriteValue", Path.frames):
            guard let bytes = call.bytes(), let options = call.dictionary(), let device = options["device"]?.string else {
                return .error(name: "org.bluez.Error.Failed", text: "")
            }
            // One write is one frame: no phone sends one in parts (bitchat specification, section 11).
            guard options["offset"]?.integer ?? 0 == 0 else { return .error(name: "org.bluez.Error.InvalidOffset", text: "") }
            receive(bytes, from: device, mtu: max(Self.defaultMTU, options["mtu"]?.integer ?? 0))
            return .values([])
        case (BlueZ.characteristic, "ReadValue", Path.frames): return .values([.bytes([])])
        case (BlueZ.characteristic, "ReadValue", Path.value):
            let offset = call.dictionary()?["offset"]?.integer ?? 0
            return .values([.bytes(Array((record?.bytes ?? []).dropFirst(offset)))])
        default: return nil
        }
    }
}
