internal import NearshareDBus

/// The names of BlueZ's D-Bus interface (its `doc/` folder), and how its answers are read.
enum BlueZ: DBusService {
    static let name = "org.bluez"
    static let adapter = "org.bluez.Adapter1"
    static let device = "org.bluez.Device1"
    static let service = "org.bluez.GattService1"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let gattManager = "org.bluez.GattManager1"
    static let advertisement = "org.bluez.LEAdvertisement1"
    static let advertisingManager = "org.bluez.LEAdvertisingManager1"
    static let objectManager = "org.freedesktop.DBus.ObjectManager"
    static let properties = "org.freedesktop.DBus.Properties"

    typealias Properties = [String: DBusValue]
    /// Properties by object path and interface.
    typealias Objects = [String: [String: Properties]]

    private static let ownerTimeout = Duration.seconds(2)
    private static let objectsTimeout = Duration.seconds(5)

    static var getObjects: DBusMethodCall { call("GetManagedObjects", of: objectManager, at: "/") }

    /// Reads all objects of the daemon; does not start one.
    static func objects(over bus: DBusConnection) throws(BluetoothError) -> Objects {
        do throws(DBusError) {
            if try bus.hasOwner(name, timeout: ownerTimeout) {
                return try bus.call(getObjects, timeout: objectsTimeout).objects() ?? [:]
            }
        } catch {
            throw BluetoothError(error)
        }
        throw .noDaemon
    }

    /// Finds the adapter to use among all objects.
    /// - Parameter name: such as "hci0"; nil for the first that is powered on.
    static func findAdapter(_ name: String?, in objects: Objects) throws(BluetoothError) -> (
        path: String, properties: Properties
    ) {
        let adapters = objects.compactMap { path, interfaces in
            interfaces[adapter].map { (path: path, properties: $0) }
        }.sorted { $0.path < $1.path }
        guard let name else {
            guard let first = adapters.first(where: { $0.properties["Powered"]?.bool == true }) ?? adapters.first else {
                throw .noAdapter
            }
            return first
        }
        guard let found = adapters.first(where: { Self.name(of: $0.path) == name }) else {
            throw .unknownAdapter(name, present: adapters.map { Self.name(of: $0.path) })
        }
        return found
    }

    /// Whether another program on this machine has acquired the characteristic.
    static func isAcquiredByOther(_ error: DBusError) -> Bool {
        error.name == "org.bluez.Error.NotPermitted" || error.name == "org.bluez.Error.InProgress"
    }

    /// The address in a device's object path. Its kind is not part of the path; centrals mostly use random addresses.
    static func address(ofDevice path: String) -> BluetoothAddress? {
        BluetoothAddress(String(path.suffix(17).map { $0 == "_" ? ":" : $0 }), kind: "random")
    }

    /// The object path of the device to which an object belongs; nil for objects that are not below a device.
    static func devicePath(of path: String) -> String? {
        let parts = path.pathComponents
        guard parts.count > 4, parts[3].hasPrefix("dev_") else { return nil }
        return "/" + parts[..<4].joined(separator: "/")
    }

    /// The last component of an object path.
    static func name(of path: String) -> String {
        path.nameInParent
    }
}

extension BluetoothError {
    /// The meaning of an error reply of the daemon.
    init(_ error: DBusError) {
        switch error.name {
        case "org.freedesktop.DBus.Error.AccessDenied": self = .notPermitted
        case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner": self = .noDaemon
        default: self = .failed(error.text)
        }
    }
}
