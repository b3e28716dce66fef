internal import ArgumentParser
internal import Logging
internal import Nearshare

/// The Bluetooth adapter that a command uses.
struct RadioOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).",
            valueName: "adapter"))
    var adapter: String?

    var isOff: Bool { adapter == "none" }

    /// Checks that Bluetooth can be used, for a command that uses nothing else.
    func requireBluetooth() throws {
        if isOff { throw ValidationError("--via bluetooth needs an adapter; omit --adapter none") }
        if LocalMachine.radio() == nil {
            throw ValidationError("Bluetooth is not available in this build of nearshare; use another transport")
        }
    }

    /// Opens the adapter when the node first needs it; nil for no Bluetooth.
    func radio(log: Logger) -> (@Sendable () throws(DiscoveryError) -> Radio)? {
        isOff ? nil : LocalMachine.radio(adapter: adapter, log: log)
    }
}
