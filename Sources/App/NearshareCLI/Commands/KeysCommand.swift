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
            if output.json {
                for contact in contacts {
                    JSONEvents.emit(
                        "key",
                        [
                            "fingerprint": .string(contact.fingerprint.hex), "id": .string(contact.fingerprint.peerID.hex),
                            "name": .string(contact.name.claimed), "origin": .string(contact.entry.origin.rawValue),
                            "since": .number(contact.entry.since.unixMilliseconds),
                            "friend": .bool(contact.isFriend),
                        ])
                }
                return
            }
            if contacts.isEmpty {
                Console.notice("no keys yet; they are stored when a peer is met in the mesh, or by `nearshare keys import`")
            }
            let rows = contacts.map { contact in
                [
                    contact.name.shown, contact.fingerprint.peerID.hex,
                    "\(contact.entry.origin.rawValue) \(contact.entry.since.localText)",
                    contact.isFriend ? "friend" : "",
                ]
            }
            Console.writeTable(rows)
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
            let fingerprint = Fingerprint(of: keys.publicKeys.agreementKey)
            if machine.state.hasIdentity, try machine.state.identity().fingerprint == fingerprint {
                throw CommandFailure(.failure, "\(shownFile) holds the keys of this machine; import it on another machine")
            }
            let sharing = try machine.trust.read().trustedPeers(named: owner).filter { $0.fingerprint != fingerprint }
            let name = try introduce(keys, fingerprint, to: machine)
            let trust = try machine.trust.read()
            let now = SystemClock.wall()
            let (before, isStored) = try machine.contacts.update { contacts in
                let before = contacts.entry(of: fingerprint)
                let isStored = contacts.recordImport(
                    agreementKey: keys.publicKeys.agreementKey, signingKey: keys.publicKeys.signingKey, name: name,
                    isFriend: { trust[$0]?.isFriend == true }, at: now)
                return (before, isStored)
            }
            guard isStored else {
                throw CommandFailure(
                    .noSpace,
                    "\(ContactBook.capacity) keys of friends or imported keys are stored; remove one with `nearshare keys forget`"
                )
            }
            if let before, before.signingKey != keys.publicKeys.signingKey {
                Console.warn("the signing key of \(name.shown) has changed, and is replaced")
            }
            Console.notice("the keys of \(name.identified(by: fingerprint.peerID)) are imported")
            if name.claimed != keys.name.claimed {
                Console.notice(
                    "the peer calls itself \(keys.name.quoted), and is called \(name.quoted) on this machine; `nearshare peers rename` changes that"
                )
            }
            for peer in sharing {
                Console.warn(
                    "\(name.shown) means this peer from now on, and not \(peer.name.identified(by: peer.id)), which you could call so before"
                )
            }
        }
    }

    private var shownFile: String { file == "-" ? "standard input" : TerminalText.escaped(file, columns: 4096) }

    /// Checks that the keys belong to the named owner, and adds the owner to the trust store.
    /// - Returns: the owner's local name.
    private func introduce(_ keys: ExportedKeys, _ fingerprint: Fingerprint, to machine: LocalMachine) throws -> DisplayName {
        let trust = try machine.trust.read()
        let resolved: KeysOwner
        do {
            resolved = try KeysOwner(named: owner, of: fingerprint, claiming: keys.name, in: trust)
        } catch {
            throw CommandFailure(.notTrusted, error.sentence(about: shownFile))
        }
        switch resolved {
        case .known(let entry): return entry.name
        case .new(let name):
            let now = SystemClock.wall()
            let isStored = try machine.trust.update { $0.introduce(fingerprint, claiming: keys.name, as: name, at: now) }
            guard isStored else { throw CommandFailure.addressBookFull }
            return name
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
    }

    /// Sorted by name.
    let contacts: [Contact]

    init(_ machine: LocalMachine) throws {
        let trust = try machine.trust.read()
        contacts = try machine.contacts.read().entries
            .map { fingerprint, entry in
                Contact(
                    fingerprint: fingerprint, name: trust[fingerprint]?.name ?? entry.name, entry: entry,
                    isFriend: trust[fingerprint]?.isFriend == true)
            }
            .sorted { ($0.name.claimed.lowercased(), $0.fingerprint.hex) < ($1.name.claimed.lowercased(), $1.fingerprint.hex) }
    }
}

/// Shell completion: names of peers with known keys.
@Sendable private func completeKeys(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let machine = try? LocalMachine(), let known = try? KnownKeys(machine) else { return [] }
    return PeerArgument.words(for: known.contacts.map { ($0.name, $0.fingerprint.peerID) }, TrustStore())
}

/// The owner that `--for` names for the keys in a file.
enum KeysOwner: Equatable {
    /// A known peer with this key.
    case known(TrustStore.Entry)
    /// A name for a new key.
    case new(DisplayName)

    /// The reason why the keys do not belong to the named owner.
    enum Mismatch: Error, Equatable {
        /// The name belongs to another peer, or the id differs.
        case other(PeerID, known: PeerID, as: DisplayName?)
        /// The key is known under another name.
        case knownAs(DisplayName, PeerID)
        case blocked(DisplayName)
        case noName

        func sentence(about file: String) -> String {
            switch self {
            case .other(let id, let known, let name?):
                "\(file) holds the keys of \(id), but \(name.shown) is \(known); if the keys have changed, "
                    + "run `nearshare peers forget \(known)` first"
            case .other(let id, let known, nil): "\(file) holds the keys of \(id), not those of \(known)"
            case .knownAs(let name, let id):
                "\(file) holds the keys of \(name.identified(by: id)); use --for \(id), or rename the peer (`nearshare peers rename`)"
            case .blocked(let name): "\(name.shown) is blocked; `nearshare peers unblock` comes first"
            case .noName: "a new name must have 1 to 63 bytes and a visible character"
            }
        }
    }

    /// - Parameters:
    ///   - text: the owner as named by the user: a name, an id or a fingerprint.
    ///   - fingerprint: the fingerprint of the key in the file.
    ///   - claimed: the name in the file.
    init(
        named text: String, of fingerprint: Fingerprint, claiming claimed: DisplayName, in trust: TrustStore
    ) throws(Mismatch) {
        let id = fingerprint.peerID
        let entry = trust[fingerprint]
        if let entry, entry.trust == .blocked { throw .blocked(entry.name) }
        let name: DisplayName
        if let namedID = PeerID(hex: text) ?? Fingerprint(hex: text)?.peerID {
            guard namedID == id, Fingerprint(hex: text).map({ $0 == fingerprint }) ?? true else {
                throw .other(id, known: namedID, as: nil)
            }
            if let entry {
                self = .known(entry)
                return
            }
            name = claimed
        } else {
            let wanted = text.lowercased()
            let named = trust.entries.filter { $0.value.name.claimed.lowercased() == wanted }
            if let entry, named[fingerprint] != nil {
                self = .known(entry)
                return
            }
            if let other = named.min(by: { $0.key.hex < $1.key.hex }) {
                throw .other(id, known: other.key.peerID, as: other.value.name)
            }
            if let entry { throw .knownAs(entry.name, id) }
            guard let given = try? DisplayName(text) else { throw .noName }
            name = given
        }
        // A name that merely looks like that of another peer is rejected as well.
        if case .nameClash(let owner) = trust.trustStatus(of: fingerprint, claiming: name) {
            throw .other(id, known: owner.peerID, as: trust[owner]?.name ?? name)
        }
        self = .new(name)
    }
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
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
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
