/// The reason why Bluetooth does not work on this machine, with advice.
package enum BluetoothError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The system bus, over which BlueZ is reached, is not available.
    case noBus(String)
    /// BlueZ's daemon does not run.
    case noDaemon
    /// No adapter is plugged in.
    case noAdapter
    /// No adapter has this name; `present` lists those that are there.
    case unknownAdapter(String, present: [String])
    case poweredOff(String)
    /// rfkill blocks the adapter, by a hardware or a software switch.
    case blocked(String, byHardware: Bool)
    /// The bus policy does not let this user call BlueZ.
    case notPermitted
    /// BlueZ refuses the advertisement.
    case cannotAdvertise(String)
    /// Any other error of BlueZ.
    case failed(String)

    package var description: String { advice.map { "\(cause); \($0)" } ?? cause }

    /// The cause as it is shown to the user.
    package var cause: String {
        switch self {
        case .noBus(let reason): "the system bus, which leads to BlueZ, is not available (\(reason))"
        case .noDaemon: "bluetoothd is not running"
        case .noAdapter: "this machine has no Bluetooth adapter"
        case .unknownAdapter(let name, _): "there is no Bluetooth adapter \(name)"
        case .poweredOff(let name): "the Bluetooth adapter \(name) is powered off"
        case .blocked(let name, true): "the Bluetooth adapter \(name) is blocked by a switch or key on this machine"
        case .blocked(let name, false): "the Bluetooth adapter \(name) is blocked"
        case .notPermitted: "this user may not use Bluetooth: the system bus denies access to bluetoothd"
        case .cannotAdvertise(let reason):
            "bluetoothd does not advertise this machine (\(reason)), so others cannot find it over Bluetooth"
        case .failed(let reason): "bluetoothd failed: \(reason)"
        }
    }

    /// A suggested remedy; nil where none is known.
    package var advice: String? {
        switch self {
        case .noBus: "`sudo systemctl start dbus` starts it; a container needs the machine's bus passed in"
        case .noDaemon: "start it with `sudo systemctl start bluetooth` (Debian package: bluez)"
        case .noAdapter: "plug one in; `dmesg` tells whether a driver or its firmware is missing"
        case .unknownAdapter(_, let present):
            present.isEmpty ? "none is plugged in" : "this machine has \(present.joined(separator: ", "))"
        case .poweredOff: "`bluetoothctl power on` switches it on"
        case .blocked(_, true): "use the switch or key that turns wireless off"
        case .blocked(_, false): "`sudo rfkill unblock bluetooth` unblocks it"
        case .notPermitted: "some systems require membership in the group bluetooth"
        case .cannotAdvertise: "other programs may be advertising already"
        case .failed: nil
        }
    }
}
