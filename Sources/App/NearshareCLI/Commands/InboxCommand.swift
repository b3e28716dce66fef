internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox", abstract: "List, open, show and remove received files.",
        subcommands: [
            InboxListCommand.self, InboxOpenCommand.self, InboxShowCommand.self, InboxRemoveCommand.self,
            InboxCleanCommand.self,
        ],
        defaultSubcommand: InboxListCommand.self)
}

struct InboxListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List received files, and files that wait for the inbox.")

    @Option(
        help: ArgumentHelp("Inbox whose waiting files are listed (default: the configured one, or ~/Inbox).", valueName: "dir"),
        completion: .directory, transform: PathArgument.expanded)
    var inbox: String?

    @Option(help: ArgumentHelp("List only this number of items, those received last (default: all).", valueName: "count"))
    var last: Int?

    @Flag(help: "Write only the paths of items that are still there, one on each line.")
    var paths = false

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if let last, last < 1 { throw ValidationError("--last expects 1 or more") }
        if paths, inbox != nil { throw ValidationError("--paths lists received items; omit --inbox") }
        if paths, output.json { throw ValidationError("give either --paths or --json, not both") }
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let all = try ReceiveHistory(in: machine.state).latestEntries()
            let entries = last.map { all.suffix($0) } ?? all[...]
            if paths {
                let isTerminal = TerminalProperties.isTerminal(STDOUT_FILENO)
                for entry in entries where entry.exists {
                    Console.writeResult(isTerminal ? TerminalText.path(entry.path) : entry.path)
                }
                return
            }
            let pending = try machine.inbox(inbox, limits: InboxLimits()).pendingItems
            try output.reporter.emit("arrived", for: entries, members: Self.jsonMembers) {
                if entries.isEmpty, pending.isEmpty { Console.notice("no files received yet") }
                let trust = try machine.trust.read()
                Console.writeTable(entries.map { Self.row($0, knowing: trust) })
            }
            output.reporter.emit("waiting", for: pending, members: Self.jsonMembers) {
                for item in pending {
                    let reason = item.insufficientSpace.map { free in
                        ", which has \(free.formattedByteCount) free of the \(item.byteCount.formattedByteCount) needed"
                    }
                    Console.writeResult("waits for the inbox\(reason ?? ""): \(TerminalText.path(item.path))")
                }
            }
        }
    }

    private static func row(_ entry: ReceiveHistory.Entry, knowing trust: TrustStore) -> [String] {
        [
            entry.when.localText, trust.listedName(of: entry.peer.peerID, claiming: entry.peerName),
            entry.size.formattedByteCount, entry.isFolder ? "folder" : entry.type ?? "",
            TerminalText.path(entry.path)
                + (entry.exists ? "" : entry.isGone ? "  (no longer there)" : "  (not reachable)"),
        ]
    }

    private static func jsonMembers(_ entry: ReceiveHistory.Entry) -> [String: JSONValue] {
        [
            "when": .number(entry.when.unixMilliseconds), "peer": .string(entry.peer.peerID.hex),
            "peer_name": .string(entry.peerName.claimed), "name": .string(entry.claimedName),
            "path": .string(entry.path), "size": .number(entry.size), "type": JSONValue(entry.type),
            "kind": .string(entry.isFolder ? "folder" : "file"),
        ]
    }

    private static func jsonMembers(_ item: PendingItem) -> [String: JSONValue] {
        ["path": .string(item.path), "size": .number(item.byteCount)]
    }
}
