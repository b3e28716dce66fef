/// Remote devices by object path, bounded: in a crowd the table keeps the devices with the strongest signal, and all that are
/// connected or being connected to.
struct DeviceTable {
    /// More devices than one controller usually hears in a full hall.
    static let capacity = 256

    private var devices: [String: RemoteDevice] = [:]

    subscript(path: String) -> RemoteDevice? { devices[path] }

    var all: Dictionary<String, RemoteDevice>.Values { devices.values }
    var paths: [String] { Array(devices.keys) }
    var count: Int { devices.count }

    mutating func insert(_ device: RemoteDevice) { devices[device.path] = device }

    @discardableResult
    mutating func remove(_ path: String) -> RemoteDevice? { devices.removeValue(forKey: path) }

    /// Changes a device in place.
    /// - Returns: nil for an unknown path.
    @discardableResult
    mutating func update<Result>(_ path: String, _ body: (inout RemoteDevice) -> Result) -> Result? {
        guard let index = devices.index(forKey: path) else { return nil }
        return body(&devices.values[index])
    }

    /// Decides whether a device with this signal strength is added.
    /// - Returns: nil where the table is full of better ones.
    func admission(rssi: Int) -> Admission? {
        guard devices.count >= Self.capacity else { return .free }
        let idle = devices.values.filter { $0.connection.isIdle && !$0.properties.isConnected }
        guard let worst = idle.min(by: { $0.priority < $1.priority }), worst.priority < (0, rssi) else { return nil }
        return .replacing(worst.path)
    }

    enum Admission: Equatable {
        case free
        /// The device with this path has to be removed first.
        case replacing(String)
    }
}

extension RemoteDevice {
    /// The device with most failures goes first, then the one with the weakest signal.
    fileprivate var priority: (Int, Int) { (-backoff.failureCount, properties.rssi) }
}
