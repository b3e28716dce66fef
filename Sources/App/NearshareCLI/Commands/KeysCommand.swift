internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import NearshareTerminal

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys", abstract: "Exchange the public keys with which messages are sealed for somebody who is away.",
        subcommands: [
            KeysListCommand.self, KeysExportCommand.self, KeysImportCommand.self, KeysForgetCommand.self,
        ],
        defaultSubcommand: KeysListCommand.self)
}

struct KeysListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List whose keys are known.")

    @Flag(help: "Write one JSON object a line.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let contacts = try KnownKeys(machine).contacts
            if json {
                for contact in contacts {
                    JSONEvents.emit(
                        "key",
                        [
                            "fingerprint": .text(contact.fingerprint.hex), "id": .text(contact.fingerprint.peerID.hex),
                            "name": .text(contact.name.claimed), "origin": .text(contact.entry.origin.rawValue),
                            "since": .number(UInt64(max(0, contact.entry.since.milliseconds))),
                            "friend": .flag(contact.isFriend),
                        ])
                }
                return
            }
            if contacts.isEmpty {
                Console.say("no keys yet: those of others are kept when they are met in the mesh, or `nearshare keys import`ed")
            }
            let rows = contacts.map { contact in
                [
                    contact.name.shown, contact.fingerprint.peerID.hex,
                    "\(contact.entry.origin.rawValue) \(contact.entry.since.forPeople)",
                    contact.isFriend ? "friend" : "",
                ]
            }
            for line in Table.lines(rows) { Console.result(line) }
        }
    }
}

struct KeysExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the public keys of this machine, for somebody who is to import them.")

    @Option(
        help: ArgumentHelp("Write them to this new file (default: standard output).", valueName: "file"), completion: .file())
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
        commandName: "import", abstract: "Read somebody's public keys, so that messages can be sealed for them.",
        discussion: """
            Whoever has changed the file on its way to you reads your messages instead: take it from their hand, or compare the
            id with the one that `nearshare identity` shows on their machine.
            """)

    @Argument(
        help: ArgumentHelp("What `nearshare keys export` wrote on their machine; - for standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Whose keys they are: the name of somebody known, who must have this key; a new name; or an id, which must be the "
                + "file's.",
            valueName: "peer"), completion: .custom(completePeers))
    var owner: String

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let keys: ExportedKeys
            do {
                keys = try ExportedKeys(decoding: try KeysFile.read(file))
            } catch let error as ExportedKeys.Invalid {
                throw CommandFailure(.failure, "\(shownFile) can't be imported: \(error)")
            }
            let fingerprint = Fingerprint(of: keys.contact.agreementKey)
            if machine.state.hasIdentity, try machine.state.identity().fingerprint == fingerprint {
                throw CommandFailure(.failure, "\(shownFile) holds the keys of this machine; it can be imported on another one")
            }
            let name = try introduce(keys, fingerprint, to: machine)
            let book = try machine.trust.read()
            let now = SystemClock.wall()
            let (before, isKept) = try machine.contacts.update { contacts in
                let before = contacts.entry(of: fingerprint)
                let isKept = contacts.recordImport(
                    agreementKey: keys.contact.agreementKey, signingKey: keys.contact.signingKey, name: name,
                    isFriend: { book[$0]?.isFriend == true }, at: now)
                return (before, isKept)
            }
            guard isKept else {
                throw CommandFailure(
                    .noSpace,
                    "\(ContactBook.capacity) keys are known, all of friends or imported; `nearshare keys forget` one first")
            }
            if let before, before.signingKey != keys.contact.signingKey {
                Console.complain("another signing key of \(name.shown) was known, and is replaced")
            }
            Console.say("the keys of \(name.shown) (\(fingerprint.peerID)) are imported")
        }
    }

    private var shownFile: String { file == "-" ? "standard input" : TerminalText.escaped(file, columns: 4096) }

    /// Sees to it that the keys are those of the one they are said to be, and that the trust book knows that one.
    /// - Returns: what the local person calls their owner.
    private func introduce(_ keys: ExportedKeys, _ fingerprint: Fingerprint, to machine: LocalMachine) throws -> DisplayName {
        let book = try machine.trust.read()
        let meant: KeysOwner
        do {
            meant = try KeysOwner(named: owner, of: fingerprint, claiming: keys.name, in: book)
        } catch {
            throw CommandFailure(.notTrusted, error.sentence(about: shownFile))
        }
        switch meant {
        case .known(let entry): return entry.name
        case .new(let name):
            let now = SystemClock.wall()
            let isKept = try machine.trust.update { $0.introduce(fingerprint, claiming: keys.name, as: name, at: now) }
            guard isKept else {
                throw CommandFailure(.noSpace, "too many peers are known; `nearshare peers forget` one first")
            }
            return name
        }
    }
}

struct KeysForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "Forget somebody's keys; messages for them wait until they have been met again.")

    @Argument(
        help: ArgumentHelp("A name, the beginning of one, or an id.", valueName: "peer"), completion: .custom(completeKeys),
        transform: PeerText.check)
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
            Console.say("the keys of \(found.name.shown) (\(found.fingerprint.peerID)) are forgotten")
        }
    }
}

