internal import ArgumentParser
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
            let received = try ReceivedItems(of: LocalMachine())
            var failures: [ExitStatus] = []
            // Finds all items before it removes the first one: afterwards a name could mean another item.
            var entries: [ReceiveHistory.Entry] = []
            for item in items {
                do throws(CommandFailure) {
                    let entry = try received.findRemovable(item)
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
                    try received.remove(entry)
                    Console.notice("\(TerminalText.path(entry.path)) is removed")
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

    private static func confirm(_ entry: ReceiveHistory.Entry, on terminal: TerminalDevice) async throws(CommandFailure) {
        let shown = TerminalText.path(entry.path)
        let question = "remove \(shown)\(entry.isFolder ? " and everything in it" : "")? [y]es, [n]o: "
        guard await YesNoPrompt.ask(question, on: terminal) else {
            throw CommandFailure(.failure, "\(shown) is not removed")
        }
    }

    /// The exit status of the command; nil where all items were removed.
    static func status(after failures: [ExitStatus], removedCount: Int) -> ExitStatus? {
        removedCount > 0 && !failures.isEmpty ? .partly : failures.first
    }
}
