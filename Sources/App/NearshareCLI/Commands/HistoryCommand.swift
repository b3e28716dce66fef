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

    @Option(
        help: ArgumentHelp(
            "List only this number of transfers, the latest (default: 50, or all with --json).", valueName: "count"))
    var limit: Int?

    @Flag(help: "List only what was sent.")
    var sent = false

    @Flag(help: "List only what was received.")
    var received = false

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    private static let defaultLimit = 50

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit expects a number from 1") }
        if sent, received { throw ValidationError("give either --sent or --received, or neither for both") }
    }

    func run() async throws {
        try await runCommand {
            var history = try TransferHistory(of: LocalMachine())
            // Before the direction is filtered: else --sent would not know a peer from which files were only received.
            if let peer { try history.restrict(toPeer: peer) }
            if sent { history.restrict(to: .outgoing) }
            if received { history.restrict(to: .incoming) }
            let entries = history.entries
            let direction = sent ? "sent" : received ? "received" : "sent or received"
            let preposition = sent ? "to" : received ? "from" : "to or from"
            let other = peer.map { " \(preposition) \(TerminalText.escaped($0))" } ?? ""
            output.reporter.emit("history", for: entries.suffix(limit ?? entries.count), members: Self.jsonMembers) {
                Console.writeTable(
                    entries.suffix(limit ?? Self.defaultLimit).map(Self.row),
                    ifEmpty: "nothing was \(direction)\(other) yet")
            }
        }
    }

    private static func row(_ entry: TransferHistory.Entry) -> [String] {
        let isReceived = entry.direction == .incoming
        let isCompleted = entry.outcome == .completed
        let transferredSize = entry.size.subtractingClamped(entry.presentSize)
        let wasAlreadyPresent = isCompleted && entry.presentSize > 0 && transferredSize == 0
        let outcome = wasAlreadyPresent ? "nothing new" : entry.outcomeWord + entry.reasonSuffix
        let size: String
        if isCompleted {
            size = wasAlreadyPresent ? "-" : transferredSize.formattedByteCount
        } else if let offered = entry.offeredSize {
            size =
                transferredSize > 0 && transferredSize < offered
                ? "\(transferredSize.formattedByteCount) of \(offered.formattedByteCount)" : offered.formattedByteCount
        } else {
            // The size of what has arrived, "0 B", would be taken for that of the content.
            size = transferredSize == 0 ? "-" : transferredSize.formattedByteCount
        }
        return [
            entry.when.localText, isReceived ? "from" : "to", entry.listedName, size, outcome,
            entry.content + (entry.isRemoved ? "  (removed)" : ""),
        ]
    }

    private static func jsonMembers(_ entry: TransferHistory.Entry) -> [String: JSONValue] {
        let isReceived = entry.direction == .incoming
        return [
            "when": .number(entry.when.unixMilliseconds), "direction": .string(isReceived ? "received" : "sent"),
            "peer": .string(entry.id.hex), "peer_name": .string(entry.name.claimed), "size": .number(entry.size),
            "outcome": .string(entry.outcome.rawValue), "content": entry.path == nil ? .string(entry.content) : .null,
            "path": JSONValue(entry.path), "reason": JSONValue(entry.reason), "present": .number(entry.presentSize),
            "offered": JSONValue(entry.offeredSize), "removed": .bool(entry.isRemoved),
        ]
    }
}
