internal import NearshareBase
internal import NearshareBus
internal import NearshareWire

/// BlueChat's service as objects that BlueZ calls, and its advertisement. Lives on the radio's thread.
///
/// BlueZ indicates a value to all that have subscribed, and does not say who they are; so one central is served at a time, as
/// BlueChat's app does it, and another's texts are refused.
final class ChatServer {
    /// A value that the central has written, and its object path.
    var onValue: ([UInt8], String) -> Void = { _, _ in }
    /// Somebody has subscribed.
    var onSubscribed: () -> Void = {}
    /// The one that is served.
    var central: String?
    private(set) var largestValue = BlueChat.smallestValue
    private let bus: SystemBus
    private var name: String?
    private var daemon: String?
    private var isLeaving = false
    /// An indication that waits to be confirmed.
    private var isConfirmed = false
    private var unconfirmed: (until: MonotonicInstant, answer: (Bool) -> Void)?

    private enum Path {
        static let root = "/org/nearshare/bluechat"
        static let service = root + "/service"
        static let fromCentral = service + "/in"
        static let fromPeripheral = service + "/out"
        static let disconnectRequest = service + "/leave"
        static let advertisement = root + "/advertisement"
    }

    private static let confirmationTime = Duration.seconds(10)

    init(bus: SystemBus) throws(BusError) {
        self.bus = bus
        try bus.serve(Path.root) { [unowned self] call in
            guard isFromDaemon(call) else { return .error(name: "org.freedesktop.DBus.Error.AccessDenied", text: "") }
            return reply(to: call)
        }
    }

    // MARK: Serving

    func start(name: String, on adapter: String) {
        self.name = name
        register(on: adapter)
    }

    func stop(on adapter: String) {
        guard name != nil else { return }
        name = nil
        dropAll()
        unregister(on: adapter)
    }

    func renew(on adapter: String) {
        daemon = nil
        unregister(on: adapter)
        register(on: adapter)
    }

    func dropAll() {
        central = nil
        isLeaving = false
        isConfirmed = false
        largestValue = BlueChat.smallestValue
        settle(false)
    }

    func disconnected(_ path: String) {
        if central == path { dropAll() }
    }

    private func unregister(on adapter: String) {
        try? bus.send(
            BlueZ.call(adapter, BlueZ.advertisingManager, "UnregisterAdvertisement", [.objectPath(Path.advertisement)]))
        try? bus.send(BlueZ.call(adapter, BlueZ.gattManager, "UnregisterApplication", [.objectPath(Path.root)]))
    }

    /// Without it others can't find us, and we find them all the same.
    private func register(on adapter: String) {
        let application = BlueZ.call(
            adapter, BlueZ.gattManager, "RegisterApplication", [.objectPath(Path.root), .dictionary([:])])
        try? bus.call(application, timeout: .seconds(10)) { [weak self] result in
            guard let self, name != nil, (try? result.get()) != nil else { return }
            let advertisement = BlueZ.call(
                adapter, BlueZ.advertisingManager, "RegisterAdvertisement",
                [.objectPath(Path.advertisement), .dictionary([:])])
            try? self.bus.call(advertisement, timeout: .seconds(10)) { _ in }
        }
    }

    // MARK: To the central

    /// - Parameter answer: is told whether it has arrived.
    func indicate(_ value: [UInt8], answer: @escaping (Bool) -> Void) {
        unconfirmed = (.now + Self.confirmationTime, answer)
        emit(value, at: Path.fromPeripheral)
    }

    func askToLeave() {
        isLeaving = true
        emit(BlueChat.leave, at: Path.disconnectRequest)
    }

    private func emit(_ value: [UInt8], at path: String) {
        let changed: [BusValue] = [.string(BlueZ.characteristic), .dictionary(["Value": .bytes(value)]), .strings([])]
        try? bus.emit("PropertiesChanged", of: BlueZ.properties, at: path, to: BlueZ.name, changed)
        bus.flush()
    }

