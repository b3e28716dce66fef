internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct BrowseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "browse", abstract: "List the peers nearby.")

    /// A transport whose peers can be browsed. `mesh status` lists the neighbours in the mesh.
    enum DirectTransport: String, ExpressibleByArgument, CaseIterable {
        case network = "lan"
        case bluetooth
    }

    @Flag(help: "Keep running, and report peers that appear and disappear, until Ctrl-C.")
    var watch = false

    @Option(
        help: ArgumentHelp("Time to look, 0.1 to 600 (default: 2, or 8 for --via bluetooth).", valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @Option(help: ArgumentHelp("Look on one transport only (default: both).", valueName: "transport"))
    var via: DirectTransport?

    @Flag(help: "Also probe the addresses of this machine's networks for LocalSend: at most 254 in each of four networks.")
    var scan = false

    @OptionGroup var nearby: NearbyOptions

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if nearby.interface != nil, via == .bluetooth {
            throw ValidationError("--interface is for the network; omit it, or --via bluetooth")
        }
        if via == .bluetooth { try nearby.bluetooth.validateBluetooth() }
        if watch, timeout != nil { throw ValidationError("--watch looks until it is ended; omit --timeout") }
        if scan, via == .bluetooth { throw ValidationError("--scan looks on the network; omit --via bluetooth") }
    }

    func run() async throws {
        try await runCommand {
            try nearby.bluetooth.requireAdapterOfOption()
            let machine = try LocalMachine()
            let trust = try machine.trust.read()
            let settings = try machine.nodeSettings(
                interface: nearby.interface, discovery: via == .bluetooth ? nil : machine.discovery(log: global.logger),
                radio: via == .network ? nil : nearby.bluetooth.makeOpener(log: global.logger),
                log: global.logger)
            let media: Set<LinkAddress.Medium> =
                via.map { $0 == .bluetooth ? [.bluetooth] : [.network] }
                ?? (settings.radio == nil ? [.network] : [.network, .bluetooth])
            // Over Bluetooth, learning a name needs a connection.
            let defaultTimeout: Duration = via == .bluetooth ? .seconds(8) : .seconds(2)
            let list = BrowsedPeers(trust: trust, reporter: output.reporter)
            let security = via == .bluetooth ? nil : machine.localSendSecurityIfAvailable(log: global.logger)
            var interruption: SignalHandling.Interrupted?
            do {
                try await withNode(settings) { [watch, timeout, scan, interface = nearby.interface] node in
                    node.findLocalSendDevices(security)
                    let scanning: @Sendable () async throws -> Void = {
                        guard scan else { return }
                        guard await node.scanForLocalSendDevices(at: ScanHosts.all(on: interface)) != nil else {
                            throw CommandFailure(
                                .failure,
                                "--scan needs LocalSend: it is off (`protocols` in the configuration), or OpenSSL 3 is missing (Debian: libssl3)"
                            )
                        }
                    }
                    try await withNetworkNotice(settings, report: NetworkNotice.show) {
                        try await list.follow(
                            node, media, for: watch ? nil : timeout?.duration ?? defaultTimeout, reportsChanges: watch,
                            during: scanning)
                    }
                }
            } catch let error as SignalHandling.Interrupted {
                interruption = error
            }
            try? RecentPeers.record(
                list.peers.map {
                    RecentPeers.Entry(
                        id: $0.id, name: $0.name, lastSeen: SystemClock.wall(), isLocalSend: $0.destination.isLocalSend)
                }, in: machine.state)
            if !watch, interruption == nil || !list.peers.isEmpty {
                try list.report(isPhoneLinked: list.peers.isEmpty ? await Self.isPhoneLinked(to: machine) : false)
            }
            if let interruption { throw interruption }
        }
    }

    /// Whether the running node of this user has phones in its mesh.
    private static func isPhoneLinked(to machine: LocalMachine) async -> Bool {
        // Without a reply of the node, only the advice about phones is missing.
        let status = try? await withRunningNode(of: machine) { try await $0.status() }
        return status?.neighbours.contains { $0.contact.software == .phone } ?? false
    }
}
