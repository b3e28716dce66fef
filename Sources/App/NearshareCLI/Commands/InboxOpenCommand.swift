internal import ArgumentParser
internal import FoundationEssentials
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A received item, as named on the command line.
enum ReceivedItemArgument {
    /// The latest item that is still there.
    static func latest(of machine: LocalMachine) throws -> ReceiveHistory.Entry {
        guard let entry = try ReceiveHistory(in: machine.state).latestEntries().last(where: \.exists) else {
            throw CommandFailure(.failure, "no received item is there; `nearshare inbox` lists all")
        }
        return entry
    }

    static func find(_ text: String, of machine: LocalMachine) throws -> ReceiveHistory.Entry {
        // Completion writes a slash behind the name of a folder.
        let text = text.withoutFinalSlashes
        let entries = try ReceiveHistory(in: machine.state).latestEntries()
        let absolute = (try? ResolvedPath.of(text)) ?? text
        if let entry = select(text, absolute: absolute, among: entries.filter(\.exists)) { return entry }
        if let gone = select(text, absolute: absolute, among: entries.filter(\.isGone)) {
            throw CommandFailure(
                .failure,
                "\(TerminalText.path(gone.path)) is no longer there; `nearshare inbox clean` removes the records of such items")
        }
        throw CommandFailure(
            .failure, "\(TerminalText.escaped(text)) is no received item that is still there; `nearshare inbox` lists all")
    }

    /// The item with a path, or else the latest that is stored under a name, or else the latest to which its sender gave that name,
    /// where no item can be stored under it. Of `a.txt`, removed twice, the second must not be `a (2).txt`.
    /// - Parameter absolute: the path that the text means in the working directory.
    static func select(
        _ text: String, absolute: String, among entries: [ReceiveHistory.Entry]
    ) -> ReceiveHistory.Entry? {
        if let entry = entries.last(where: { $0.path == text || $0.path == absolute })
            ?? entries.last(where: { $0.fileName == text })
        {
            return entry
        }
        let storedName = ClaimedFileName(text).map { SafeFileName($0).text }
        return storedName == text ? nil : entries.last { $0.claimedName == text }
    }

    @Sendable static func completions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let state = try? LocalMachine().state, let entries = try? ReceiveHistory(in: state).entries() else { return [] }
        // A shell would give a meaning to characters of other names (T8).
        return Set(entries.filter(\.exists).map(\.fileName)).filter(PeerArgument.isQuotable).sorted()
    }
}

extension ReceiveHistory.Entry {
    /// Whether something still has the path under which the item was delivered.
    var exists: Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Whether its folder is there, and the item is not: an inbox on a disk that is not mounted has lost nothing.
    var isGone: Bool {
        var status = stat()
        guard lstat(path, &status) != 0, errno == ENOENT, let parent = path.pathOfParent else { return false }
        return stat(parent, &status) == 0
    }

    /// The name under which it is stored.
    var fileName: String { path.pathComponents.last ?? path }
}

struct InboxOpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Open a received item with the program for its type.",
        discussion: "The program is the one that [open] in the configuration names, or xdg-open.")

    @Argument(
        help: ArgumentHelp("A path or a name; by default the item received last.", valueName: "item"),
        completion: .custom(ReceivedItemArgument.completions))
    var item: String?

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let entry =
                try item.map { try ReceivedItemArgument.find($0, of: machine) } ?? ReceivedItemArgument.latest(of: machine)
            let shown = TerminalText.path(entry.path)
            var words = machine.configuration.opener(for: entry.isFolder ? "inode/directory" : entry.type)
            let name = ClaimedFileName(bytes: Array(entry.fileName.utf8))
            if !entry.isFolder, name.map({ ProgramStarter.startsProgram([$0], claimedType: entry.type) }) ?? true {
                guard let terminal = TerminalDevice() else {
                    throw CommandFailure(
                        .failure, "\(shown) can start programs when opened, and there is no terminal to ask on")
                }
                let question = "\(shown) can start programs when opened. open it anyway? [y]es, [n]o: "
                guard await YesNoPrompt.ask(question, on: terminal) else { throw CommandFailure(.failure, "not opened") }
                words = nil
            }
            if words == nil, !Self.hasDesktop {
                throw CommandFailure(
                    .failure,
                    "there is no desktop to open \(shown) on (WAYLAND_DISPLAY and DISPLAY are not set); name a program in [open] of "
                        + "the configuration")
            }
            try Self.execute((words ?? ["xdg-open"]) + [entry.path])
        }
    }

    /// Whether xdg-open has a program to start: one of a desktop, or the one that BROWSER names.
    private static var hasDesktop: Bool {
        ["WAYLAND_DISPLAY", "DISPLAY", "BROWSER"].contains { (name: String) in
            getenv(name).map { $0.pointee != 0 } ?? false
        }
    }

    /// Replaces this process, so that the program has the terminal.
    private static func execute(_ words: [String]) throws(CommandFailure) {
        let code = ChildProgram.replaceThisProcess(by: words.map { Array($0.utf8) })
        throw CommandFailure(
            .failure,
            "could not start \(TerminalText.escaped(words[0])): \(systemErrorText(code)); "
                + "install xdg-utils, or name a program in [open] of the configuration")
    }
}

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

struct InboxCleanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clean",
        abstract: "Remove the records of items that are gone, also from the history; no file is touched.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let state = try LocalMachine().state
            var senders: Set<PeerID> = []
            let count = try ReceiveHistory(in: state).remove { entry in
                guard entry.isRemoved == true || entry.isGone else { return false }
                senders.insert(entry.peer.peerID)
                return true
            }
            // Otherwise the history would say that the transfer of such an item was interrupted.
            try TransferLog(of: .notReceived, in: state).removeResumedAttempts { senders.contains($0) }
            Console.notice("\(count) \(count == 1 ? "record" : "records") removed")
        }
    }
}