/// Whose keys are known, each by the name that stands for it here.
private struct KnownKeys {
    struct Contact {
        var fingerprint: Fingerprint
        var name: DisplayName
        var entry: ContactBook.Entry
        var isFriend: Bool
    }

    /// By name.
    let contacts: [Contact]

    init(_ machine: LocalMachine) throws {
        let book = try machine.trust.read()
        contacts = try machine.contacts.read().entries
            .map { fingerprint, entry in
                Contact(
                    fingerprint: fingerprint, name: book[fingerprint]?.name ?? entry.name, entry: entry,
                    isFriend: book[fingerprint]?.isFriend == true)
            }
            .sorted { ($0.name.claimed.lowercased(), $0.fingerprint.hex) < ($1.name.claimed.lowercased(), $1.fingerprint.hex) }
    }
}

/// Names for the shell.
@Sendable private func completeKeys(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let machine = try? LocalMachine(), let known = try? KnownKeys(machine) else { return [] }
    return known.contacts.map(\.name).filter { $0.shown == $0.claimed }.map(\.claimed)
}

/// Whom a person means who says whose the keys in a file are.
enum KeysOwner: Equatable {
    /// Has this key, and is known by it.
    case known(TrustStore.Entry)
    /// A name for a key that nobody has had so far.
    case new(DisplayName)

    /// Why the keys can't be theirs.
    enum Mismatch: Error, Equatable {
        /// Somebody else goes by the name, or it is another id.
        case other(PeerID, known: PeerID, as: DisplayName?)
        /// The key is known by another name.
        case knownAs(DisplayName, PeerID)
        case blocked(DisplayName)
        case noName

        func sentence(about file: String) -> String {
            switch self {
            case .other(let id, let known, let name?):
                "\(file) holds the keys of \(id), but \(name.shown) is \(known); if \(name.shown) has new keys, "
                    + "`nearshare peers forget \(known)` first"
            case .other(let id, let known, nil): "\(file) holds the keys of \(id), not those of \(known)"
            case .knownAs(let name, let id):
                "\(file) holds the keys of \(name.shown) (\(id)); say --for \(id), or rename them (`nearshare peers rename`)"
            case .blocked(let name): "\(name.shown) is blocked; `nearshare peers unblock` comes first"
            case .noName: "a new name has 1 to 63 bytes and nothing invisible alone in it"
            }
        }
    }

    /// - Parameters:
    ///   - text: as the person named the owner: a name, an id or a fingerprint.
    ///   - fingerprint: of the key in the file.
    ///   - claimed: the name in the file.
    init(
        named text: String, of fingerprint: Fingerprint, claiming claimed: DisplayName, in book: TrustStore
    ) throws(Mismatch) {
        let id = fingerprint.peerID
        let entry = book[fingerprint]
        if let entry, entry.trust == .blocked { throw .blocked(entry.name) }
        let name: DisplayName
        if let meant = PeerID(hex: text) ?? Fingerprint(hex: text)?.peerID {
            guard meant == id, Fingerprint(hex: text).map({ $0 == fingerprint }) ?? true else {
                throw .other(id, known: meant, as: nil)
            }
            if let entry {
                self = .known(entry)
                return
            }
            name = claimed
        } else {
            let wanted = text.lowercased()
            let named = book.entries.filter { $0.value.name.claimed.lowercased() == wanted }
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
        // Nor a name that only looks like somebody else's.
        if case .nameClash(let owner) = book.trustStatus(of: fingerprint, claiming: name) {
            throw .other(id, known: owner.peerID, as: book[owner]?.name ?? name)
        }
        self = .new(name)
    }
}

/// Files of exported keys.
private enum KeysFile {
    /// - Parameter path: `-` for standard input.
    static func read(_ path: String) throws -> String {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw failure("can't read", path) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var bytes: [UInt8] = []
        // One byte more than there may be tells that there are too many.
        var buffer = [UInt8](repeating: 0, count: ExportedKeys.maximumByteCount + 1)
        while bytes.count <= ExportedKeys.maximumByteCount {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { break }
            if count > 0 {
                bytes += buffer[..<count]
            } else if errno != EINTR {
                throw failure("can't read", path)
            }
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
                    "\(TerminalText.escaped(path, columns: 4096)) is there already; name another file, or remove that one")
            }
            throw failure("can't write", path)
        }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        // A few hundred bytes are written at once, or there is no room for them.
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            let problem = failure("can't write", path)
            unlink(path)
            throw problem
        }
    }

    private static func failure(_ what: String, _ path: String) -> CommandFailure {
        let isFull = errno == ENOSPC || errno == EDQUOT
        let reason = String(cString: strerror(errno)).lowercased()
        let shown = path == "-" ? "standard input" : TerminalText.escaped(path, columns: 4096)
        return CommandFailure(isFull ? .noSpace : .failure, "\(what) \(shown): \(reason)")
    }
}
