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

    @Flag(help: "Write one JSON object per line.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let entries = try LocalMachine().trust.read().entries
                .sorted { $0.value.name.claimed.lowercased() < $1.value.name.claimed.lowercased() }
            if json {
                for (fingerprint, entry) in entries {
                    JSONEvents.emit(
                        "peer",
                        [
                            "fingerprint": .text(fingerprint.hex), "id": .text(fingerprint.peerID.hex),
                            "name": .text(entry.name.claimed), "claimed_name": .text(entry.claimedName.claimed),
                            "trust": .text(entry.trust.rawValue), "friend": .flag(entry.isFriend),
                            "last_seen": .number(UInt64(max(0, entry.lastSeen.milliseconds))),
                        ])
                }
                return
            }
            if entries.isEmpty { Console.say("no peers yet; a peer is stored when a file is sent to it or accepted from it") }
            let rows = entries.map { fingerprint, entry in
                [
                    entry.name.shown, fingerprint.peerID.hex,
                    TrustStatus.known(entry.trust, isFriend: entry.isFriend).label
                        + (entry.isFriend && entry.trust == .verified ? ", verified" : ""),
                    entry.givenName == nil ? "" : "calls itself \(entry.claimedName.shown)",
                ]
            }
            for line in Table.lines(rows) { Console.result(line) }
        }
    }
}

struct PeersVerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify a peer's key by comparing the short code.",
        discussion: "The peer runs `nearshare receive`. Both users must see the same eight digits.")

    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, an id, or an address with a port.", valueName: "peer"),
        completion: .custom(PeerArgument.completions),
        transform: PeerArgument.validated)
    var peer: String

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            guard let terminal = TerminalDevice() else {
                throw CommandFailure(.usage, "comparing the short code needs a terminal")
            }
            let machine = try LocalMachine()
            let meeting = PeerConnector(
                machine: machine, interface: nil, radio: LocalMachine.radio(log: global.logger), log: global.logger)
            try await meeting.connect(to: peer, interruption: SignalInterruption()) { connection in
                let code = try await connection.shortCode
                let name = try await connection.peerName
                terminal.write(
                    "\n    \(code)\n\n\(name.shown) should see the same eight digits. Ask, do not guess.\n"
                        + "are they the same? [y]es, [n]o: ")
                try await connection.askComparison()
                let answer = try await Self.answer(on: terminal, unlessDeniedOver: connection)
                if let isSame = answer { connection.answerComparison(isSame: isSame) }
                if answer == false {
                    try machine.trust.update { $0.recordMismatch(with: connection.proven) }
                    throw CommandFailure(.notTrusted, "not verified: the codes were not the same")
                }
                if answer == true { Console.say("waiting for \(name.shown) to confirm it as well…") }
                guard try await connection.isSameThere else {
                    throw CommandFailure(
                        .notTrusted, "not verified: \(name.shown) says that the codes are not the same")
                }
                try machine.trust.update { $0.recordVerification(of: connection.proven, named: name, at: SystemClock.wall()) }
                Console.say("\(name.shown) is verified")
            }
        }
    }
}

extension PeersVerifyCommand {
    /// The local user's answer; nil when the peer has answered no in the meantime.
    /// - Throws: when the connection ends first.
    private static func answer(on terminal: TerminalDevice, unlessDeniedOver connection: Connection) async throws -> Bool? {
        try await withThrowingTaskGroup(of: Bool?.self) { group in
            defer { group.cancelAll() }
            group.addTask { await YesNoPrompt.answer(on: terminal) }
            group.addTask {
                // A yes of the peer leaves the question open; the end of the connection closes it.
                guard try await connection.isSameThere else { return nil }
                throw try await connection.ending
            }
            // Safe: the group has two children, and this takes the first result.
            return try await group.next()!
        }
    }
}

/// A peer of the address book, as named by the user.
struct KnownPeer: ParsableArguments {
    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(PeerArgument.completions),
        transform: PeerArgument.validated)
    var peer: String
}

struct PeersRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Give a peer a local name, which no other peer can claim.")
    @OptionGroup var known: KnownPeer
    @Argument(help: ArgumentHelp("Local name; without it the local name is removed.", valueName: "name"))
    var name: NameArgument?
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let what = name.map { "is now called \($0.name.shown)" } ?? "has its own name again"
        try await changePeer(known.peer, what) { $0.rename($1, to: name?.name) }
    }
}

struct PeersBlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "block", abstract: "Receive nothing more from a peer.")
    @OptionGroup var known: KnownPeer
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await changePeer(known.peer, "is blocked") { $0.setBlocked($1, true) }
    }
}

struct PeersUnblockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "unblock", abstract: "Unblock a peer.")
    @OptionGroup var known: KnownPeer
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let found = try machine.trust.read().requirePeer(named: known.peer)
            let who = "\(found.entry.name.shown) (\(found.fingerprint.peerID))"
            guard found.entry.trust == .blocked else { return Console.say("\(who) is not blocked") }
            _ = try machine.trust.update { $0.setBlocked(found.fingerprint, false) }
            Console.say("\(who) is no longer blocked")
        }
    }
}

struct PeersForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "Remove a peer and its keys; it is new the next time.")
    @OptionGroup var known: KnownPeer
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let found = try machine.trust.read().requirePeer(named: known.peer)
            try machine.contacts.update { $0.remove(found.fingerprint) }
            try machine.trust.update { $0.remove(found.fingerprint) }
            Console.say("\(found.entry.name.shown) (\(found.fingerprint.peerID)) is forgotten")
        }
    }
}

private func changePeer(_ text: String, _ done: String, _ change: (inout TrustStore, Fingerprint) -> Bool) async throws {
    try await runCommand {
        let machine = try LocalMachine()
        let found = try machine.trust.read().requirePeer(named: text)
        _ = try machine.trust.update { change(&$0, found.fingerprint) }
        Console.say("\(found.entry.name.shown) (\(found.fingerprint.peerID)) \(done)")
    }
}
