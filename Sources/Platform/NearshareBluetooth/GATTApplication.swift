internal import NearshareDBus

/// Objects of ours that BlueZ calls: services with their characteristics, and the advertisement that leads to the first of them.
///
/// What BlueZ asks of every application is answered here, and nobody but BlueZ is; what is left goes to ``answer``. Lives on the
/// radio's thread.
final class GATTApplication {
    struct Service {
        let path: String
        let uuid: String
        let characteristics: [Characteristic]
    }

    struct Characteristic {
        let path: String
        let uuid: String
        let flags: [String]
    }

    /// Is asked what a call does that only some services have; nil for a method that there is not.
    var answer: (BusMessage) -> BusAnswer? = { _ in nil }
    /// Called when BlueZ has taken the advertisement back.
    var onReleased: () -> Void = {}
    /// Advertised beside the service.
    var localName: String?
    private let bus: SystemBus
    private let root: String
    private let services: [Service]
    /// The daemon's own connection to the bus.
    private var daemon: String?

    /// RegisterApplication and RegisterAdvertisement ask for all objects before they answer, which takes a while on a busy machine.
    private static let timeout = Duration.seconds(10)

    /// - Parameter root: the path below which all objects are.
    init(bus: SystemBus, root: String, services: [Service]) throws(BusError) {
        self.bus = bus
        self.root = root
        self.services = services
        try bus.serve(root) { [unowned self] call in
            guard isFromDaemon(call) else { return .error(name: "org.freedesktop.DBus.Error.AccessDenied", text: "") }
            return reply(to: call)
        }
    }

    // MARK: With the daemon

    /// - Parameter then: is told what was wrong, or nothing.
    func register(on adapter: String, then: @escaping (BusError?) -> Void) {
        ask(BlueZ.call(adapter, BlueZ.gattManager, "RegisterApplication", [.objectPath(root), .dictionary([:])]), then)
    }

    /// - Parameter then: is told what was wrong, or nothing.
    func advertise(on adapter: String, then: @escaping (BusError?) -> Void) {
        let arguments: [BusValue] = [.objectPath(advertisementPath), .dictionary([:])]
        ask(BlueZ.call(adapter, BlueZ.advertisingManager, "RegisterAdvertisement", arguments), then)
    }

    func unadvertise(on adapter: String) {
        let arguments: [BusValue] = [.objectPath(advertisementPath)]
        try? bus.send(BlueZ.call(adapter, BlueZ.advertisingManager, "UnregisterAdvertisement", arguments))
    }

    func unregister(on adapter: String) {
        unadvertise(on: adapter)
        try? bus.send(BlueZ.call(adapter, BlueZ.gattManager, "UnregisterApplication", [.objectPath(root)]))
    }

    /// Another daemon calls from now on.
    func forgetDaemon() { daemon = nil }

    /// Notifies, or indicates, a value to all centrals that have subscribed.
    func tell(_ value: [UInt8], of path: String) {
        let changed: [BusValue] = [.string(BlueZ.characteristic), .dictionary(["Value": .bytes(value)]), .strings([])]
        try? bus.emit("PropertiesChanged", of: BlueZ.properties, at: path, to: BlueZ.name, changed)
    }

    private func ask(_ call: BusCall, _ then: @escaping (BusError?) -> Void) {
        do throws(BusError) {
            try bus.call(call, timeout: Self.timeout) { result in
                switch result {
                case .success: then(nil)
                case .failure(let error): then(error)
                }
            }
        } catch {
            then(error)
        }
    }

    // MARK: What the daemon asks

    private func isFromDaemon(_ call: BusMessage) -> Bool {
        if daemon == nil { daemon = try? bus.owner(of: BlueZ.name) }
        return daemon == call.sender
    }

    private func reply(to call: BusMessage) -> BusAnswer? {
        switch (call.interface, call.member) {
        case (BlueZ.objectManager, "GetManagedObjects") where call.path == root: return .values([.objects(objects)])
        case (BlueZ.properties, "GetAll"):
            guard let interface = call.string() else { return nil }
            let object = call.path == advertisementPath ? advertisement : objects[call.path]
            return object?[interface].map { .values([.dictionary($0)]) }
        case (BlueZ.advertisement, "Release"):
            onReleased()
            return .values([])
        case (BlueZ.characteristic, "StartNotify"), (BlueZ.characteristic, "StopNotify"), (BlueZ.characteristic, "Confirm"):
            return answer(call) ?? .values([])
        default: return answer(call)
        }
    }

    private var objects: BlueZ.Objects {
        var objects: BlueZ.Objects = [:]
        for service in services {
            objects[service.path] = [BlueZ.service: ["UUID": .string(service.uuid), "Primary": .boolean(true)]]
            for one in service.characteristics {
                objects[one.path] = [
                    BlueZ.characteristic: [
                        "UUID": .string(one.uuid), "Service": .objectPath(service.path), "Flags": .strings(one.flags),
                    ]
                ]
            }
        }
        return objects
    }

    private var advertisementPath: String { root + "/advertisement" }

    /// Little besides the service: flags and one long UUID leave ten bytes of 31. Those that are not generally discoverable are
    /// kept from programs that scan without a filter.
    private var advertisement: [String: BlueZ.Properties] {
        var properties: BlueZ.Properties = [
            "Type": .string("peripheral"), "ServiceUUIDs": .strings(services.prefix(1).map(\.uuid)),
            "Discoverable": .boolean(true),
        ]
        if let localName { properties["LocalName"] = .string(localName) }
        return [BlueZ.advertisement: properties]
    }
}
