internal import ArgumentParser
internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import NearshareTerminal

struct MeshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mesh", abstract: "Run a node of the mesh: relay and store messages for others, and receive.",
        subcommands: [MeshRunCommand.self, MeshStatusCommand.self, MeshTraceCommand.self, MeshStopCommand.self])
}

struct MeshRunCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run a node in the foreground.",
        discussion: """
            It connects to the nodes in range on every medium, relays and stores messages for others, and receives files and messages. \
            Other commands of this user use it as long as it runs.
            """)

    @Option(
        help: ArgumentHelp(
            "Limits on distance and lifetime of messages: standard, high-density, sparse, long-reach, short-reach, or a profile of "
                + "the configuration (default: the configured one, or standard).", valueName: "name"),
        completion: .custom(completeProfiles))
    var profile: String?

    @OptionGroup var receiving: ReceivingOptions

    @OptionGroup var output: OutputOptions

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    func prepare() throws -> @Sendable () async throws -> Void {
        try receiving.requireInboxFolder()
        let machine = try ConfinedMachine(sandbox, inbox: receiving.inbox, createsInbox: true, log: global.logger).machine
        return { try await run(on: machine) }
    }

    private func run(on machine: LocalMachine) async throws {
        let (reporter, limiter) = output.startServing(on: machine)
        // A wrong profile is reported before a running `receive` is asked to hand over.
        do throws(StorageError) {
            _ = try machine.propagationProfile(profile)
        } catch {
            // One in the configuration is not a usage error.
            throw CommandFailure(profile == nil ? .failure : .usage, error.description)
        }
        var options = receiving.nodeOptions(log: global.logger)
        options.profile = profile
        let environment = NodeEnvironment(
            interruption: SignalInterruption(), display: .terminal, makeReporter: { _ in reporter })
        let chosenPort = machine.configuration.listeningPort(options.port)
        let inbox = try machine.inbox(options.inbox, limits: InboxLimits())
        let network = NetworkNotice(on: machine, interface: options.interface, NetworkNotice.show)
        try await runNode(on: machine, options: options, environment: environment) { node, events in
            limiter.followLinks { node.linkShare(of: $0) }
            let status = try await node.status()
            Self.reportReady(status, to: reporter)
            InboxNotice(inbox).show(to: reporter)
            if let server = node.localSend { LocalSendNotice.show(server, to: reporter) }
            if let notice = Node.fallbackNotice(port: status.port, chosen: chosenPort) { Console.warn(notice) }
            try await withNetworkNotice(network) { for await event in events { reporter.report(.node(event)) } }
        }
    }

    private static func reportReady(_ status: NodeStatus, to reporter: any CommandReporter) {
        reporter.emit("ready", MeshStatusCommand.jsonMembers(status)) {
            Console.notice(
                "\(status.name.unquoted) (\(status.id.hex)) runs a mesh node with profile \(Self.shown(status.profile)), "
                    + "on port \(status.port)")
        }
    }

    static func shown(_ profile: NodeStatus.Profile) -> String { profile.name.map { TerminalText.escaped($0) } ?? "standard" }
}

struct MeshStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the state of this machine's node.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            try await withRequiredNode { client in
                let status = try await client.status()
                output.reporter.emit("status", Self.jsonMembers(status)) { Self.write(status) }
            }
        }
    }

    private static func write(_ status: NodeStatus) {
        Console.writeTable(rows(status))
        guard !status.neighbours.isEmpty else { return Console.writeResult("no peers nearby") }
        Console.writeResult("nearby:")
        Console.writeTable(neighbourRows(status))
    }

    /// A row for each neighbour.
    static func neighbourRows(_ status: NodeStatus) -> [[String]] {
        status.neighbours.map { neighbour -> [String] in
            let signal = neighbour.signal.map { [$0.text] } ?? []
            return [
                "  \(neighbour.contact.name.shown)", neighbour.contact.id.hex, neighbour.contact.trustStatus.listText,
                neighbour.contact.software.rawValue, neighbour.isDirect ? "linked" : "relayed",
                status.secureSessions.contains(neighbour.contact.id) ? "secure session" : "",
            ] + signal
        }
    }

    /// The properties of a node, each with its name; neighbours are listed apart.
    static func rows(_ status: NodeStatus) -> [[String]] {
        let profile = status.profile
        return [
            ["name", status.name.unquoted], ["id", status.id.hex],
            [
                "process",
                "\(status.process), for \(Duration.seconds(status.uptime).asClock)\(status.isDaemon ? "" : ", until another command ends")",
            ],
            ["profile", MeshRunCommand.shown(profile)],
            ["  hop limit", "\(profile.hopLimit)"], ["  time to live", "\(profile.timeToLive) s"],
            ["  sharing time", "\(profile.sharingTime) ms"], ["  maximum propagation", "\(profile.maximumPropagation)"],
            ["  tracklist limit", "\(profile.tracklistLimit)"], ["port", "\(status.port)"],
            ["bluetooth", text(status.bluetooth)],
            ["inbox", TerminalText.escaped(status.inbox, columns: 1000)], ["messages stored", "\(status.storedBundleCount)"],
            ["secure sessions", "\(status.secureSessions.count), for \(status.sessionLifetime) s each"],
        ]
    }

    private static func text(_ bluetooth: NodeStatus.Bluetooth) -> String {
        switch bluetooth {
        case .starting: "starting"
        case .notUsed: "not used"
        case .on(let channel): "on, channel \(channel)"
        case .unavailable(let reason): "not available: \(reason)"
        }
    }

    static func jsonMembers(_ status: NodeStatus) -> [String: JSONValue] {
        func number(_ value: Int) -> JSONValue { .number(UInt64(max(0, value))) }
        let profile = status.profile
        return [
            "name": .string(status.name.claimed), "id": .string(status.id.hex), "process": number(Int(status.process)),
            "uptime": number(status.uptime), "standing": .bool(status.isDaemon), "port": number(Int(status.port)),
            "profile": .object([
                "name": JSONValue(profile.name), "hop_limit": number(profile.hopLimit),
                "time_to_live": number(profile.timeToLive), "sharing_time": number(profile.sharingTime),
                "maximum_propagation": number(profile.maximumPropagation), "tracklist_limit": number(profile.tracklistLimit),
            ]),
            "carried": number(status.storedBundleCount), "bluetooth": .string(text(status.bluetooth)),
            "inbox": .string(status.inbox),
            "session_lifetime": number(status.sessionLifetime),
            "near": .array(status.neighbours.map { .object(jsonMembers($0, in: status)) }),
        ]
    }

    private static func jsonMembers(_ neighbour: NodeStatus.Neighbour, in status: NodeStatus) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "id": .string(neighbour.contact.id.hex), "name": .string(neighbour.contact.name.claimed),
            "trust": .string(neighbour.contact.trustStatus.label),
            "software": .string(neighbour.contact.software.rawValue),
            "linked": .bool(neighbour.isDirect),
            "secure": .bool(status.secureSessions.contains(neighbour.contact.id)),
        ]
        if let signal = neighbour.signal {
            members["rssi"] = .integer(Int64(signal.strength))
            members["rssi_age"] = .integer(Int64(signal.age))
        }
        return members
    }
}

