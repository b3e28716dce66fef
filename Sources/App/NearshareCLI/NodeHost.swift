internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareBundles
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

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

/// Runs `body` with a client of the node that runs on this machine; where none runs, with a node that this process runs meanwhile
/// and that other commands can use as well.
/// - Parameter carriesOn: `body` can continue through another node. When the node in another process ends, so that `body` throws a
///   ``ControlFailure`` of that kind, it is called again.
func withNodeClient(
    _ machine: LocalMachine, _ options: NodeOptions, carriesOn: Bool = false,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws {
    let isStopped = OnceFlag()
    // Around all of it: a signal may come while one node has ended and the next one has not started.
    try await SignalHandling.run {
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
            try await SignalHandling.run(onSignal: { client.close() }) { try await body(client) }
        }
        if isDone != nil { return true }
    } catch let failure as ControlFailure where failure.kind == .gone && carriesOn {
        return false
    }
    do {
        try await runNode(machine, options) { try await body($0) }
        return true
    } catch is NodeRunsAlready {
        // Started by a command that was a moment faster.
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

/// Runs a node until `body` returns: it receives, carries bundles and serves other commands.
/// - Throws: ``NodeRunsAlready`` when another process runs one, and what `body` throws.
func runNode(
    _ machine: LocalMachine, _ options: NodeOptions, _ body: @escaping @Sendable (NodeService) async throws -> Void
) async throws {
    let role = try await PrimaryRole.claim(on: machine, fromReceiver: options.isStanding)
    let configuration = machine.configuration
    let terminal = options.isStanding ? TerminalDevice() : nil
    // A user who runs another command cannot be asked about files.
    let policy =
        options.isStanding ? try configuration.policy(options.accept, terminal) : configuration.unaskedPolicy
    var limits = InboxLimits()
    limits.maximumSize = options.maximumSize ?? configuration.maximumSize
    let settings = try machine.nodeSettings(
        name: options.name, interface: options.interface, discovery: machine.discovery(), radio: options.radio, log: options.log
    )
    let inbox = try machine.inbox(options.inbox, limits: limits)
    let quota = PeerQuota(options.maximumPerPeer ?? configuration.maximumPerPeer)
    try await withNode(settings) { node in
        let listener = try node.listen(port: options.port ?? configuration.port ?? 0)
        let service = try role.start(
            on: node, facts(of: machine, options, listener, inboxPath: inbox.path), profile: options.profile)
        let voice = options.isStanding ? DeskVoice(isJSON: options.isJSON) : DeskVoice { service.tell(.notice($0)) }
        let controller = ReceiveController(
            machine: machine, place: .inbox(inbox), policy: policy, quota: quota, voice: voice,
            endsAfterFirst: false, terminal: terminal, log: options.log)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.run(service, on: node, listener) }
            group.addTask { try await controller.serve(listener, on: node) }
            defer { group.cancelAll() }
            try await SignalHandling.run(onSignal: { controller.interrupt(node) }) { try await body(service) }
            node.beginShutdown()
        }
    }
}

