/// The local adapter as BlueZ reports it (org.bluez.Adapter1).
struct AdapterProperties: Equatable {
    let path: String
    let address: BluetoothAddress
    /// True in a new value; follows `Powered` afterwards, see ``AdapterController``.
    var isPowered: Bool

    /// The kernel's name of the controller, such as "hci0": the last component of the object path. `Name` of org.bluez.Adapter1
    /// is another one, for display.
    var controllerName: String { BlueZ.name(of: path) }

    /// Selects a usable adapter.
    /// - Parameter requestedName: such as "hci0"; nil for the first that is powered on.
    /// - Throws: ``BluetoothError/noAdapter`` or ``BluetoothError/unknownAdapter(_:)`` without an adapter,
    ///   ``BluetoothError/poweredOff(_:)`` or ``BluetoothError/blocked(_:byHardware:)`` for one that is off.
    static func select(_ requestedName: String?, in objects: BlueZ.Objects) throws(BluetoothError) -> AdapterProperties {
        let (path, properties) = try BlueZ.findAdapter(requestedName, in: objects)
        let name = BlueZ.name(of: path)
        guard let text = properties["Address"]?.string,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.string ?? "public")
        else { throw .failed("the adapter \(name) has no address; `sudo systemctl restart bluetooth` may help") }
        guard properties["Powered"]?.bool == true else {
            if let block = RFKill.block(of: name) { throw .blocked(name, byHardware: block == .hardware) }
            throw .poweredOff(name)
        }
        return AdapterProperties(path: path, address: address, isPowered: true)
    }
}