extension NodeStatus.Signal {
    /// The strength and its age: "Bluetooth -61 dBm 12 s ago".
    var text: String { "Bluetooth \(strength) dBm \(Duration.seconds(age).asLargestUnit) ago" }
}

struct MeshTraceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trace", abstract: "Follow a packet or bundle through this machine's node.",
        discussion: "Without an id, the latest decisions about all packets and bundles are shown.")

    @Argument(help: ArgumentHelp("Id of a packet or bundle, or its first digits, at least 4.", valueName: "id"))
    var id: String?

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    /// Limit on the decisions without an id.
    private static let latestCount = 50

    /// The message where no decision is found.
    static func absence(of id: String?) -> String {
        id == nil
            ? "this node has decided about no packet or bundle yet"
            : "this node has no decision about that id; it keeps the latest ones"
    }

    func validate() throws {
        if let id, id.count < 4 || id.count > 64 || !id.allSatisfy(\.isHexDigit) {
            throw ValidationError("an id has 4 to 64 hexadecimal digits; `nearshare mesh trace` lists the latest")
        }
    }

    func run() async throws {
        try await runCommand {
            try await withRequiredNode { client in
                let limit = id == nil ? Self.latestCount : ControlReply.maximumEntryCount
                let entries = try await client.trace(id: id ?? "", limit: limit)
                if entries.isEmpty {
                    try output.reporter.writeText { throw CommandFailure(.failure, Self.absence(of: id)) }
                }
                output.reporter.writeList(
                    entries, event: "trace",
                    members: { entry in
                        [
                            "time": .number(entry.time.unixMilliseconds), "id": .string(entry.id),
                            "kind": .string(entry.subject.rawValue),
                            "sender": JSONValue(entry.sender?.hex), "decision": .string(entry.decision.rawValue),
                        ]
                    },
                    row: { entry in
                        [
                            LocalTime(entry.time).clock, entry.id, entry.subject.shown,
                            entry.sender?.hex ?? "", entry.decision.rawValue,
                        ]
                    })
            }
        }
    }
}

extension TraceEntry.Subject {
    /// The subject in a row of the list.
    fileprivate var shown: String {
        switch self {
        case .packet: "type \(rawValue)"
        case .bundle: rawValue
        }
    }
}

struct MeshStopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "stop", abstract: "Shut down this machine's node.")

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            try await withRequiredNode { client in
                let status = try await client.status()
                do throws(ControlFailure) {
                    try await client.stop()
                } catch {
                    // A node that stops may close the connection before it replies.
                    guard error.kind == .gone else { throw error }
                }
                Console.notice("the node (process \(status.process)) is shutting down")
            }
        }
    }
}

/// Shell completion: names of built-in and configured profiles.
@Sendable private func completeProfiles(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    let own = (try? LocalMachine())?.configuration.profiles.keys.sorted() ?? []
    return PropagationProfile.named.map(\.name) + own.filter(PeerArgument.isPlainWord)
}

/// Runs `body` with a client of the node that runs on this machine; none is started.
private func withRequiredNode(_ body: @Sendable (any NodeClient) async throws -> Void) async throws {
    guard try await withRunningNode(of: LocalMachine(), { try await body($0) }) else {
        throw CommandFailure(.failure, "no node is running on this machine; `nearshare mesh run` starts one")
    }
}
