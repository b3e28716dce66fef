internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// Our side of GATT: the frames that centrals write and are notified of, and the record that they read. Lives on the radio's thread.
final class GATTServer {
    /// Called for each central that begins to write.
    var onCentral: (PeripheralLink) -> Void = { _ in }
    /// Whether what a device writes is to make a link.
    var mayServe: (String) -> Bool = { _ in true }
    /// What we tell of ourselves; nil while nothing is served.
    var record: ServiceRecord?
    private(set) var isAdvertising = false
    /// When to advertise anew.
    private var advertiseAt: MonotonicInstant?
    /// Once more after that: Linux may be in the middle of taking up the old advertisement while it is given the new one.
    private var advertisesTwice = false
    private let bus: SystemBus
    private let post: @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void
    private let queue: NotificationQueue
    private var links: [String: (link: PeripheralLink, lastWrite: MonotonicInstant)] = [:]
    private let application: GATTApplication
    /// Notifications that are on their way to the daemon.
    private var underWay = 0
    private var answer: (@Sendable (BluetoothError?) -> Void)?

    private enum Path {
        static let root = "/org/nearshare"
        static let mesh = root + "/mesh"
        static let frames = mesh + "/frames"
        static let record = root + "/record"
        static let value = record + "/value"
    }

    /// As a peripheral (bitchat specification, section 11).
    private static let maximumLinks = 8
    /// See ``CentralLink``.
    private static let silence = Duration.seconds(150)
    /// So many go to the daemon before it has to say that it has dealt with half of them: it would queue without a bound.
    private static let window = 16
    private static let smallestMTU = 23
    /// BlueZ is busy with a connection that has just been made.
    private static let readvertisingPause = Duration.milliseconds(500)
    private static let secondAdvertisingPause = Duration.seconds(4)
    private static let retryPause = Duration.seconds(10)

