internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import NearshareTerminal

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Exchange public keys, to encrypt messages for peers that are out of range.",
        subcommands: [
            KeysListCommand.self, KeysExportCommand.self, KeysImportCommand.self, KeysForgetCommand.self,
        ],
        defaultSubcommand: KeysListCommand.self)
}

struct KeysListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List known keys.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let contacts = try KnownKeys(machine).contacts
            output.reporter.writeList(
                contacts, event: "key",
                ifEmpty: "no keys yet; they are stored when a peer is met in the mesh, or by `nearshare keys import`",
                members: { contact in
                    [
                        "fingerprint": .string(contact.fingerprint.hex), "id": .string(contact.fingerprint.peerID.hex),
                        "name": .string(contact.name.claimed), "origin": .string(contact.entry.origin.rawValue),
                        "since": .number(contact.entry.since.unixMilliseconds),
                        "friend": .bool(contact.isFriend),
                    ]
                },
                row: { contact in
                    [
                        contact.name.shown, contact.fingerprint.peerID.hex,
                        "\(contact.entry.origin.rawValue) \(contact.entry.since.localText)",
                        contact.marks,
                    ]
                })
        }
    }
}

struct KeysExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the public keys of this machine, for import on another machine.")

    @Option(
        help: ArgumentHelp("Write to this new file (default: standard output).", valueName: "file"), completion: .file(),
        transform: PathArgument.expanded)
    var output: String?

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let text = ExportedKeys.export(RouterKeys(try machine.state.identity()), name: try machine.name())
            guard let output, output != "-" else { return DescriptorOutput.write(text, to: STDOUT_FILENO) }
            try KeysFile(path: output).create(holding: text)
        }
    }
}

struct KeysImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Import a peer's public keys, so that messages can be encrypted for it.",
        discussion: """
            An attacker who replaces the file on its way can read your messages. Receive the file in person, or compare the id with
            the one that `nearshare identity` shows on the other machine.
            """)

    @Argument(
        help: ArgumentHelp("Output of `nearshare keys export` on the peer's machine; - for standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Owner of the keys: the name of a known peer, whose key must match; a new name; or an id, which must match.",
            valueName: "peer"), completion: .custom(PeerArgument.completions))
    var owner: String

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let source = KeysFile(path: file)
            let keys = try source.read()
            let imported = try KeyImport(machine).run(keys, of: owner, from: source.shownName)
            let name = imported.owner.name
            if imported.replacesSigningKey {
                Console.warn("the signing key of \(name.shown) has changed, and is replaced")
            }
            Console.notice("the keys of \(name.identified(by: imported.owner.id)) are imported")
            if name.claimed != keys.name.claimed {
                Console.notice(
                    "the peer calls itself \(keys.name.quoted), and is called \(name.quoted) on this machine; `nearshare peers rename` changes that"
                )
            }
            for peer in imported.namesakes {
                Console.warn(
                    "\(name.shown) means this peer from now on, and not \(peer.name.identified(by: peer.id)), which you could call so before"
                )
            }
        }
    }
}

struct KeysForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "Remove a peer's keys; messages for it wait until it is met again.")

    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(completeKeys),
        transform: PeerArgument.validated)
    var peer: String

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let found = try KnownKeys.remove(peer, from: LocalMachine())
            Console.notice("the keys of \(found.name.identified(by: found.fingerprint.peerID)) are removed")
        }
    }
}

extension KnownKeys.Contact {
    /// The last column of the list.
    fileprivate var marks: String { ((isFriend ? ["friend"] : []) + (isNameTaken ? ["changed"] : [])).joined(separator: ", ") }
}

/// Shell completion: names of peers with known keys.
@Sendable private func completeKeys(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let machine = try? LocalMachine(), let known = try? KnownKeys(machine) else { return [] }
    return PeerArgument.words(for: known.contacts.map { ($0.name, $0.fingerprint.peerID) }, TrustStore())
}
