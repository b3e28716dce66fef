internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// BlueChat's service: the values that a central writes, and is indicated. Lives on the radio's thread.
///
/// BlueZ indicates a value to all that have subscribed, and does not say who they are; so one central is served at a time, as
/// BlueChat's app does it, and another's texts are refused.
final class BlueChatPeripheral {
    /// A value that the central has written, and its object path.
    var onValue: ([UInt8], String) -> Void = { _, _ in }
    /// Somebody has subscribed.
    var onSubscribed: () -> Void = {}
    /// The one that is served.
    var central: String?
    private(set) var largestValue = BlueChat.smallestValue
    private let bus: SystemBus
    private let application: GATTApplication
    private var isServing = false
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
    }

    private static let confirmationTime = Duration.seconds(10)

    init(bus: SystemBus) throws(BusError) {
        self.bus = bus
        application = try GATTApplication(bus: bus, root: Path.root, services: [Self.service])
        application.answer = { [unowned self] in answer(to: $0) }
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
        dropAll()
        application.unregister(on: adapter)
    }

    func renew(on adapter: String) {
        application.forgetDaemon()
        application.unregister(on: adapter)
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

    /// Without it others can't find us, and we find them all the same.
    private func register(on adapter: String) {
        application.register(on: adapter) { [weak self] error in
            guard let self, isServing, error == nil else { return }
            application.advertise(on: adapter) { _ in }
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
        application.tell(value, of: path)
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

    private func answer(to call: BusMessage) -> BusAnswer? {
        switch (call.interface, call.member, call.path) {
        case (BlueZ.characteristic, "WriteValue", Path.fromCentral): return written(call)
        case (BlueZ.characteristic, "ReadValue", Path.fromPeripheral): return .values([.bytes([])])
        case (BlueZ.characteristic, "ReadValue", Path.disconnectRequest):
            return .values([.bytes(isLeaving ? BlueChat.leave : [0])])
        case (BlueZ.characteristic, "StartNotify", Path.fromPeripheral): onSubscribed()
        // The next one goes out after the answer to this call.
        case (BlueZ.characteristic, "Confirm", Path.fromPeripheral): isConfirmed = true
        default: break
        }
        return nil
    }

    private func written(_ call: BusMessage) -> BusAnswer {
        guard isServing, let value = call.bytes(), let options = call.dictionary(), let device = options["device"]?.text,
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
}
