internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct InboxOpenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open", abstract: "Open a received item with the program for its type.",
        discussion: """
            The program is the one that [open] in the configuration names, or xdg-open. A file that can start programs is opened \
            after a question only, and by xdg-open only.
            """)

    @Argument(
        help: ArgumentHelp("A path or a name; by default the item received last.", valueName: "item"),
        completion: .custom(ReceivedItemArgument.completions))
    var item: String?

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let received = ReceivedItems(of: machine)
            let entry = try item.map { try received.find($0) } ?? received.latest()
            let shown = TerminalText.path(entry.path)
            var command = machine.configuration.opener(for: entry.isFolder ? "inode/directory" : entry.type)
            let name = ClaimedFileName(bytes: Array(entry.fileName.utf8))
            if !entry.isFolder, name.map({ ProgramStarter.startsProgram([$0], claimedType: entry.type) }) ?? true {
                guard let terminal = TerminalDevice() else {
                    throw CommandFailure(
                        .failure, "\(shown) can start programs when opened, and there is no terminal to ask on")
                }
                let question = "\(shown) can start programs when opened. open it anyway? [y]es, [n]o: "
                guard await YesNoPrompt.ask(question, on: terminal) else { throw CommandFailure(.failure, "not opened") }
                // A program that [open] names would get a file that it may execute.
                command = nil
            }
            if command == nil, !Self.hasDesktop {
                throw CommandFailure(
                    .failure,
                    "there is no desktop to open \(shown) on (WAYLAND_DISPLAY and DISPLAY are not set); name a program in [open] of "
                        + "the configuration")
            }
            try Self.execute((command ?? ["xdg-open"]) + [entry.path])
        }
    }

    /// Whether xdg-open has a program to start: one of a desktop, or the one that BROWSER names.
    private static var hasDesktop: Bool {
        ["WAYLAND_DISPLAY", "DISPLAY", "BROWSER"].contains { (name: String) in
            getenv(name).map { $0.pointee != 0 } ?? false
        }
    }

    /// Replaces this process, so that the program has the terminal.
    private static func execute(_ command: [String]) throws(CommandFailure) {
        let code = ChildProgram.replaceThisProcess(by: command.map { Array($0.utf8) })
        throw CommandFailure(
            .failure,
            "could not start \(TerminalText.escaped(command[0])): \(systemErrorText(code)); "
                + "install xdg-utils, or name a program in [open] of the configuration")
    }
}
