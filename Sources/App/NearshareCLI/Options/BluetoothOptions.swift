internal import ArgumentParser
internal import Logging
internal import Nearshare
internal import NearshareService

/// The Bluetooth adapter that a command uses.
struct BluetoothOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is powered on).",
            valueName: "adapter"))
    var adapter: String?

    var isOff: Bool { adapter == "none" }

    /// Checks that the options and this build allow Bluetooth, for `--via bluetooth`.
    func validateBluetooth() throws {
        if isOff { throw ValidationError("--via bluetooth needs an adapter; omit --adapter none") }
        if !LocalMachine.hasBluetooth {
            throw ValidationError("Bluetooth is not available in this build of nearshare; use another transport")
        }
    }

    /// Checks that the machine has the adapter that `--adapter` names, for commands that look for peers once.
    func requireAdapterOfOption() throws {
        guard let adapter, !isOff else { return }
        let all = LocalMachine.bluetoothAdapters
        guard !all.contains(adapter) else { return }
        let known = all.isEmpty ? "this machine has none" : "this machine has \(all.joined(separator: ", "))"
        throw CommandFailure(
            .failure, "there is no Bluetooth adapter \(TerminalText.escaped(adapter)); \(known); --adapter none uses none")
    }

    /// A closure that opens the adapter; the node calls it when Bluetooth is first needed. nil for no Bluetooth.
    func makeOpener(log: Logger) -> RadioOpener? {
        isOff ? nil : LocalMachine.bluetoothOpener(adapter: adapter, log: log)
    }
}
