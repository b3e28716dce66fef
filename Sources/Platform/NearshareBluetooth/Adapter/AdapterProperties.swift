/// The local adapter as BlueZ reports it (org.bluez.Adapter1).
struct AdapterProperties: Equatable {
    let path: String
    let address: BluetoothAddress
    var isPowered: Bool

    /// Such as "hci0".
    var name: String { BlueZ.name(of: path) }

    /// Finds an adapter that can be used.
    /// - Parameter name: such as "hci0"; nil for the first that is switched on.
    /// - Throws: for an adapter that is missing, switched off or blocked.
    init(named name: String?, in objects: BlueZ.Objects) throws(BluetoothError) {
        let (path, properties) = try BlueZ.findAdapter(name, in: objects)
        let name = BlueZ.name(of: path)
        guard let text = properties["Address"]?.string,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.string ?? "public")
        else { throw .failed("the adapter \(name) has no address") }
        guard properties["Powered"]?.bool == true else {
            throw RFKill.block(of: name).map { .blocked(name, byHardware: $0 == .hardware) } ?? .poweredOff(name)
        }
        self.path = path
        self.address = address
        isPowered = true
    }
}
