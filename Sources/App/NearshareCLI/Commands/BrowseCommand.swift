internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

struct BrowseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "browse", abstract: "List who is nearby.")

    @Flag(help: "Go on, and tell who comes and goes, until Ctrl-C.")
    var watch = false

    @Option(help: ArgumentHelp("How long to look, 0.1 to 600 (default: 2).", valueName: "seconds"))
    var timeout: TimeoutArgument?

    @Option(help: ArgumentHelp("Look through this network interface only.", valueName: "interface"))
    var interface: String?

    @Option(help: ArgumentHelp("Look on one medium only: lan or bluetooth.", valueName: "way"))
    var via: Medium?

    enum Medium: String, ExpressibleByArgument, CaseIterable {
        case lan, bluetooth
    }

    @OptionGroup var radio: RadioOptions

    @Flag(help: "Write one JSON event a line to standard output.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if via == .bluetooth { try radio.checkOn() }
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let book = try machine.trust.read()
            let settings = try machine.nodeSettings(
                interface: interface, discovery: via == .bluetooth ? nil : machine.discovery(),
                radio: via == .lan ? nil : radio.radio(log: global.logger),
                log: global.logger)
            let media: Set<LinkAddress.Medium> =
                via.map { $0 == .bluetooth ? [.bluetooth] : [.network] }
                ?? (settings.radio == nil ? [.network] : [.network, .bluetooth])
            // Over Bluetooth one has to connect to ask for a name.
            let lookTime: Duration = via == .bluetooth ? .seconds(8) : .seconds(2)
            let list = BrowsedPeers(book: book, isJSON: json)
            try await withNode(settings) { [watch, timeout] node in
                let changes = try await node.browse(media)
                try await SignalHandling.run(onSignal: {
                    node.beginShutdown()
                    list.stop()
                }) {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for try await case .change(let change) in changes { list.take(change, tells: watch) }
                        }
                        group.addTask { await list.stopped(after: watch ? nil : timeout?.duration ?? lookTime) }
                        try await group.next()
                        group.cancelAll()
                    }
                }
            }
            try? RecentPeers.record(
                list.peers.map { RecentPeers.Entry(id: $0.id, name: $0.name, lastSeen: SystemClock.wall()) }, in: machine.state)
            if !watch { try list.tellAll() }
        }
    }
}

private final class BrowsedPeers: Sendable {
    private struct State {
        var peers: [PeerID: NearbyPeer] = [:]
    }

    private let book: TrustStore
    private let isJSON: Bool
    private let state = Mutex(State())
    private let stopping: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    init(book: TrustStore, isJSON: Bool) {
        self.book = book
        self.isJSON = isJSON
        stopping = AsyncStream.makeStream(of: Void.self)
    }

    var peers: [NearbyPeer] { PeerTable.sorted(state.withLock { $0.peers }) }

    func stop() { stopping.continuation.finish() }

    /// Waits for a stop, or for time to run out.
    func stopped(after time: Duration?) async {
        await withTaskGroup(of: Void.self) { group in
            if let time { group.addTask { try? await Task.sleep(for: time) } }
            group.addTask { for await _ in self.stopping.stream {} }
            await group.next()
            group.cancelAll()
        }
    }

    func take(_ change: PeerTable.Change, tells: Bool) {
        let (word, peer): (String, NearbyPeer) =
            switch change {
            case .found(let peer): ("found", peer)
            case .updated(let peer): ("updated", peer)
            case .lost(let peer): ("lost", peer)
            }
        state.withLock { $0.peers[peer.id] = word == "lost" ? nil : peer }
        guard tells else { return }
        if isJSON {
            JSONEvents.emit(word, describe(peer))
        } else {
            let sign = ["found": "+", "updated": "~", "lost": "-"][word]!
            Console.result(([sign] + row(peer)).joined(separator: "  "))
        }
    }

    func tellAll() throws {
        let peers = self.peers
        guard !peers.isEmpty else {
            throw CommandFailure(
                .peerNotFound,
                "nobody is nearby; `nearshare receive` makes a machine visible, `nearshare doctor` looks for causes")
        }
        if isJSON {
            for peer in peers { JSONEvents.emit("found", describe(peer)) }
        } else {
            for line in Table.lines(peers.map(row)) { Console.result(line) }
        }
    }

    private func row(_ peer: NearbyPeer) -> [String] {
        [peer.name.shown, peer.id.hex, peer.addresses.first?.description ?? "", trustStatus(peer)]
    }

    private func describe(_ peer: NearbyPeer) -> [String: JSONValue] {
        [
            "name": .text(peer.name.claimed), "id": .text(peer.id.hex), "standing": .text(trustStatus(peer)),
            "addresses": .list(peer.addresses.map { .text($0.description) }),
        ]
    }

    /// By the id that it claims: good for a list, not for a decision.
    private func trustStatus(_ peer: NearbyPeer) -> String {
        book.trustStatus(claiming: peer.id, named: peer.name).label
    }
}
