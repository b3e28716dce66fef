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
            Console.writeList(
                contacts, isJSON: output.json, event: "key",
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
            try KeysFile.create(output, holding: text)
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
            let keys: ExportedKeys
            do {
                keys = try ExportedKeys(decoding: try KeysFile.read(file))
            } catch let error as ExportedKeys.Invalid {
                throw CommandFailure(.failure, "\(shownFile) could not be imported: \(ErrorMessage.text(for: error))")
            }
            let imported = try KeyImport(machine).run(keys, of: owner, from: shownFile)
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

    private var shownFile: String { file == "-" ? "standard input" : TerminalText.escaped(file, columns: 4096) }
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
            let machine = try LocalMachine()
            let contacts = try KnownKeys(machine).contacts
            let keys = contacts.map { NamedKey(fingerprint: $0.fingerprint, name: $0.name) }
            guard let found = try NamedKey.find(peer, among: keys) else {
                throw CommandFailure(
                    .peerNotFound, "there are no keys of \(TerminalText.escaped(peer)); `nearshare keys` lists them")
            }
            try machine.contacts.update { $0.remove(found.fingerprint) }
            Console.notice("the keys of \(found.name.identified(by: found.fingerprint.peerID)) are removed")
        }
    }
}

/// The known keys with the local names of their owners.
private struct KnownKeys {
    struct Contact {
        var fingerprint: Fingerprint
        var name: DisplayName
        var entry: ContactBook.Entry
        var isFriend: Bool
        /// Whether the name is that of another known peer (K2).
        var isNameTaken: Bool
        var marks: String { ((isFriend ? ["friend"] : []) + (isNameTaken ? ["changed"] : [])).joined(separator: ", ") }
    }

    /// Sorted by name.
    let contacts: [Contact]

    init(_ machine: LocalMachine) throws {
        let trust = try machine.trust.read()
        contacts = try machine.contacts.read().entries
            .map { fingerprint, entry in
                let name = trust[fingerprint]?.name ?? entry.name
                let isNameTaken =
                    if case .nameClash = trust.trustStatus(of: fingerprint, claiming: name) { true } else { false }
                return Contact(
                    fingerprint: fingerprint, name: name, entry: entry, isFriend: trust[fingerprint]?.isFriend == true,
                    isNameTaken: isNameTaken)
            }
            .sorted { ($0.name.claimed.lowercased(), $0.fingerprint.hex) < ($1.name.claimed.lowercased(), $1.fingerprint.hex) }
    }
}

/// Shell completion: names of peers with known keys.
@Sendable private func completeKeys(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let machine = try? LocalMachine(), let known = try? KnownKeys(machine) else { return [] }
    return PeerArgument.words(for: known.contacts.map { ($0.name, $0.fingerprint.peerID) }, TrustStore())
}

/// Reading and writing of files with exported keys.
private enum KeysFile {
    /// - Parameter path: `-` for standard input.
    static func read(_ path: String) throws -> String {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw failure("could not read", path) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        let bytes: [UInt8]
        do throws(SystemCallError) {
            // One byte above the limit, to detect longer files.
            bytes = try InputReader.read(descriptor, upTo: ExportedKeys.maximumByteCount + 1)
        } catch {
            errno = error.code
            throw failure("could not read", path)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw ExportedKeys.Invalid.notAKeysFile }
        return text
    }

    static func create(_ path: String, holding text: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            if errno == EEXIST {
                throw CommandFailure(
                    .failure,
                    "\(TerminalText.path(path)) already exists; choose another file, or remove it")
            }
            throw failure("could not write", path)
        }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        // A few hundred bytes are written in one call, unless the disk is full.
        let writtenCount = Glibc.write(descriptor, bytes, bytes.count)
        guard writtenCount == bytes.count else {
            // A write of fewer bytes sets no error.
            if writtenCount >= 0 { errno = ENOSPC }
            let problem = failure("could not write", path)
            unlink(path)
            throw problem
        }
    }

    private static func failure(_ what: String, _ path: String) -> CommandFailure {
        let isFull = errno == ENOSPC || errno == EDQUOT
        let reason = systemErrorText()
        let shown = path == "-" ? "standard input" : TerminalText.path(path)
        return CommandFailure(isFull ? .noSpace : .failure, "\(what) \(shown): \(reason)")
    }
}
