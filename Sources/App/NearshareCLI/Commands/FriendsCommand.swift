internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct FriendsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "friends", abstract: "Manage friends; their files can be accepted without asking.",
        discussion: "A friend is a key, not a name. `nearshare peers` lists all known peers.",
        subcommands: [FriendsListCommand.self, FriendsAddCommand.self, FriendsRemoveCommand.self],
        defaultSubcommand: FriendsListCommand.self)
}

struct FriendsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List friends.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let friends = KnownPeerRenderer.sorted(try machine.trust.read().entries.filter { $0.value.isFriend })
            let contacts = try machine.contacts.read()
            output.reporter.writeList(
                friends, event: "friend", ifEmpty: "no friends yet; `nearshare friends add PEER` adds one",
                members: { friend in
                    var members = KnownPeerRenderer.jsonMembers(friend)
                    members["verified"] = .bool(friend.entry.trust == .verified)
                    members["keys"] = .bool(contacts.entry(of: friend.fingerprint) != nil)
                    return members
                },
                row: { friend in
                    KnownPeerRenderer.row(friend, trust: friend.entry.trust == .verified ? "verified" : "not verified")
                })
        }
    }
}

struct FriendsAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Add a known peer, or a peer nearby; the peer is not asked.",
        discussion: "Files from friends are accepted without asking where --accept friends applies.")

    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, an id, or an address.", valueName: "peer"),
        completion: .custom(PeerArgument.completions),
        transform: PeerArgument.validated)
    var peer: String

    @Flag(help: "Do not ask for confirmation when the key is not verified.")
    var unverified = false

    @OptionGroup var nearby: NearbyOptions
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let connector = PeerConnector(
                machine: machine, interface: nearby.interface, radio: nearby.bluetooth.makeOpener(log: global.logger),
                reporter: TextReporter(), log: global.logger)
            let resolver = FriendResolver(machine)
            switch try await resolver.find(
                peer, over: connector, interruption: SignalInterruption(), reporter: TextReporter())
            {
            case .authenticated(let friend): try await add(friend, on: machine)
            case .inMesh(let contact): try await add(contact, on: machine)
            }
        }
    }

    private func add(_ friend: FriendCandidate, on machine: LocalMachine) async throws {
        let nameAndID = friend.name.identified(by: friend.fingerprint.peerID)
        if friend.isFriend { return Console.notice("\(nameAndID) is already a friend") }
        if !friend.isVerified { try await confirm(nameAndID) }
        try friend.befriend(on: machine)
        Console.notice("\(nameAndID) is now a friend")
    }

    /// Makes a peer a friend that proves its key to the running node.
    private func add(_ contact: Contact, on machine: LocalMachine) async throws {
        try FriendCandidate.refuseNameClash(contact.trustStatus, contact.name, contact.id)
        let nameAndID = contact.name.identified(by: contact.id)
        try await confirm(nameAndID)
        guard try await withRunningNode(of: machine, { _ = try await $0.submit(.setFriend(contact.id, true)) }) else {
            throw CommandFailure(.peerNotFound, "the node that had \(nameAndID) in range has ended; try again")
        }
        Console.notice("\(nameAndID) is now a friend")
    }

    /// Asks about a key that is not verified.
    /// - Parameter nameAndID: the peer's name and id.
    private func confirm(_ nameAndID: String) async throws {
        if unverified { return }
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(
                .notTrusted,
                "the key of \(nameAndID) is not verified; run `nearshare peers verify \(ShellWord.quoted(peer))`, or add it with --unverified"
            )
        }
        let question =
            "the key of \(nameAndID) is not verified: another peer may use the name.\n"
            + "add it as a friend anyway? [y]es, [n]o: "
        guard await YesNoPrompt.ask(question, on: terminal) else {
            throw CommandFailure(.notTrusted, "not added; `nearshare peers verify \(ShellWord.quoted(peer))` verifies the key")
        }
    }
}

struct FriendsRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a friend; the peer stays in the address book.", aliases: ["rm"])

    @Argument(
        help: ArgumentHelp("A name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(completeFriends),
        transform: PeerArgument.validated)
    var peer: String

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let found = try KnownPeerEditor(LocalMachine()).removeFriend(peer)
            Console.notice("\(found.name.identified(by: found.id)) is no longer a friend")
        }
    }
}

/// Shell completion: names of friends.
@Sendable private func completeFriends(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let trust = try? LocalMachine().trust.read() else { return [] }
    return PeerArgument.words(
        for: trust.entries.filter(\.value.isFriend).map { ($0.value.name, $0.key.peerID) }, trust)
}
