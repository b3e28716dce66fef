internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// BlueChat's service: the characteristics that a central writes to and that indicate texts to it. Belongs to the adapter's
/// thread.
///
/// BlueZ indicates a value to all subscribers without identifying them, so one central is served at a time, as in BlueChat's
/// app, and the texts of others are refused.
final class BlueChatPeripheral {
    /// Receives a value that the central has written, and its object path.
    var onValue: ([UInt8], String) -> Void = { _, _ in }
    /// Called when a central has subscribed.
    var onSubscribed: () -> Void = {}
    /// The object path of the central that is served.
    var central: String?
    /// The longest value that fits into an indication, in bytes.
    private(set) var maximumValueSize = BlueChat.minimumValueByteCount
    private let bus: DBusConnection
    private let now: @Sendable () -> MonotonicInstant
    private let application: GATTApplication
    private var isServing = false
    private var hasRequestedDisconnect = false
    private var indication = Indication.none

    private enum Indication {
        case none
        case unconfirmed(until: MonotonicInstant, completion: (Bool) -> Void)
        /// The next indication may only follow the reply to BlueZ's call of `Confirm`.
        case confirmed(completion: (Bool) -> Void)
    }

    private enum Path {
        static let root = "/org/nearshare/bluechat"
        static let service = root + "/service"
        static let fromCentral = service + "/in"
        static let fromPeripheral = service + "/out"
        static let disconnectRequest = service + "/leave"
    }

    private static let confirmationTimeout = Duration.seconds(10)

    init(bus: DBusConnection, now: @escaping @Sendable () -> MonotonicInstant) throws(DBusError) {
        self.bus = bus
        self.now = now
        application = try GATTApplication(bus: bus, root: Path.root, services: [Self.service])
        application.onCall = { [unowned self] in reply(to: $0) }
    }

    private static let service = GATTApplication.Service(
        path: Path.service, uuid: BlueChat.service,
        characteristics: [
            GATTApplication.Characteristic(path: Path.fromCentral, uuid: BlueChat.fromCentral, flags: ["write"]),
            GATTApplication.Characteristic(
                path: Path.fromPeripheral, uuid: BlueChat.fromPeripheral, flags: ["read", "indicate"]),
            GATTApplication.Characteristic(
                path: Path.disconnectRequest, uuid: BlueChat.disconnectRequest, flags: ["read", "indicate"]),
        ])

    // MARK: Serving

    func start(name: String, on adapter: String) {
        isServing = true
        application.localName = name
        register(on: adapter)
    }

    func stop(on adapter: String) {
        guard isServing else { return }
        isServing = false
        dropCentral()
        unregister(on: adapter)
    }

    func renew(on adapter: String) {
        application.forgetDaemon()
        unregister(on: adapter)
        register(on: adapter)
    }

    private func unregister(on adapter: String) {
        application.unadvertise(on: adapter)
        application.unregister(on: adapter)
    }

    /// Without the service other devices do not find this one; this one finds them all the same, so an error has no
    /// consequence.
    private func register(on adapter: String) {
        application.register(on: adapter) { [weak self] error in
            guard let self, isServing, error == nil else { return }
            application.advertise(on: adapter) { _ in }
        }
    }

    func disconnected(_ path: String) {
        if central == path { dropCentral() }
    }

    func dropCentral() {
        central = nil
        hasRequestedDisconnect = false
        maximumValueSize = BlueChat.minimumValueByteCount
        finishIndication(isConfirmed: false)
    }

    // MARK: Indications

    /// - Parameter completion: receives whether the central has confirmed the value.
    func indicate(_ value: [UInt8], completion: @escaping (Bool) -> Void) {
        indication = .unconfirmed(until: now() + Self.confirmationTimeout, completion: completion)
        emit(value, at: Path.fromPeripheral)
    }

    func requestDisconnect() {
        hasRequestedDisconnect = true
        emit(BlueChat.leave, at: Path.disconnectRequest)
    }

    private func emit(_ value: [UInt8], at path: String) {
        application.notify(value, of: path)
        bus.flush()
    }

    private func finishIndication(isConfirmed: Bool) {
        let finished = indication
        indication = .none
        switch finished {
        case .none: break
        case .unconfirmed(_, let completion), .confirmed(let completion): completion(isConfirmed)
        }
    }

    private func confirmIndication() {
        if case .unconfirmed(_, let completion) = indication { indication = .confirmed(completion: completion) }
    }

    var nextDeadline: MonotonicInstant? {
        switch indication {
        case .none: nil
        case .unconfirmed(let until, _): until
        case .confirmed: now()
        }
    }

    func tick(at now: MonotonicInstant) {
        switch indication {
        case .confirmed: finishIndication(isConfirmed: true)
        case .unconfirmed(let until, _) where now >= until: finishIndication(isConfirmed: false)
        default: break
        }
    }

    // MARK: Calls of BlueZ

    private func reply(to call: DBusMessage) -> DBusReply? {
        switch (call.interface, call.member, call.path) {
        case (BlueZ.characteristic, "WriteValue", Path.fromCentral): return receive(call)
        case (BlueZ.characteristic, "ReadValue", Path.fromPeripheral): return .values([.bytes([])])
        case (BlueZ.characteristic, "ReadValue", Path.disconnectRequest):
            return .values([.bytes(hasRequestedDisconnect ? BlueChat.leave : [0])])
        case (BlueZ.characteristic, "StartNotify", Path.fromPeripheral): onSubscribed()
        case (BlueZ.characteristic, "Confirm", Path.fromPeripheral): confirmIndication()
        default: break
        }
        return nil
    }

    private func receive(_ call: DBusMessage) -> DBusReply {
        guard isServing, let value = call.bytes(), let options = call.dictionary(), let device = options["device"]?.string,
            options["offset"]?.integer ?? 0 == 0
        else { return .error(name: "org.bluez.Error.Failed", text: "") }
        guard central == nil || central == device else {
            return .error(name: "org.bluez.Error.NotPermitted", text: "another central is served")
        }
        let mtu = options["mtu"]?.integer ?? 0
        maximumValueSize = max(BlueChat.minimumValueByteCount, min(mtu - GATTProfile.headerSize, BlueChat.maximumTextByteCount))
        onValue(value, device)
        return .values([])
    }
}
