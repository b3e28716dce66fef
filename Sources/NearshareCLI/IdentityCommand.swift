internal import ArgumentParser
internal import Nearshare

struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity", abstract: "Show who this machine is to others.",
        subcommands: [IdentityShowCommand.self, IdentityRenameCommand.self, IdentityExportCommand.self],
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
            let identity = try machine.state.identity()
            let name = try machine.name()
            if json {
                JSONEvents.emit(
                    "identity",
                    [
                        "name": .text(name.claimed), "id": .text(identity.peerID.hex),
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

    @Argument(help: ArgumentHelp("1 to 63 bytes.", valueName: "name"))
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

struct IdentityExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the public keys, for somebody who wants to know this machine beforehand.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let identity = try machine.state.identity()
            JSONEvents.print([
                "name": .text(try machine.name().claimed), "fingerprint": .text(identity.fingerprint.hex),
                "x25519": .text(Hex.encode(identity.agreementKey.publicKey.bytes)),
                "ed25519": .text(Hex.encode(identity.signingKey.publicKey.bytes)),
            ])
        }
    }
}
