internal import NearshareDBus

/// What BlueZ's D-Bus interface is called (its `doc/` folder), and what is read from it.
enum BlueZ {
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

    typealias Properties = [String: BusValue]
    typealias Objects = [String: [String: Properties]]

    static func call(_ path: String, _ interface: String, _ member: String, _ arguments: [BusValue] = []) -> BusCall {
        BusCall(destination: name, path: path, interface: interface, member: member, arguments: arguments)
    }

    static var getObjects: BusCall { call("/", objectManager, "GetManagedObjects") }

    /// Everything that the daemon tells of, without starting one.
    static func objects(over bus: SystemBus) throws(BluetoothError) -> Objects {
        do throws(BusError) {
            if try bus.hasOwner(name, timeout: .seconds(2)) {
                return try bus.call(getObjects, timeout: .seconds(5)).objects() ?? [:]
            }
        } catch {
            throw BluetoothError(error)
        }
        throw .noDaemon
    }

    /// The daemon's version, which it tells only as a part of what the adapter says that it is: `usb:v1D6Bp0246d0542` is 5.66.
    struct Version: Sendable, Hashable, Comparable, CustomStringConvertible {
        let major: Int
        let minor: Int

        init(_ major: Int, _ minor: Int) {
            self.major = major
            self.minor = minor
        }

        init?(modalias: String) {
            guard modalias.hasPrefix("usb:v1D6Bp0246d"), let code = UInt16(modalias.suffix(4), radix: 16) else { return nil }
            self.init(Int(code >> 8), Int(code & 0xFF))
        }

        var description: String { "\(major).\(minor)" }

        static func < (one: Self, other: Self) -> Bool { (one.major, one.minor) < (other.major, other.minor) }

        /// Before this one the daemon refuses writes of more than 510 bytes, and drops unconfirmed ones without a word.
        static let takesLongWrites = Version(5, 69)
    }

    /// Finds the adapter to use among all objects.
    /// - Parameter name: such as "hci0"; nil for the first that is switched on.
    static func findAdapter(_ name: String?, in objects: Objects) throws(BluetoothError) -> (path: String, Properties) {
        let adapters = objects.compactMap { path, interfaces in interfaces[adapter].map { (path: path, $0) } }
            .sorted { $0.path < $1.path }
        let names = adapters.map { Self.name(of: $0.path) }
        guard let name else {
            guard let first = adapters.first(where: { $0.1["Powered"]?.flag == true }) ?? adapters.first else {
                throw .noAdapter
            }
            return first
        }
        guard let index = names.firstIndex(of: name) else { throw .unknownAdapter(name, present: names) }
        return adapters[index]
    }

    /// Of a characteristic's frames: somebody else on this machine has them.
    static func isTakenElsewhere(_ error: BusError) -> Bool {
        error.name == "org.bluez.Error.NotPermitted" || error.name == "org.bluez.Error.InProgress"
    }

    /// Of a device's object path, in which it is written. Centrals use addresses of their own making, mostly; so it is taken for one.
    static func address(ofDevice path: String) -> BluetoothAddress? {
        BluetoothAddress(String(path.suffix(17).map { $0 == "_" ? ":" : $0 }), kind: "random")
    }

    /// The last part of an object's path.
    static func name(of path: String) -> String {
        String(path[path.index(after: path.lastIndex(of: "/") ?? path.startIndex)...])
    }
}

extension BluetoothError {
    /// What an answer of the daemon means for people.
    init(_ error: BusError) {
        switch error.name {
        case "org.freedesktop.DBus.Error.AccessDenied": self = .notPermitted
        case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner": self = .noDaemon
        default: self = .failed(error.text)
        }
    }
}
