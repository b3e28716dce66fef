internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity", abstract: "Show, rename or destroy this machine's identity.",
        subcommands: [
            IdentityShowCommand.self, IdentityQRCommand.self, IdentityRenameCommand.self, IdentityDestroyCommand.self,
        ],
        defaultSubcommand: IdentityShowCommand.self)
}

struct IdentityShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show name, id and fingerprint.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            // Showing must not generate a key: a machine that was never used has no identity.
            guard machine.state.hasIdentity else {
                return output.reporter.emit("identity", ["exists": .bool(false)]) {
                    Console.notice(
                        "no identity yet; the first send or receive, `nearshare keys export` or `nearshare identity qr` generates it"
                    )
                }
            }
            let identity = try machine.state.identity()
            let name = try machine.name()
            output.reporter.emit(
                "identity",
                [
                    "exists": .bool(true), "name": .string(name.claimed), "id": .string(identity.peerID.hex),
                    "fingerprint": .string(identity.fingerprint.hex),
                ]
            ) {
                Console.writeTable([
                    ["name", name.unquoted], ["id", identity.peerID.hex], ["fingerprint", identity.fingerprint.hex],
                ])
            }
        }
    }
}

struct IdentityQRCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "qr", abstract: "Show a QR code by which peers, also phones that run bitchat, verify this machine's key.",
        discussion: """
            The code is valid for five minutes. The peer scans it, or its user pastes the link, while both are in the mesh: \
            `nearshare receive`, `chat` or `mesh run` answers. Never trust a code that was sent by a way that others can change.
            """)

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            guard let link = try await LocalMachine().verificationLink() else {
                throw CommandFailure(.failure, "this machine's name does not fit into a verification link")
            }
            output.reporter.emit("link", ["link": .string(link)]) {
                QRCodeOutput.write(link, to: STDOUT_FILENO)
                Console.writeResult(link)
            }
        }
    }
}

struct IdentityRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "rename", abstract: "Set the display name of this machine.")

    @Argument(
        help: ArgumentHelp("1 to 63 bytes, without control characters.", valueName: "name"), transform: NameArgument.expected)
    var name: NameArgument

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            try machine.rename(to: name.name)
            if let configured = machine.configuration.name, configured != name.name {
                return Console.warn(
                    "\(name.name.unquoted) is stored, but config.toml sets the name \(configured.unquoted), which takes precedence; "
                        + "change it there")
            }
            Console.notice("the name of this machine is now \(name.name.unquoted)")
            if let notice = await RunningName.notice(on: machine, after: name.name) { Console.notice(notice) }
        }
    }
}

struct IdentityDestroyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destroy", abstract: "Remove the keys and all stored state, after a confirmation.",
        discussion: "The inbox and config.toml stay. The rest cannot be restored.", aliases: ["erase"])

    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            if try machine.state.isEmpty { return Console.notice("there is no identity and no stored state") }
            try machine.state.checkUnused()
            if !yes { try await confirm(on: machine) }
            try await Self.destroy(machine.state, after: nil)
        }
    }

    /// Removes all state, and says so.
    /// - Parameter node: see ``StateDirectory/destroy(after:timeout:)``.
    static func destroy(_ state: StateDirectory, after node: ProcessHandle?) async throws {
        try await state.destroy(after: node)
        Console.notice("the identity and all stored state are removed")
    }

    /// Asks whether to remove what the machine has.
    private func confirm(on machine: LocalMachine) async throws {
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(.usage, "destroying the identity needs a terminal to ask on, or --yes")
        }
        // A damaged identity can be removed as well.
        let identity = machine.state.hasIdentity ? try? machine.state.identity() : nil
        let keyDescription =
            identity.map { "the key of this machine (\($0.peerID))" } ?? "the key of this machine, if there is one"
        let inbox = machine.configuration.inbox ?? machine.directories.defaultInbox
        let pendingCount = (try? machine.inbox(nil, limits: InboxLimits()).pendingPaths.count) ?? 0
        let question =
            """
            this permanently removes, with everything in \(TerminalText.path(machine.state.path)):
              \(keyDescription), so that other machines will not recognise this one
              known peers, friends and their keys
              history, conversations, waiting messages, and messages stored for others
            \(pendingCount == 0 ? "" : "  received files that wait for the inbox: \(pendingCount)\n")\
            \(TerminalText.escaped(inbox, columns: 4096)) and config.toml stay.
            remove it? [y]es, [n]o: 
            """
        guard await YesNoPrompt.ask(question, on: terminal) else { throw CommandFailure(.interrupted, "nothing was removed") }
    }
}
