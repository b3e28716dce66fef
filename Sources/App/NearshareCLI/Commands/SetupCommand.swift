internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct SetupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "setup", abstract: "Ask for a name, an inbox and who may send, and prepare this machine.",
        discussion: "Nothing of it is needed: nearshare works without a configuration.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            guard let terminal = TerminalDevice() else {
                throw CommandFailure(
                    .usage, "there is no terminal to ask on; `nearshare config` shows the settings and their file")
            }
            let machine = try LocalMachine()
            var dialogue = SetupDialogue(machine: machine, terminal: terminal)
            try await dialogue.run()
        }
        Console.notice("")
        try await DoctorCommand.parse([]).run()
    }
}

/// The questions of `nearshare setup`. An empty answer keeps what is in force.
private struct SetupDialogue {
    let machine: LocalMachine
    let terminal: TerminalDevice
    private let setup = MachineSetup()
    /// One reader for all questions: what is typed ahead answers the next one.
    private var lines: AsyncStream<String>.Iterator

    init(machine: LocalMachine, terminal: TerminalDevice) {
        self.machine = machine
        self.terminal = terminal
        lines = terminal.lines(endsAtControlD: true).makeAsyncIterator()
    }

    mutating func run() async throws {
        let name = try await ask("name of this machine, as people nearby see it", current: machine.name().claimed) { text in
            guard let name = NameArgument(argument: text) else {
                throw InvalidAnswer("a name has 1 to 63 bytes, is visible, and is not 16 hexadecimal digits like an id")
            }
            return name.name.claimed
        }
        var inbox = try await askInbox()
        let accept = try await ask(
            "who may send: ask (me, each time), friends (without asking; others not), all (without asking) or none",
            current: (machine.configuration.accept ?? .ask).rawValue
        ) { text in
            guard let accept = Configuration.Accept(rawValue: text) else {
                throw InvalidAnswer("answer ask, friends, all or none")
            }
            return accept.rawValue
        }
        // The inbox is made after the last question, so that a dialogue that ends early leaves nothing behind.
        while let path = inbox {
            do {
                try machine.inbox(Directories.expanding(path, home: machine.directories.home)).prepare()
                break
            } catch {
                terminal.writeWrapped("\(error)\n")
                inbox = try await askInbox()
            }
        }
        try machine.configure(
            name: name.flatMap { NameArgument(argument: $0)?.name }, inbox: inbox, accept: accept)
        let file = TerminalText.escaped(machine.directories.configurationFile, columns: 400)
        if inbox != nil || accept != nil || name != nil && machine.configuration.name != nil {
            Console.notice("written to \(file)")
        } else {
            Console.notice(name == nil ? "nothing was changed" : "the name was changed")
        }
        let newName = name.flatMap { NameArgument(argument: $0)?.name }
        if let newName, let notice = await RunningName.notice(on: machine, after: newName) { Console.notice(notice) }
        try await offerService()
        try await offerFirewall()
    }

    private mutating func askInbox() async throws -> String? {
        let current = machine.configuration.inbox ?? machine.directories.defaultInbox
        return try await ask("folder for received files", current: current) { text in
            guard text.hasPrefix("/") || text == "~" || text.hasPrefix("~/") else {
                throw InvalidAnswer("the path begins with / or ~/")
            }
            return text
        }
    }

    /// The reason why an answer is not valid.
    private struct InvalidAnswer: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// - Parameter parse: the value of an answer; throws for one that is not valid.
    /// - Returns: nil to keep what is in force.
    private mutating func ask(_ question: String, current: String, parse: (String) throws -> String) async throws -> String? {
        let prompt = "\(question) [\(TerminalText.escaped(current, columns: 400))]: "
        terminal.writeWrapped(prompt)
        while let line = await lines.next(isolation: nil) {
            let text = line.trimmingSpaces
            if text.isEmpty || text == current { return nil }
            do {
                return try parse(text)
            } catch {
                terminal.writeWrapped("\(error)\n\(prompt)")
            }
        }
        // The prompt has not ended its line.
        terminal.writeWrapped("\n")
        throw CommandFailure(.interrupted, "ended before the last question: no setting was changed")
    }

    private mutating func confirm(_ question: String) async -> Bool {
        terminal.writeWrapped(question)
        while let line = await lines.next(isolation: nil) {
            if let answer = YesNoPrompt.parse(line) { return answer }
            terminal.writeWrapped(line.isEmpty ? question : "please answer y or n: ")
        }
        terminal.writeWrapped("\n")
        return false
    }

    private mutating func offerService() async throws {
        switch setup.serviceState() {
        case .missing: return
        case .running:
            return Console.notice(
                "nearshare.service runs already; new settings are used after `systemctl --user restart nearshare`")
        case .stopped: break
        }
        let question =
            "run a node whenever you are logged in, which receives, asks in notifications and keeps messages for people who are away? "
            + "[y]es, [n]o: "
        guard await confirm(question) else { return }
        guard setup.enableService() else {
            return Console.warn("the node did not start; `systemctl --user status nearshare` says why")
        }
        Console.notice("the node runs")
    }

    private mutating func offerFirewall() async throws {
        let commands = machine.firewallCommands
        guard !commands.isEmpty else { return }
        let shown = commands.map { "`\($0.joined(separator: " "))`" }.joined(separator: ", ")
        guard await confirm("open the firewall with \(shown)? [y]es, [n]o: ") else { return }
        if let command = setup.openFirewall(with: commands) {
            Console.warn("`\(command.joined(separator: " "))` failed; run it by hand")
        }
    }
}