private func facts(
    of machine: LocalMachine, _ options: NodeOptions, _ listener: Listener, inboxPath: String
) -> NodeService.Facts {
    NodeService.Facts(
        isStanding: options.isStanding, port: listener.port, inbox: inboxPath, started: SystemClock.monotonic(),
        profileName: options.profile ?? machine.configuration.profile)
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

/// The part of a node that one process of a user runs at a time: the place in the mesh, messages and the control socket.
final class PrimaryRole: Sendable {
    private let machine: LocalMachine
    private let stores: NodeStores
    private let server: ControlServer
    /// nil once another process has taken the role.
    private let lock: Mutex<NodeLock?>
    private let followers = Broadcast<ControlEvent>()

    private init(_ machine: LocalMachine, _ lock: NodeLock) throws {
        self.machine = machine
        self.lock = Mutex(lock)
        stores = try NodeStores(directory: machine.state.path)
        server = try ControlServer(path: try machine.controlSocketPath())
    }

    /// - Returns: nil when another process has the role.
    static func claimIfFree(on machine: LocalMachine) throws -> PrimaryRole? {
        try machine.state.acquireNodeLock().map { try PrimaryRole(machine, $0) }
    }

    /// Another command that runs a node for itself may be about to end, or to answer.
    /// - Parameter fromReceiver: a `receive` that has the role hands it over.
    /// - Throws: ``NodeRunsAlready`` once another node answers.
    static func claim(on machine: LocalMachine, fromReceiver: Bool) async throws -> PrimaryRole {
        var isHandedOver = false
        if fromReceiver, let process = try machine.state.nodeProcessID() {
            isHandedOver = try await askForHandOver(machine)
            guard isHandedOver else { throw NodeRunsAlready(process: process) }
        }
        let end = SystemClock.monotonic() + .seconds(isHandedOver ? 5 : 2)
        while true {
            if let role = try claimIfFree(on: machine) { return role }
            if !isHandedOver, ControlClient.isAnswered(at: try machine.controlSocketPath()) {
                throw NodeRunsAlready(process: try machine.state.nodeProcessID())
            }
            guard SystemClock.monotonic() < end else { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        let process = try machine.state.nodeProcessID().map { " (process \($0))" } ?? ""
        throw CommandFailure(
            .failure,
            "another nearshare\(process) is this machine's node, but does not answer at \(try machine.controlSocketPath()); end it, "
                + "or use the same XDG_RUNTIME_DIR")
    }

    private static func askForHandOver(_ machine: LocalMachine) async throws -> Bool {
        let isAccepted: Bool? = try await askRunningNode(of: machine) { client in
            do throws(ControlFailure) {
                return try await client.ask(.handOver) == .done
            } catch {
                // It has just ended.
                return error.kind == .gone
            }
        }
        // Nobody answers: it is about to start, or to end.
        return isAccepted ?? true
    }

    /// Starts the messenger.
    func start(
        on node: Node, _ facts: NodeService.Facts, profile: String?,
        observe: @escaping @Sendable (ControlEvent) -> Void = { _ in }
    ) throws -> NodeService {
        var settings = MessengerSettings(carried: stores.bundles, conversations: stores.conversations) { [machine] id in
            // Without the address book only peers in range can be written to.
            guard let entry = try? machine.contacts.read().entry(of: id) else { return nil }
            return EndpointKeys(agreementKey: entry.agreementKey, signingKey: entry.signingKey)
        }
        settings.profile = try machine.propagationProfile(profile)
        settings.usesBlueChat = true
        settings.isBlocked = { [machine] sender in
            // Without the files everybody is an untrusted peer.
            (try? KnownPeople(machine))?.isBlocked(sender) ?? false
        }
        // A text for a `receive` is offered, unless a conversation follows.
        if facts.handsOver { settings.acceptsTexts = { [followers] in followers.hasSubscribers } }
        let messenger = try node.startMessenger(settings)
        return NodeService(machine, node, messenger, facts, followers: followers, observe: observe)
    }

    /// Serves other commands until the node shuts down, the role is handed over, or the task is cancelled.
    func run(_ service: NodeService, on node: Node, _ listener: Listener) async throws {
        let isHandedOver = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.server.run(service) }
            group.addTask { await noteRadio(listener, on: node, service) }
            defer { group.cancelAll() }
            async let ended: Void = service.run()
            var isHandedOver = false
            for await _ in service.handOverRequests {
                isHandedOver = true
                try await node.leaveMesh(listener)
            }
            await ended
            return isHandedOver
        }
        // Otherwise held until all of the node has ended.
        if isHandedOver { lock.withLock { $0 = nil } }
    }
}

private func noteRadio(_ listener: Listener, on node: Node, _ service: NodeService) async {
    guard node.hasRadio else { return service.note(bluetooth: "not used") }
    switch await listener.radio {
    case .on(let channel)?: service.note(bluetooth: "on, channel \(channel)")
    case .unavailable(let reason)?: service.note(bluetooth: "not available: \(reason)")
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
