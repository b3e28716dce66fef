/// Why Bluetooth does not work here. The text says what to try.
package enum BluetoothError: Error, Sendable, Hashable, CustomStringConvertible {
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
    /// The bus does not let this user talk to BlueZ.
    case notPermitted
    /// All places for advertisements are taken.
    case cannotAdvertise(String)
    /// Anything else that BlueZ complained about.
    case failed(String)

    package var description: String { advice.map { "\(cause); \($0)" } ?? cause }

    /// What is wrong.
    package var cause: String {
        switch self {
        case .noBus(let reason): "the system bus, over which BlueZ is reached, is not there (\(reason))"
        case .noDaemon: "bluetoothd does not run"
        case .noAdapter: "this machine has no Bluetooth adapter"
        case .unknownAdapter(let name, _): "there is no Bluetooth adapter \(name)"
        case .poweredOff(let name): "the Bluetooth adapter \(name) is switched off"
        case .blocked(let name, true): "the Bluetooth adapter \(name) is blocked by a switch or key on this machine"
        case .blocked(let name, false): "the Bluetooth adapter \(name) is blocked"
        case .notPermitted: "this user may not use Bluetooth: the system bus keeps bluetoothd from them"
        case .cannotAdvertise(let reason):
            "bluetoothd does not advertise for us (\(reason)), so nobody finds this machine over Bluetooth"
        case .failed(let reason): "bluetoothd refuses: \(reason)"
        }
    }

    /// What to try; nil where nothing is known to help.
    package var advice: String? {
        switch self {
        case .noBus: "`systemctl start dbus` starts it; a container has none unless it is given the machine's"
        case .noDaemon: "start it with `systemctl start bluetooth` (Debian's package is bluez)"
        case .noAdapter: "plug one in"
        case .unknownAdapter(_, let present):
            present.isEmpty ? "none is plugged in" : "these are there: \(present.joined(separator: ", "))"
        case .poweredOff: "`bluetoothctl power on` switches it on"
        case .blocked(_, true): "look for one with an antenna on it"
        case .blocked(_, false): "`rfkill unblock bluetooth` unblocks it"
        case .notPermitted: "some systems want membership in the group bluetooth"
        case .cannotAdvertise: "other programs may be advertising already"
        case .failed: nil
        }
    }
}
