internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

struct BrowseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "browse", abstract: "List the peers nearby.")

    @Flag(help: "Keep running, and report peers that appear and disappear, until Ctrl-C.")
    var watch = false

    @Option(
        help: ArgumentHelp("Time to look, 0.1 to 600 (default: 2, or 8 for --via bluetooth).", valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @Option(help: ArgumentHelp("Look for peers on this network interface only.", valueName: "interface"))
    var interface: String?

    @Option(help: ArgumentHelp("Look on one transport only: lan or bluetooth.", valueName: "transport"))
    var via: Medium?

    enum Medium: String, ExpressibleByArgument, CaseIterable {
        case lan, bluetooth
    }

    @OptionGroup var bluetooth: BluetoothOptions

    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if via == .bluetooth { try bluetooth.requireBluetooth() }
    }

    func run() async throws {
        try await runCommand {
            try bluetooth.requireAdapter()
            let machine = try LocalMachine()
            let book = try machine.trust.read()
            let settings = try machine.nodeSettings(
                interface: interface, discovery: via == .bluetooth ? nil : machine.discovery(log: global.logger),
                radio: via == .lan ? nil : bluetooth.makeOpener(log: global.logger),
                log: global.logger)
            let media: Set<LinkAddress.Medium> =
                via.map { $0 == .bluetooth ? [.bluetooth] : [.network] }
                ?? (settings.radio == nil ? [.network] : [.network, .bluetooth])
            // Over Bluetooth, learning a name needs a connection.
            let defaultTimeout: Duration = via == .bluetooth ? .seconds(8) : .seconds(2)
            let list = BrowsedPeers(book: book, isJSON: json)
            try await withNode(settings) { [watch, timeout] node in
                let changes = try await node.browse(media)
                try await SignalHandling.run(onSignal: {
                    node.beginShutdown()
                    list.stop()
                }) {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for try await case .change(let change) in changes { list.update(change, isReported: watch) }
                        }
                        group.addTask { await list.stopped(after: watch ? nil : timeout?.duration ?? defaultTimeout) }
                        try await group.next()
                        group.cancelAll()
                    }
                }
            }
            try? RecentPeers.record(
                list.peers.map { RecentPeers.Entry(id: $0.id, name: $0.name, lastSeen: SystemClock.wall()) }, in: machine.state)
            if !watch { try list.report() }
        }
    }
}

/// The peers found so far, and their output.
private final class BrowsedPeers: Sendable {
    private let book: TrustStore
    private let isJSON: Bool
    private let found = Mutex<[PeerID: NearbyPeer]>([:])
    private let stopping: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    init(book: TrustStore, isJSON: Bool) {
        self.book = book
        self.isJSON = isJSON
        stopping = AsyncStream.makeStream(of: Void.self)
    }

    var peers: [NearbyPeer] { PeerTable.sorted(found.withLock { $0 }) }

    func stop() { stopping.continuation.finish() }

    /// Returns after ``stop()`` or a timeout.
    func stopped(after time: Duration?) async {
        await withTaskGroup(of: Void.self) { group in
            if let time { group.addTask { try? await Task.sleep(for: time) } }
            group.addTask { for await _ in self.stopping.stream {} }
            await group.next()
            group.cancelAll()
        }
    }

    func update(_ change: PeerTable.Change, isReported: Bool) {
        let (event, sign, peer): (String, String, NearbyPeer) =
            switch change {
            case .found(let peer): ("found", "+", peer)
            case .updated(let peer): ("updated", "~", peer)
            case .lost(let peer): ("lost", "-", peer)
            }
        let before = found.withLock { found in
            defer { found[peer.id] = event == "lost" ? nil : peer }
            return found[peer.id]
        }
        guard isReported else { return }
        if isJSON {
            JSONEvents.emit(event, describe(peer))
        } else if event != "updated" || before.map(row) != row(peer) {
            Console.writeResult(([sign] + row(peer)).joined(separator: "  "))
        }
    }

    /// Writes all peers.
    /// - Throws: ``CommandFailure`` when there are none.
    func report() throws {
        let peers = self.peers
        guard !peers.isEmpty else {
            throw CommandFailure(
                .peerNotFound,
                "no peers nearby; `nearshare receive` advertises a machine, `nearshare doctor` looks for problems")
        }
        if isJSON {
            for peer in peers { JSONEvents.emit("found", describe(peer)) }
        } else {
            Console.writeTable(peers.map(row))
        }
    }

    private func row(_ peer: NearbyPeer) -> [String] {
        [
            book.shownName(claiming: peer.id, named: peer.name).shown, peer.id.hex, peer.addresses.first?.description ?? "",
            trustStatus(peer),
        ]
    }

    private func describe(_ peer: NearbyPeer) -> [String: JSONValue] {
        [
            "name": .string(peer.name.claimed), "id": .string(peer.id.hex), "trust": .string(trustStatus(peer)),
            "addresses": .array(peer.addresses.map { .string($0.description) }),
        ]
    }

    /// The trust status of the claimed id, which is not authenticated: for display only.
    private func trustStatus(_ peer: NearbyPeer) -> String {
        book.trustStatus(claiming: peer.id, named: peer.name).label
    }
}
