internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity", abstract: "Show who this machine is to others, or end that.",
        subcommands: [IdentityShowCommand.self, IdentityRenameCommand.self, IdentityDestroyCommand.self],
        defaultSubcommand: IdentityShowCommand.self)
}

struct IdentityShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show name, id and fingerprint.")

    @Flag(help: "Write a JSON object.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            // Looking makes no key: whoever has never used this is nobody to anybody.
            guard machine.state.hasIdentity else {
                if json { return JSONEvents.emit("identity", ["exists": .flag(false)]) }
                return Console.say("no identity yet; it is made at the first send or receive, or by `nearshare keys export`")
            }
            let identity = try machine.state.identity()
            let name = try machine.name()
            if json {
                JSONEvents.emit(
                    "identity",
                    [
                        "exists": .flag(true), "name": .text(name.claimed), "id": .text(identity.peerID.hex),
                        "fingerprint": .text(identity.fingerprint.hex),
                    ])
                return
            }
            let rows = [
                ["name", name.shown], ["id", identity.peerID.hex], ["fingerprint", identity.fingerprint.hex],
            ]
            for line in Table.lines(rows) { Console.result(line) }
        }
    }
}

struct IdentityRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "rename", abstract: "Choose what others see this machine as.")

    @Argument(help: ArgumentHelp("1 to 63 bytes, without control characters.", valueName: "name"))
    var name: NameArgument

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            try machine.rename(to: name.name)
            if let configured = machine.configuration.name, configured != name.name {
                Console.complain("config.toml says \(configured.shown), which goes before; change it there")
            }
            Console.say("this machine is called \(name.name.shown) now")
        }
    }
}

struct IdentityDestroyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destroy", abstract: "Remove the key and everything that is remembered, after a question.",
        discussion: "What has arrived in the inbox stays, and so does config.toml. Nothing brings the rest back.")

    @Flag(help: "Do not ask.")
    var yes = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            if try machine.state.isEmpty { return Console.say("there is no identity, and nothing is remembered") }
            try machine.state.checkUnused()
            if !yes { try await ask(machine) }
            try machine.state.destroy()
            Console.say("the identity and everything that was remembered are removed")
        }
    }

    private func ask(_ machine: LocalMachine) async throws {
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(.usage, "destroying the identity needs a terminal to ask on, or --yes")
        }
        // What is damaged can be removed as well.
        let identity = machine.state.hasIdentity ? try? machine.state.identity() : nil
        let whose = identity.map { "the key of this machine (\($0.peerID))" } ?? "the key of this machine, if there is one"
        let inbox = machine.configuration.inbox ?? machine.directories.defaultInbox
        let waiting = (try? machine.inbox(nil).pendingPaths.count) ?? 0
        terminal.write(
            """
            this removes for good, with all that is in \(TerminalText.escaped(machine.state.path, columns: 4096)):
              \(whose): whoever knows it will meet a stranger
              whom you know and trust, and their keys
              history, conversations, and messages that wait or are carried for others
            \(waiting == 0 ? "" : "  what has arrived and waits for the inbox: \(waiting)\n")\
            \(TerminalText.escaped(inbox, columns: 4096)) and config.toml stay.
            remove it? [y]es, [n]o: 
            """)
        guard await YesNoPrompt.answer(on: terminal) else { throw CommandFailure(.interrupted, "nothing was removed") }
    }
}
