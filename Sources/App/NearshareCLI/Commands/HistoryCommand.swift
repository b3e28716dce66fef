internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "List what was sent and received.")

    @Option(
        help: ArgumentHelp(
            "List transfers with this peer only: a name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(PeerArgument.completions), transform: PeerArgument.validated)
    var peer: String?

    @Option(help: ArgumentHelp("List only the latest (default: 50, or all with --json).", valueName: "count"))
    var limit: Int?

    @Flag(help: "List only what was sent.")
    var sent = false

    @Flag(help: "List only what was received.")
    var received = false

    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    @OptionGroup var global: GlobalOptions

    private static let defaultLimit = 50

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit expects a number from 1") }
        if sent, received { throw ValidationError("give either --sent or --received, or none of them for both") }
    }

    /// A transfer in either direction.
    private struct Row: NamedPeer {
        var when: WallTime
        var isReceived: Bool
        var id: PeerID
        var name: DisplayName
        /// Safe for a terminal.
        var content: String
        var size: UInt64
        var outcome: String
        /// nil for what was sent.
        var path: String?
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            var rows = try Self.rows(of: machine, sent: !received, received: !sent).sorted { $0.when < $1.when }
            if let peer { rows = try Self.select(peer, from: rows) }
            let shown = rows.suffix(limit ?? (json ? rows.count : Self.defaultLimit))
            if json {
                for row in shown { JSONEvents.emit("history", Self.members(row)) }
                return
            }
            if shown.isEmpty {
                return Console.notice("nothing was \(sent ? "sent" : received ? "received" : "sent or received") yet")
            }
            Console.writeTable(
                shown.map { row in
                    [
                        row.when.localText, row.isReceived ? "from" : "to", row.name.shown, row.size.asByteCount,
                        row.isReceived ? "received" : row.outcome == "completed" ? "sent" : row.outcome, row.content,
                    ]
                })
        }
    }

    private static func rows(of machine: LocalMachine, sent: Bool, received: Bool) throws -> [Row] {
        let trust = try machine.trust.read()
        var rows: [Row] = []
        if received {
            rows += try ReceiveHistory(in: machine.state).entries().map { entry in
                Row(
                    when: entry.when, isReceived: true, id: entry.peer.peerID,
                    name: trust.entries[entry.peer]?.givenName ?? entry.peerName,
                    content: TerminalText.escaped(entry.path, columns: 4096), size: entry.size, outcome: "completed",
                    path: entry.path)
            }
        }
        if sent {
            rows += try SendHistory(in: machine.state).entries().compactMap { entry in
                guard let name = DisplayName(truncating: entry.peerName) ?? DisplayName(truncating: entry.peer.hex) else {
                    return nil
                }
                return Row(
                    when: entry.when, isReceived: false, id: entry.peer,
                    name: trust.entry(claiming: entry.peer)?.entry.name ?? name,
                    content: entry.content, size: entry.size, outcome: entry.outcome)
            }
        }
        return rows
    }

    private static func select(_ text: String, from rows: [Row]) throws(CommandFailure) -> [Row] {
        // Each peer once, under its latest name.
        let peers = Dictionary(rows.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        switch NameMatch(of: text, among: Array(peers.values)) {
        case .none:
            throw CommandFailure(.peerNotFound, "there is no transfer with \(TerminalText.escaped(text)) in the history")
        case .one(let peer): return rows.filter { $0.id == peer.id }
        case .several(let several): throw CommandFailure(.peerNotFound, NameMatch.ambiguity(of: text, several))
        }
    }

    private static func members(_ row: Row) -> [String: JSONValue] {
        [
            "when": .number(row.when.unixMilliseconds), "direction": .text(row.isReceived ? "received" : "sent"),
            "peer": .text(row.id.hex), "peer_name": .text(row.name.claimed), "size": .number(row.size),
            "outcome": .text(row.outcome), "content": row.isReceived ? .null : .text(row.content), "path": JSONValue(row.path),
        ]
    }
}
