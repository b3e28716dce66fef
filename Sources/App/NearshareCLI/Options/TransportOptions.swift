internal import ArgumentParser
internal import Logging
internal import Nearshare
internal import NearshareService

/// How a transfer reaches its receivers.
struct TransportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Transport to use: lan (a direct connection over the network), bluetooth (a direct connection to a peer in range) or "
                + "mesh (relayed from neighbour to neighbour, at most 5 MiB per file). Default: the first available.",
            valueName: "transport"))
    var via: Transport?

    @Option(
        help: ArgumentHelp(
            "Network interface to use, such as wlan0 (default: the configured one, or all). Without --via, also chooses lan.",
            valueName: "interface"),
        transform: InterfaceArgument.existing)
    var interface: String?

    @OptionGroup var bluetooth: BluetoothOptions

    /// The transport that was chosen; nil for the first available. An interface alone selects `lan`.
    var preferred: Transport? { via ?? (interface == nil ? nil : .network) }

    /// Checks that the transport can reach the named receivers.
    func validateReceivers(_ receivers: [String]) throws {
        let address = receivers.first { LinkAddress(parsing: $0) != nil }.map { TerminalText.escaped($0) }
        switch via {
        case .mesh:
            if let address { throw ValidationError("\(address) is an address; the mesh needs a name or an id") }
        case .bluetooth:
            if interface != nil { throw ValidationError("--interface is for the network; omit it, or --via bluetooth") }
            try bluetooth.validateBluetooth()
            if let address { throw ValidationError("\(address) is an address; Bluetooth needs a name or an id") }
        case .network, nil: break
        }
    }

    /// Settings of a node that can find receivers, also one that was given by an address which changes during the transfer.
    func nodeSettings(_ machine: LocalMachine, log: Logger) throws -> NodeSettings {
        try bluetooth.requireAdapterOfOption()
        return try machine.nodeSettings(
            interface: interface, discovery: via != .bluetooth ? machine.discovery(log: log) : nil,
            radio: preferred == .network ? nil : bluetooth.makeOpener(log: log), log: log)
    }

    /// TLS for LocalSend devices; nil where none of the receivers can be one.
    func localSendSecurity(of machine: LocalMachine, for receivers: [String], log: Logger) -> (any LinkSecurity)? {
        let addresses = receivers.map { LinkAddress(parsing: $0) }
        let canBeDevice = addresses.isEmpty || addresses.contains { $0 == nil || $0?.port == Node.localSendPort }
        guard via == nil || via == .network, canBeDevice else { return nil }
        return machine.localSendSecurityIfAvailable(log: log)
    }
}

extension Transport: ExpressibleByArgument {}
