internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox", abstract: "List received files, and files that wait for the inbox.")

    @Option(help: ArgumentHelp("Inbox whose waiting files are listed (default: configured, or ~/Inbox).", valueName: "dir"))
    var inbox: String?

    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let entries = try ReceiveHistory(in: machine.state).entries()
            let pending = try machine.inbox(inbox).pendingPaths
            if json {
                for entry in entries {
                    JSONEvents.emit(
                        "arrived",
                        [
                            "when": .number(entry.when.unixMilliseconds), "peer": .text(entry.peer.peerID.hex),
                            "peer_name": .text(entry.peerName.claimed), "name": .text(entry.claimedName),
                            "path": .text(entry.path), "size": .number(entry.size), "type": JSONValue(entry.type),
                            "kind": .text(entry.isFolder ? "folder" : "file"),
                        ])
                }
                for path in pending { JSONEvents.emit("waiting", ["path": .text(path)]) }
                return
            }
            if entries.isEmpty, pending.isEmpty { Console.notice("no files received yet") }
            let rows = entries.map { entry in
                [
                    entry.when.localText, entry.peerName.shown, entry.isFolder ? "folder" : entry.size.asByteCount,
                    entry.type ?? "", TerminalText.escaped(entry.path, columns: 4096),
                ]
            }
            for line in Table.lines(rows) { Console.writeResult(line) }
            for path in pending {
                Console.writeResult("waits for the inbox: \(TerminalText.escaped(path, columns: 4096))")
            }
        }
    }
}
