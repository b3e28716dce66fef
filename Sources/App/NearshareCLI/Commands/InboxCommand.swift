internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox", abstract: "List, open and remove received files.",
        subcommands: [InboxListCommand.self, InboxOpenCommand.self, InboxRemoveCommand.self, InboxCleanCommand.self],
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
                let isTerminal = isatty(STDOUT_FILENO) == 1
                for entry in entries where entry.exists {
                    Console.writeResult(isTerminal ? TerminalText.path(entry.path) : entry.path)
                }
                return
            }
            let pending = try machine.inbox(inbox, limits: InboxLimits()).pendingItems
            if output.json {
                for entry in entries {
                    JSONEvents.emit(
                        "arrived",
                        [
                            "when": .number(entry.when.unixMilliseconds), "peer": .string(entry.peer.peerID.hex),
                            "peer_name": .string(entry.peerName.claimed), "name": .string(entry.claimedName),
                            "path": .string(entry.path), "size": .number(entry.size), "type": JSONValue(entry.type),
                            "kind": .string(entry.isFolder ? "folder" : "file"),
                        ])
                }
                for item in pending {
                    JSONEvents.emit("waiting", ["path": .string(item.path), "size": .number(item.byteCount)])
                }
                return
            }
            if entries.isEmpty, pending.isEmpty { Console.notice("no files received yet") }
            let trust = try machine.trust.read()
            let rows = entries.map { entry in
                [
                    entry.when.localText, trust.listedName(of: entry.peer.peerID, claiming: entry.peerName),
                    entry.size.formattedByteCount, entry.isFolder ? "folder" : entry.type ?? "",
                    TerminalText.path(entry.path)
                        + (entry.exists ? "" : entry.isGone ? "  (no longer there)" : "  (not reachable)"),
                ]
            }
            Console.writeTable(rows)
            for item in pending {
                let reason = item.insufficientSpace.map { free in
                    ", which has \(free.formattedByteCount) free, and \(item.byteCount.formattedByteCount) are needed"
                }
                Console.writeResult("waits for the inbox\(reason ?? ""): \(TerminalText.path(item.path))")
            }
        }
    }
}
