internal import NearshareDBus

/// D-Bus objects that BlueZ calls: GATT services with their characteristics, and the advertisement of the first service.
///
/// Answers the methods that BlueZ calls on every application, and none that another process calls; the rest goes to ``onCall``.
/// Belongs to the adapter's thread.
final class GATTApplication {
    struct Service {
        let path: String
        let uuid: String
        let characteristics: [Characteristic]
    }

    struct Characteristic {
        let path: String
        let uuid: String
        /// The values of BlueZ's `Flags` property.
        let flags: [String]
    }

    /// Answers the calls that depend on the service; nil for an unknown method.
    var onCall: (DBusMessage) -> DBusReply? = { _ in nil }
    /// Called when BlueZ has withdrawn the advertisement.
    var onReleased: () -> Void = {}
    /// Advertised beside the service.
    var localName: String?
    private let bus: DBusConnection
    private let root: String
    private let services: [Service]
    /// The unique bus name of BlueZ's daemon; nil until it has called.
    private var daemon: String?

    /// RegisterApplication and RegisterAdvertisement call back for all objects before they reply, which takes a while on a busy
    /// machine.
    private static let registrationTimeout = Duration.seconds(10)

    /// - Parameter root: the path below which all objects are.
    init(bus: DBusConnection, root: String, services: [Service]) throws(DBusError) {
        self.bus = bus
        self.root = root
        self.services = services
        try bus.serve(root) { [unowned self] call in
            guard isFromDaemon(call) else { return .error(name: "org.freedesktop.DBus.Error.AccessDenied", text: "") }
            return reply(to: call)
        }
    }

    // MARK: Calls to BlueZ

    /// - Parameter completion: receives the error; nil once registered.
    func register(on adapter: String, completion: @escaping (DBusError?) -> Void) {
        call(
            BlueZ.call("RegisterApplication", of: BlueZ.gattManager, at: adapter, with: [.objectPath(root), .dictionary([:])]),
            completion)
    }

    /// - Parameter completion: receives the error; nil once advertised.
    func advertise(on adapter: String, completion: @escaping (DBusError?) -> Void) {
        let arguments: [DBusValue] = [.objectPath(advertisementPath), .dictionary([:])]
        call(BlueZ.call("RegisterAdvertisement", of: BlueZ.advertisingManager, at: adapter, with: arguments), completion)
    }

    func unadvertise(on adapter: String) {
        let arguments: [DBusValue] = [.objectPath(advertisementPath)]
        try? bus.send(BlueZ.call("UnregisterAdvertisement", of: BlueZ.advertisingManager, at: adapter, with: arguments))
    }

    func unregister(on adapter: String) {
        try? bus.send(BlueZ.call("UnregisterApplication", of: BlueZ.gattManager, at: adapter, with: [.objectPath(root)]))
    }

    /// Another daemon has taken BlueZ's name, so that calls come from another unique name.
    func forgetDaemon() { daemon = nil }

    /// Notifies, or indicates, a value to all subscribed centrals.
    func notify(_ value: [UInt8], of path: String) {
        let changed: [DBusValue] = [.string(BlueZ.characteristic), .dictionary(["Value": .bytes(value)]), .strings([])]
        try? bus.emit("PropertiesChanged", of: BlueZ.properties, at: path, to: BlueZ.name, changed)
    }

    private func call(_ call: DBusMethodCall, _ completion: @escaping (DBusError?) -> Void) {
        do throws(DBusError) {
            try bus.call(call, timeout: Self.registrationTimeout) { result in
                switch result {
                case .success: completion(nil)
                case .failure(let error): completion(error)
                }
            }
        } catch {
            completion(error)
        }
    }

    // MARK: Calls of BlueZ

    private func isFromDaemon(_ call: DBusMessage) -> Bool {
        if daemon == nil { daemon = try? bus.owner(of: BlueZ.name) }
        return daemon == call.sender
    }

    private func reply(to call: DBusMessage) -> DBusReply? {
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
            return onCall(call) ?? .values([])
        default: return onCall(call)
        }
    }

    private var objects: BlueZ.Objects {
        var objects: BlueZ.Objects = [:]
        for service in services {
            objects[service.path] = [BlueZ.service: ["UUID": .string(service.uuid), "Primary": .boolean(true)]]
            for characteristic in service.characteristics {
                objects[characteristic.path] = [
                    BlueZ.characteristic: [
                        "UUID": .string(characteristic.uuid), "Service": .objectPath(service.path),
                        "Flags": .strings(characteristic.flags),
                    ]
                ]
            }
        }
        return objects
    }

    private var advertisementPath: String { root + "/advertisement" }

    /// The first service only: flags and one 128-bit UUID leave ten of 31 bytes. Linux hides devices that are not generally
    /// discoverable from programs that scan without a filter.
    private var advertisement: [String: BlueZ.Properties] {
        var properties: BlueZ.Properties = [
            "Type": .string("peripheral"), "ServiceUUIDs": .strings(services.prefix(1).map(\.uuid)),
            "Discoverable": .boolean(true),
        ]
        if let localName { properties["LocalName"] = .string(localName) }
        return [BlueZ.advertisement: properties]
    }
}
