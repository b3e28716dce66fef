internal import ArgumentParser
internal import NearshareService

/// The network interface and the Bluetooth adapter that the node of a command uses, to look for peers and to be found.
struct NearbyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Network interface to use, such as wlan0 (default: the configured one, or all).", valueName: "interface"),
        transform: InterfaceArgument.existing)
    var interface: String?

    @OptionGroup var bluetooth: BluetoothOptions

    /// The options of the node that the command runs while none is running.
    func nodeOptions(_ global: GlobalOptions) -> NodeOptions {
        NodeOptions(interface: interface, radio: bluetooth.makeOpener(log: global.logger), log: global.logger)
    }
}
