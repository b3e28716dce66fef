internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareService

/// How a node of this machine is run. What is nil is as the configuration says.
struct NodeOptions: Sendable {
    /// A profile's name.
    var profile: String?
    var inbox: String?
    var name: DisplayName?
    var accept: Configuration.Accept?
    var maximumSize: UInt64?
    var maximumPerPeer: UInt64?
    var port: UInt16?
    var interface: String?
    /// nil for no Bluetooth.
    var radio: (@Sendable () throws(DiscoveryError) -> Radio)?
    /// It runs for its own sake, and tells on the terminal what happens.
    var isStanding = false
    var isJSON = false
    var log: Logger

    /// Of a command that needs a node for a while.
    init(radio: RadioOptions, interface: String? = nil, log: Logger) {
        self.radio = radio.radio(log: log)
        self.interface = interface
        self.log = log
    }

    /// Of a node that a person runs.
    init(_ options: ReceivingOptions, log: Logger) {
        self.init(radio: options.radio, interface: options.interface, log: log)
        (inbox, name, accept, port) = (options.inbox, options.name?.name, options.accept, options.port)
        (maximumSize, maximumPerPeer) = (options.maxSize?.bytes, options.maxPerPeer?.bytes)
    }
}

/// Runs `body` with the way to the node that runs on this machine, or, where none does, with one that this process runs
/// meanwhile, and that others can go through as well.
///
/// Where there is no node, `nearshare-node` takes this process's place, so nothing is to be done before that can't be done again.
/// - Parameter carriesOn: `body` knows how far it is, and is run again, through another node, when the one in another process ends: when it
///   throws a ``ControlFailure`` of that kind. `nearshare-node` takes this process's place at once then.
func withNodeClient(
    _ machine: LocalMachine, _ options: NodeOptions, carriesOn: Bool = false,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws {
    if carriesOn { try NodeStoreOpener.prepare() }
    let isStopped = OnceFlag()
    // Around all of it: a signal may come while one node is gone and the next one is not there.
    try await SignalHandling.handled {
        isStopped.raise()
    } _: {
        while !isStopped.isRaised {
            if try await withOneClient(machine, options, carriesOn, body) { return }
        }
    }
}

/// - Returns: false when another node is to be asked.
private func withOneClient(
    _ machine: LocalMachine, _ options: NodeOptions, _ carriesOn: Bool,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws -> Bool {
    do {
        let isDone: Void? = try await askRunningNode(of: machine) { client in
            try await SignalHandling.handled(asking: { client.close() }) { try await body(client) }
        }
        if isDone != nil { return true }
    } catch let failure as ControlFailure where failure.kind == .gone && carriesOn {
        return false
    }
    do {
        try await runNode(machine, options) { try await body($0) }
        return true
    } catch is NodeRunsAlready {
        // Begun by a command that was a moment faster.
        return false
    }
}

/// Asks the node that runs on this machine; none is begun.
/// - Returns: nil when there is none.
func askRunningNode<Result: Sendable>(
    of machine: LocalMachine, _ body: (ControlClient) async throws -> Result
) async throws -> Result? {
    guard let client = ControlClient(path: try machine.controlSocketPath()) else { return nil }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await client.run() }
        defer { group.cancelAll() }
        return try await body(client)
    }
}

