internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct PeersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peers", abstract: "List known peers; verify, rename, block or forget them.",
        discussion: "`nearshare friends` manages friends.",
        subcommands: [
            PeersListCommand.self, PeersVerifyCommand.self, PeersRenameCommand.self, PeersBlockCommand.self,
            PeersUnblockCommand.self, PeersForgetCommand.self,
        ],
        defaultSubcommand: PeersListCommand.self)
}

struct PeersListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List known peers.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let peers = KnownPeerRenderer.sorted(try LocalMachine().trust.read().entries)
            output.reporter.writeList(
                peers, event: "peer",
                ifEmpty: "no peers yet; a peer is stored when a file is sent to it or accepted from it",
                members: { peer in
                    var members = KnownPeerRenderer.jsonMembers(peer)
                    members["trust"] = .string(peer.entry.trust.rawValue)
                    members["friend"] = .bool(peer.entry.isFriend)
                    if let certificate = peer.entry.certificate {
                        members["protocol"] = .string("localsend")
                        members["certificate"] = .string(Hex.encode(certificate))
                    }
                    return members
                },
                row: { peer in
                    KnownPeerRenderer.row(
                        peer,
                        trust: TrustStatus.known(peer.entry.trust, isFriend: peer.entry.isFriend).listText
                            + (peer.entry.certificate == nil ? "" : ", LocalSend"))
                })
        }
    }
}

struct PeersVerifyCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify a peer's key by comparing the short code, or with a link from the peer's QR code.",
        discussion: """
            One user runs this command; the other one runs `nearshare receive` in a terminal, sees the same eight digits there, and \
            answers the question. A link, bitchat://verify?…, is \
            shown by phones that run bitchat, by `nearshare identity qr` and by /verify in a chat.
            """)

    @Argument(
        help: ArgumentHelp(
            "A name, an unambiguous prefix of one, an id, an address, or a link.", valueName: "peer"),
        completion: .custom(PeerArgument.completions),
        transform: PeerArgument.validated)
    var peer: String

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    func prepare() throws -> @Sendable () async throws -> Void {
        guard peer.hasPrefix("bitchat:") else { return { try await compare() } }
        // The keys of a link are proven in the mesh: this process runs the node where none runs.
        let machine = try ConfinedMachine(sandbox, log: global.logger).machine
        return { try await verifyLink(on: machine) }
    }
}

