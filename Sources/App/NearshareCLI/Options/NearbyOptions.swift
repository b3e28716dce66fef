internal import ArgumentParser
internal import NearshareService

/// The network interface and the Bluetooth adapter on which the node of a command looks for peers.
struct NearbyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("Look for peers on this network interface only.", valueName: "interface"),
        transform: InterfaceArgument.existing)
    var interface: String?

    @OptionGroup var bluetooth: BluetoothOptions

    /// The options of the node that the command runs while none is running.
    func nodeOptions(_ global: GlobalOptions) -> NodeOptions {
        NodeOptions(interface: interface, radio: bluetooth.makeOpener(log: global.logger), log: global.logger)
    }
}