/// Runs a node: receives, carries, answers other commands, until `body` is done.
/// - Throws: ``NodeRunsAlready`` when somebody else does, and what `body` throws.
func runNode(
    _ machine: LocalMachine, _ options: NodeOptions, _ body: @escaping @Sendable (NodeService) async throws -> Void
) async throws {
    let stores = try NodeStoreOpener.open(in: machine.state.path)
    let lock = try await takeRunLock(machine)
    defer { withExtendedLifetime(lock) {} }
    let configuration = machine.configuration
    let terminal = options.isStanding ? TerminalDevice() : nil
    // Nobody can be asked about files while they look at something else.
    let policy =
        options.isStanding ? try configuration.policy(options.accept, terminal) : configuration.unaskedPolicy
    var limits = InboxLimits()
    limits.maximumSize = options.maximumSize ?? configuration.maximumSize
    let settings = try machine.nodeSettings(
        name: options.name, interface: options.interface, discovery: machine.discovery(), radio: options.radio, log: options.log
    )
    let inbox = try machine.inbox(options.inbox, limits: limits)
    let quota = PeerQuota(options.maximumPerPeer ?? configuration.maximumPerPeer)
    var messengerSettings = MessengerSettings(carried: stores.carried, conversations: stores.conversations) { id in
        // Without the book only those who are near can be written to.
        guard let entry = try? machine.contacts.read().entry(of: id) else { return nil }
        return EndpointKeys(agreementKey: entry.agreementKey, signingKey: entry.signingKey)
    }
    messengerSettings.profile = try machine.propagationProfile(options.profile)
    messengerSettings.usesBlueChat = true
    messengerSettings.isBlocked = { sender in
        // Without the files nobody is known, and nothing is looser than for a stranger.
        (try? KnownPeople(machine))?.isBlocked(sender) ?? false
    }
    let server = try ControlServer(path: try machine.controlSocketPath())
    try await withNode(settings) { [messengerSettings] node in
        let receiving = try node.receive(
            port: options.port ?? configuration.port ?? 0)
        let messenger = try node.startMessenger(messengerSettings)
        let door = NodeService(
            machine, node, messenger,
            NodeService.Facts(
                isStanding: options.isStanding, port: receiving.port, inbox: inbox.path, started: SystemClock.monotonic(),
                sessionLifetime: settings.meshSessionLifetime, profileName: options.profile ?? configuration.profile))
        let voice = options.isStanding ? DeskVoice(isJSON: options.isJSON) : DeskVoice { door.tell(.notice($0)) }
        let desk = ReceiveController(
            machine: machine, place: .inbox(inbox), policy: policy, quota: quota, voice: voice,
            endsAfterFirst: false, terminal: terminal, log: options.log)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await door.run() }
            group.addTask { await server.run(door) }
            group.addTask { try await desk.serve(receiving, on: node) }
            group.addTask { await noteRadio(receiving, on: node, door) }
            defer { group.cancelAll() }
            try await SignalHandling.handled(asking: { desk.interrupt(node) }) { try await body(door) }
            node.beginShutdown()
        }
    }
}

extension Configuration {
    /// - Parameters:
    ///   - given: on the command line.
    ///   - terminal: to ask on; nil where there is none.
    func policy(_ given: Accept?, _ terminal: TerminalDevice?) throws -> Accept {
        let policy = given ?? accept ?? (terminal == nil ? .friends : .ask)
        guard policy != .ask || terminal != nil else {
            throw CommandFailure(.usage, "there is no terminal to ask on; use --accept friends, all or none")
        }
        return policy
    }

    fileprivate var unaskedPolicy: Accept {
        switch accept {
        case .ask?, nil: .friends
        case let policy?: policy
        }
    }
}

private func noteRadio(_ receiving: Listener, on node: Node, _ door: NodeService) async {
    guard node.hasRadio else { return door.note(bluetooth: "not used") }
    switch await receiving.radio {
    case .on(let channel)?: door.note(bluetooth: "on, channel \(channel)")
    case .unavailable(let reason)?: door.note(bluetooth: "not to be had: \(reason)")
    case nil: break
    }
}

/// A node of this person runs, and can be asked.
struct NodeRunsAlready: Error, CustomStringConvertible {
    let process: Int32?

    var description: String {
        "a node runs already\(process.map { " (process \($0))" } ?? ""); `nearshare mesh status` shows it, "
            + "`nearshare mesh stop` ends it"
    }
}

/// Another command that runs a node for itself may be just about to end, or to answer.
/// - Throws: ``NodeRunsAlready`` once one answers.
private func takeRunLock(_ machine: LocalMachine) async throws -> RunLock {
    let end = SystemClock.monotonic() + .seconds(2)
    while true {
        if let lock = try machine.state.takeRunLock() { return lock }
        if ControlClient.isAnswered(at: try machine.controlSocketPath()) {
            throw NodeRunsAlready(process: try machine.state.runningNode())
        }
        guard SystemClock.monotonic() < end else { break }
        try await Task.sleep(for: .milliseconds(50))
    }
    let process = try machine.state.runningNode().map { " (process \($0))" } ?? ""
    throw CommandFailure(
        .failure,
        "another nearshare\(process) is this machine's node, but doesn't answer at \(try machine.controlSocketPath()); end it, "
            + "or use the same XDG_RUNTIME_DIR")
}