    init(bus: SystemBus, post: @escaping @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void) throws(BusError) {
        self.bus = bus
        self.post = post
        queue = NotificationQueue(onReady: { post { $0.server.pump() } })
        application = try GATTApplication(bus: bus, root: Path.root, services: Self.services)
        application.answer = { [unowned self] in answer(to: $0) }
        application.onReleased = { [unowned self] in isAdvertising = false }
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

    // MARK: Serving

    var linkCount: Int { links.count }

    func hasLink(_ device: String) -> Bool { links[device] != nil }

    /// - Parameter answer: is called once, when it is advertised or can't be.
    func start(_ record: ServiceRecord, on adapter: String, answer: @escaping @Sendable (BluetoothError?) -> Void) {
        self.record = record
        self.answer = answer
        register(on: adapter)
    }

    /// After the daemon has forgotten it.
    func renew(on adapter: String) {
        application.forgetDaemon()
        guard record != nil else { return }
        // What it may still hold of before is no longer on the air.
        application.unregister(on: adapter)
        register(on: adapter)
    }

    func stop(on adapter: String) {
        guard record != nil else { return }
        record = nil
        isAdvertising = false
        application.unregister(on: adapter)
        closeLinks()
    }

    private func register(on adapter: String) {
        application.register(on: adapter) { [weak self] error in
            guard let self, record != nil else { return }
            if let error { return failed(BluetoothError(error), on: adapter) }
            advertise(on: adapter)
        }
    }

    private func advertise(on adapter: String) {
        application.advertise(on: adapter) { [weak self] error in
            guard let self, record != nil else { return }
            // Not every controller can while somebody is connected.
            if let error { return failed(.cannotAdvertise(error.text), on: adapter) }
            isAdvertising = true
            settle(nil)
        }
    }

    /// Whoever waits for it is told, and has to begin anew. What has worked before does again at some time.
    private func failed(_ error: BluetoothError, on adapter: String) {
        if answer == nil {
            advertiseAt = .now + Self.retryPause
        } else {
            stop(on: adapter)
        }
        settle(error)
    }

    private func settle(_ error: BluetoothError?) {
        answer?(error)
        answer = nil
    }

    // MARK: Links

    func disconnected(_ device: String) {
        links[device]?.link.close()
    }

    func closeLinks() {
        for (link, _) in links.values { link.close() }
    }

    /// The daemon, or the adapter, is gone.
    func dropAll() {
        closeLinks()
        isAdvertising = false
        advertiseAt = nil
        underWay = 0
    }

    var deadline: MonotonicInstant? {
        (links.values.map { $0.lastWrite + Self.silence } + [advertiseAt].compactMap { $0 }).min()
    }

    func tick(at now: MonotonicInstant, on adapter: String) {
        for (link, lastWrite) in links.values where now - lastWrite >= Self.silence { link.close() }
        if let due = advertiseAt, now >= due {
            advertiseAt = nil
            guard isAdvertising else { return renew(on: adapter) }
            application.unadvertise(on: adapter)
            advertise(on: adapter)
            if advertisesTwice { advertiseAt = now + Self.secondAdvertisingPause }
            advertisesTwice = false
        }
    }

    /// Somebody has connected, with which a controller stops advertising; and Linux does not begin again before they leave. Whoever
    /// connects and says nothing would keep everybody else out. Or somebody has left: then Linux takes up, on adapters before
    /// Bluetooth 5, the advertisement of when they came, which by now is another; nobody can connect to what it advertises instead.
    func connectionsChanged(at now: MonotonicInstant) {
        guard isAdvertising, links.count < Self.maximumLinks else { return }
        advertiseAt = now + Self.readvertisingPause
        advertisesTwice = true
    }

    private func written(_ bytes: [UInt8], by device: String, mtu: Int) {
        guard mayServe(device) else { return }
        if links[device] == nil {
            // Whom it belongs to, the frames say.
            guard links.count < Self.maximumLinks, let address = BlueZ.address(ofDevice: device) else { return }
            let link = PeripheralLink(
                device: device,
                maximumFrameByteCount: min(mtu - GATTProfile.headerByteCount, GATTProfile.maximumFrameByteCount),
                remote: address.linkAddress(port: 0), queue: queue,
                onClose: { [post] in post { $0.server.ended(device) } })
            links[device] = (link, .now)
            onCentral(link)
        }
        links[device]!.lastWrite = .now
        links[device]!.link.deliver(bytes)
    }

    private func ended(_ device: String) {
        guard let (link, _) = links[device], link.isClosed else { return }
        links[device] = nil
    }

    private func pump() {
        while underWay < Self.window, let frame = queue.removeFirst() {
            application.tell(frame, of: Path.frames)
            underWay += 1
            guard underWay == Self.window / 2 || underWay == Self.window else { continue }
            let ping = BlueZ.call("/", "org.freedesktop.DBus.Peer", "Ping")
            let isAsked: Void? = try? bus.call(ping, timeout: .seconds(5)) { [weak self] _ in
                guard let self else { return }
                underWay = max(0, underWay - Self.window / 2)
                pump()
            }
            if isAsked == nil { underWay = 0 }
        }
        bus.flush()
    }

    // MARK: What the daemon asks

    private func answer(to call: BusMessage) -> BusAnswer? {
        switch (call.interface, call.member, call.path) {
        case (BlueZ.characteristic, "WriteValue", Path.frames):
            guard let bytes = call.bytes(), let options = call.dictionary(), let device = options["device"]?.text else {
                return .error(name: "org.bluez.Error.Failed", text: "")
            }
            // One write is one frame: no phone sends one in pieces (bitchat specification, section 11).
            guard options["offset"]?.integer ?? 0 == 0 else { return .error(name: "org.bluez.Error.InvalidOffset", text: "") }
            written(bytes, by: device, mtu: max(Self.smallestMTU, options["mtu"]?.integer ?? 0))
            return .values([])
        case (BlueZ.characteristic, "ReadValue", Path.frames): return .values([.bytes([])])
        case (BlueZ.characteristic, "ReadValue", Path.value):
            let offset = call.dictionary()?["offset"]?.integer ?? 0
            return .values([.bytes(Array((record?.bytes ?? []).dropFirst(offset)))])
        default: return nil
        }
    }
}