    private func settle(_ isConfirmed: Bool) {
        guard let answer = unconfirmed?.answer else { return }
        unconfirmed = nil
        answer(isConfirmed)
    }

    var deadline: MonotonicInstant? { unconfirmed?.until }

    func tick(at now: MonotonicInstant) {
        if isConfirmed {
            isConfirmed = false
            settle(true)
        }
        if let until = unconfirmed?.until, now >= until { settle(false) }
    }

    // MARK: What the daemon asks

    private func isFromDaemon(_ call: BusMessage) -> Bool {
        if daemon == nil { daemon = try? bus.owner(of: BlueZ.name) }
        return daemon == call.sender
    }

    private func reply(to call: BusMessage) -> BusAnswer? {
        switch (call.interface, call.member, call.path) {
        case (BlueZ.objectManager, "GetManagedObjects", Path.root): return .values([.objects(objects)])
        case (BlueZ.properties, "GetAll", _):
            guard let interface = call.string() else { return nil }
            return (objects[call.path] ?? advertisement(call.path))?[interface].map { .values([.dictionary($0)]) }
        case (BlueZ.characteristic, "WriteValue", Path.fromCentral): return written(call)
        case (BlueZ.characteristic, "ReadValue", Path.fromPeripheral): return .values([.bytes([])])
        case (BlueZ.characteristic, "ReadValue", Path.disconnectRequest):
            return .values([.bytes(isLeaving ? BlueChat.leave : [0])])
        case (BlueZ.characteristic, "StartNotify", Path.fromPeripheral):
            onSubscribed()
            return .values([])
        case (BlueZ.characteristic, "Confirm", Path.fromPeripheral):
            // The next one goes out after the answer to this call.
            isConfirmed = true
            return .values([])
        case (BlueZ.characteristic, "StartNotify", _), (BlueZ.characteristic, "StopNotify", _),
            (BlueZ.characteristic, "Confirm", _), (BlueZ.advertisement, "Release", _):
            return .values([])
        default: return nil
        }
    }

    private func written(_ call: BusMessage) -> BusAnswer {
        guard name != nil, let value = call.bytes(), let options = call.dictionary(), let device = options["device"]?.text,
            options["offset"]?.integer ?? 0 == 0
        else { return .error(name: "org.bluez.Error.Failed", text: "") }
        guard central == nil || central == device else {
            return .error(name: "org.bluez.Error.NotPermitted", text: "somebody else is being talked to")
        }
        let mtu = options["mtu"]?.integer ?? 0
        largestValue = max(BlueChat.smallestValue, min(mtu - GATTProfile.headerByteCount, BlueChat.maximumByteCount))
        onValue(value, device)
        return .values([])
    }

    private var objects: BlueZ.Objects {
        func characteristic(_ uuid: String, _ flags: [String]) -> [String: BlueZ.Properties] {
            [BlueZ.characteristic: ["UUID": .string(uuid), "Service": .objectPath(Path.service), "Flags": .strings(flags)]]
        }
        return [
            Path.service: [BlueZ.service: ["UUID": .string(BlueChat.service), "Primary": .boolean(true)]],
            Path.fromCentral: characteristic(BlueChat.fromCentral, ["write"]),
            Path.fromPeripheral: characteristic(BlueChat.fromPeripheral, ["read", "indicate"]),
            Path.disconnectRequest: characteristic(BlueChat.disconnectRequest, ["read", "indicate"]),
        ]
    }

    private func advertisement(_ path: String) -> [String: BlueZ.Properties]? {
        guard path == Path.advertisement, let name else { return nil }
        return [
            BlueZ.advertisement: [
                "Type": .string("peripheral"), "ServiceUUIDs": .strings([BlueChat.service]), "LocalName": .string(name),
                "Discoverable": .boolean(true),
            ]
        ]
    }
}