extension PeersVerifyCommand {
    private func compare() async throws {
        let machine = try LocalMachine()
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(.usage, "comparing the short code needs a terminal")
        }
        if let (fingerprint, entry) = try machine.trust.read().peer(named: peer), let certificate = entry.certificate {
            return try await verifyDevice(fingerprint, of: entry, certificate: certificate, on: machine, terminal)
        }
        if let device = machine.localSendDevice(named: peer) { throw device.verificationRefusal }
        try await rejectPhone(on: machine)
        if LinkAddress(parsing: peer) == nil { Console.notice("looking for \(TerminalText.escaped(peer))…") }
        let connector = PeerConnector(
            machine: machine, interface: nil, radio: LocalMachine.bluetoothOpener(log: global.logger),
            reporter: TextReporter(), log: global.logger)
        let operation = VerificationOperation(machine: machine, reporter: TextReporter())
        try await connector.connect(to: peer, interruption: SignalInterruption()) { connection in
            try await operation.run(over: connection) { code, name in
                let quoted = name.besideCode(of: connection.proven.id)
                return await YesNoPrompt.answer(
                    to: "\n    \(code)\n\n\(quoted) should see the same eight digits in the question that "
                        + "`nearshare receive`, `chat` or `mesh run` shows there, and answers it there; a `peers verify` "
                        + "there shows other digits. Ask, do not guess.\nare they the same? [y]es, [n]o: ", on: terminal)
            }
        }
    }

    private func verifyDevice(
        _ fingerprint: Fingerprint, of entry: TrustStore.Entry, certificate: [UInt8], on machine: LocalMachine,
        _ terminal: TerminalDevice
    ) async throws {
        let name = entry.name
        Console.notice("looking for \(name.shown)…")
        let verification = CertificateVerification(machine: machine, reporter: TextReporter(), log: global.logger)
        try await verification.run(fingerprint, of: entry, certificate: certificate) {
            let lines = CertificateText.lines(certificate).joined(separator: "\n    ")
            return await YesNoPrompt.answer(
                to: "\n    \(lines)\n\n\(name.quoted) should see the same fingerprint in the settings of LocalSend. "
                    + "Ask, do not guess.\nare they the same? [y]es, [n]o: ", on: terminal)
        }
    }

    /// Rejects a phone in the mesh of the running node: its app shows no short code.
    private func rejectPhone(on machine: LocalMachine) async throws {
        let contacts = (try? await withRunningNode(of: machine) { try await $0.contacts() }) ?? []
        let trust = (try? machine.trust.read()) ?? TrustStore()
        guard let contact = Self.phone(named: peer, among: contacts, in: trust) else { return }
        throw CommandFailure(
            .usage,
            "\(contact.name.shown) is a phone that runs bitchat: use the link of its verification code, with `nearshare peers "
                + "verify LINK`, or with /verify LINK in the chat")
    }

    /// The phone in range that a text selects.
    /// - Returns: nil also where the user knows another peer by the text, or by a name that begins so: a phone that claims the name
    ///   must not keep that one, which may be outside of the mesh, from being verified (K2).
    static func phone(named text: String, among contacts: [Contact], in trust: TrustStore) -> Contact? {
        guard case .one(let contact, _) = NameSelection(of: text, among: contacts.filter(\.isNear)), contact.software == .phone
        else { return nil }
        let known = trust.knownPeers(selectedBy: text)
        return known.isEmpty || known.contains(contact.id) ? contact : nil
    }

    private func verifyLink(on machine: LocalMachine) async throws {
        let options = NodeOptions(
            interface: nil, radio: LocalMachine.bluetoothOpener(log: global.logger), log: global.logger)
        try await withNodeClient(on: machine, options: options, environment: .command) { [peer] client in
            let contact = try await client.verify(link: peer)
            let trust = try? machine.trust.read()
            Console.notice(VerificationOperation.successText(for: contact.name, contact.id, in: trust))
        }
    }
}

/// The argument that names a peer of the address book.
struct KnownPeerArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(PeerArgument.knownCompletions),
        transform: PeerArgument.validated)
    var peer: String
}

struct PeersRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Give a peer a local name, which no other peer can claim.")
    @OptionGroup var peerArgument: KnownPeerArgument
    @Argument(
        help: ArgumentHelp("Local name; without it the local name is removed.", valueName: "name"),
        transform: NameArgument.expected)
    var name: NameArgument?
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let editor = try KnownPeerEditor(LocalMachine())
            guard let name else {
                let (peer, hadName) = try editor.removeName(of: peerArgument.peer)
                let text = hadName ? "no longer has a local name" : "has no local name"
                return Console.notice("\(peer.name.identified(by: peer.id)) \(text)")
            }
            let renamed = try editor.rename(peerArgument.peer, to: name.name)
            Console.notice("\(renamed.name.identified(by: renamed.id)) is now called \(name.name.shown)")
        }
    }
}

struct PeersBlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "block", abstract: "Block a peer: receive nothing more from it.")
    @OptionGroup var peerArgument: KnownPeerArgument
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let (peer, former) = try KnownPeerEditor(LocalMachine()).block(peerArgument.peer)
            Console.notice("\(peer.name.identified(by: peer.id)) is \(former.blockedText)")
        }
    }
}

struct PeersUnblockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "unblock", abstract: "Unblock a peer.")
    @OptionGroup var peerArgument: KnownPeerArgument
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let (peer, wasBlocked) = try KnownPeerEditor(LocalMachine()).unblock(peerArgument.peer)
            let shownPeer = peer.name.identified(by: peer.id)
            Console.notice("\(shownPeer) is \(wasBlocked ? TrustStatus.unblockedText : "not blocked")")
        }
    }
}

struct PeersForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "Remove a peer and its keys; it is new the next time.")
    @OptionGroup var peerArgument: KnownPeerArgument
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let peer = try KnownPeerEditor(LocalMachine()).forget(peerArgument.peer)
            Console.notice("\(peer.name.identified(by: peer.id)) is forgotten")
        }
    }
}
