internal import ArgumentParser
internal import FoundationEssentials
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm", abstract: "Remove received items from the disk and from the list; the history keeps its lines.",
        aliases: ["remove"])

    @Argument(
        help: ArgumentHelp(
            "Received items: their paths or their names; of several with one name the latest.", valueName: "item"),
        completion: .custom(ReceivedItemArgument.completions))
    var items: [String]

    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            var failures: [ExitStatus] = []
            // All are looked for before the first is removed: afterwards a name could mean another item.
            var entries: [ReceiveHistory.Entry] = []
            for item in items {
                do throws(CommandFailure) {
                    let entry = try Self.removableEntry(item, of: machine)
                    if !entries.contains(where: { $0.path == entry.path }) { entries.append(entry) }
                } catch {
                    Console.warn(error.message)
                    failures.append(error.status)
                }
            }
            let terminal = yes || entries.isEmpty ? nil : TerminalDevice()
            guard yes || entries.isEmpty || terminal != nil else {
                throw CommandFailure(
                    .usage, "nothing was removed: there is no terminal to ask on; --yes removes without asking")
            }
            var removedCount = 0
            for entry in entries {
                do throws(CommandFailure) {
                    if let terminal { try await Self.confirm(entry, on: terminal) }
                    try Self.remove(entry, of: machine)
                    removedCount += 1
                } catch {
                    Console.warn(error.message)
                    failures.append(error.status)
                }
            }
            if let status = Self.status(after: failures, removedCount: removedCount) {
                throw CommandFailure.silent(status)
            }
        }
    }

    private static func removableEntry(_ item: String, of machine: LocalMachine) throws(CommandFailure) -> ReceiveHistory.Entry
    {
        do {
            let entry = try ReceivedItemArgument.find(item, of: machine)
            try requireOnlyReceivedContent(entry)
            return entry
        } catch {
            throw CommandFailure(error)
        }
    }

    private static func confirm(_ entry: ReceiveHistory.Entry, on terminal: TerminalDevice) async throws(CommandFailure) {
        let shown = TerminalText.path(entry.path)
        let question = "remove \(shown)\(entry.isFolder ? " and everything in it" : "")? [y]es, [n]o: "
        guard await YesNoPrompt.ask(question, on: terminal) else {
            throw CommandFailure(.failure, "\(shown) is not removed")
        }
    }

    private static func remove(_ entry: ReceiveHistory.Entry, of machine: LocalMachine) throws(CommandFailure) {
        let shown = TerminalText.path(entry.path)
        // The user may have taken time to answer.
        try requireOnlyReceivedContent(entry)
        do {
            try FileManager.default.removeItem(atPath: entry.path)
        } catch {
            throw CommandFailure(.failure, "\(shown) could not be removed; check the permissions of its folder")
        }
        do {
            try ReceiveHistory(in: machine.state).recordRemoval(of: entry.path)
        } catch {
            throw CommandFailure(error)
        }
        Console.notice("\(shown) is removed")
    }

    /// The status of the command; nil where all items are removed.
    static func status(after failures: [ExitStatus], removedCount: Int) -> ExitStatus? {
        removedCount > 0 && !failures.isEmpty ? .partly : failures.first
    }

    /// - Throws: ``CommandFailure`` for an item that is no longer what was received, or not that alone.
    static func requireOnlyReceivedContent(_ entry: ReceiveHistory.Entry) throws(CommandFailure) {
        let shown = TerminalText.path(entry.path)
        var status = stat()
        let hasStatus = lstat(entry.path, &status) == 0
        let kind = status.st_mode & S_IFMT
        // The content of a folder is not compared: the question names it as a whole.
        let isUnchanged = entry.isFolder ? kind == S_IFDIR : kind == S_IFREG && UInt64(status.st_size) == entry.size
        guard hasStatus, isUnchanged else {
            throw CommandFailure(.failure, "\(shown) is not what was received any more; remove it by hand")
        }
        guard entry.isFolder else { return }
        switch entry.isMerged {
        case false?: break
        case true?:
            throw CommandFailure(
                .failure, "\(shown) was there before, and the received files were added to it; remove them by hand")
        case nil:
            throw CommandFailure(
                .failure, "\(shown) may have been there before: its record is of an older version; remove it by hand")
        }
    }
}
