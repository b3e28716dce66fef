/// Why Bluetooth does not work here. The text says what to try.
public enum BluetoothError: Error, Sendable, Hashable, CustomStringConvertible {
    /// There is no system bus to reach BlueZ over.
    case noBus(String)
    /// BlueZ's daemon does not run.
    case noDaemon
    /// No adapter is plugged in.
    case noAdapter
    /// None has this name; these are there.
    case unknownAdapter(String, present: [String])
    case poweredOff(String)
    /// A switch, in hardware or software, keeps it silent.
    case blocked(String, byHardware: Bool)
    /// The bus lets this user do nothing.
    case notPermitted(String)
    /// All places for advertisements are taken.
    case cannotAdvertise(String)
    /// Anything else that BlueZ complained about.
    case failed(String)

    public var description: String {
        switch self {
        case .noBus(let reason):
            "BlueZ is reached through the system bus, and that does not answer (\(reason)): is dbus running?"
        case .noDaemon: "bluetoothd does not run; start it with `systemctl start bluetooth` (Debian's package is bluez)"
        case .noAdapter: "this machine has no Bluetooth adapter; plug one in"
        case .unknownAdapter(let name, let present):
            "there is no Bluetooth adapter \(name)"
                + (present.isEmpty ? "; none is plugged in" : "; these are there: \(present.joined(separator: ", "))")
        case .poweredOff(let name): "the Bluetooth adapter \(name) is switched off; `bluetoothctl power on` switches it on"
        case .blocked(let name, true):
            "the Bluetooth adapter \(name) is blocked by a switch or key on this machine; look for one with an antenna on it"
        case .blocked(let name, false): "the Bluetooth adapter \(name) is blocked; `rfkill unblock bluetooth` unblocks it"
        case .notPermitted(let reason):
            "this user may not use Bluetooth (\(reason)); some systems want membership in the group bluetooth"
        case .cannotAdvertise(let reason):
            "bluetoothd does not advertise for us (\(reason)), so nobody finds this machine over Bluetooth; "
                + "other programs may be advertising already"
        case .failed(let reason): "bluetoothd refuses: \(reason)"
        }
    }
}
