internal import Glibc
package import Nearshare

/// Another process of this user runs a node.
package struct NodeRunsAlready: Error, CustomStringConvertible {
    /// Process id.
    let process: Int32?

    package var description: String {
        "a node is already running\(process.map { " (process \($0))" } ?? ""); `nearshare mesh status` shows it, "
            + "`nearshare mesh stop` stops it"
    }
}

/// Runs `body` with a client of the node that runs on this machine, or else with a node that this process runs meanwhile and
/// that other commands can use as well.
/// - Parameter continues: whether `body` can continue through another node. When the node of another process ends, so that
///   `body` throws a ``ControlFailure`` of kind `gone`, it is called again.
package func withNodeClient(
    on machine: LocalMachine, options: NodeOptions, environment: NodeEnvironment, continues: Bool = false,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws {
    let isInterrupted = Monitor(false)
    // Around all of it: a signal may arrive between the end of one node and the start of the next.
    let stop: @Sendable (Interruption) -> Void = { _ in isInterrupted.update { $0 = true } }
    try await environment.interruption.run(onInterrupt: stop) {
        while !isInterrupted.withLock({ $0 }) {
            let isDone = try await withOneNodeClient(
                on: machine, options: options, environment: environment, continues: continues, body)
            if isDone { return }
        }
    }
}

/// - Returns: false when another node is to be used.
private func withOneNodeClient(
    on machine: LocalMachine, options: NodeOptions, environment: NodeEnvironment, continues: Bool,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws -> Bool {
    do {
        let hasNode = try await withRunningNode(of: machine) { client in
            try await environment.interruption.run(onInterrupt: { _ in client.close() }) { try await body(client) }
        }
        if hasNode { return true }
    } catch let failure as ControlFailure where failure.kind == .gone && continues {
        return false
    }
    do {
        try await runNode(on: machine, options: options, environment: environment) { service, _ in try await body(service) }
        return true
    } catch is NodeRunsAlready {
        // Another command has started one in the meantime.
        return false
    } catch let failure as ControlFailure where failure.kind == .gone && continues {
        // The node of this process has handed its role over.
        try await PrimaryRole.awaitSuccessor(on: machine)
        return false
    }
}

/// Runs `body` with a client of the node that runs on this machine, without starting one.
/// - Returns: nil when no node runs.
package func withRunningNode<Result: Sendable>(
    of machine: LocalMachine, _ body: (ControlClient) async throws -> Result
) async throws -> Result? {
    guard let client = try ControlClient(path: machine.controlSocketPath) else { return nil }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await client.run() }
        defer { group.cancelAll() }
        return try await body(client)
    }
}

/// Runs `body`, which has no result, with a client of the node that runs on this machine, without starting one.
/// - Returns: whether a node runs.
package func withRunningNode(of machine: LocalMachine, _ body: (ControlClient) async throws -> Void) async throws -> Bool {
    let done: Void? = try await withRunningNode(of: machine, body)
    return done != nil
}

/// Runs a node until `body` returns: it receives files, relays and stores messages, and serves other commands.
/// - Parameter body: called with the node's events from the first one on: messages may arrive before it runs.
/// - Throws: ``NodeRunsAlready`` when another process runs a node, and the errors of `body`.
package func runNode(
    on machine: LocalMachine, options: NodeOptions, environment: NodeEnvironment,
    _ body: @escaping @Sendable (NodeService, AsyncStream<ControlEvent>) async throws -> Void
) async throws {
    let isDaemon = options.purpose == .daemon
    let role = try await PrimaryRole.claim(on: machine, takesOver: isDaemon)
    let configuration = machine.configuration
    let display = isDaemon ? environment.display : nil
    let accept = configuration.acceptance(given: isDaemon ? options.accept : nil, hasTerminal: display != nil)
    let feed = ReceiveFeed()
    var settings = try machine.nodeSettings(
        name: options.name, interface: options.interface, discovery: machine.discovery(log: options.log),
        radio: options.radio, log: options.log)
    // No command reads invitations into sessions.
    settings.acceptsSessions = false
    let (unreachablePeers, unreachable) = AsyncStream.makeStream(
        of: NearbyPeer.self, bufferingPolicy: .bufferingNewest(UnreachablePeers.capacity))
    settings.reportUnreachable = { unreachable.yield($0) }
    let limits = configuration.inboxLimits(
        maximumSize: options.maximumSize, keepsExecutable: options.keepsExecutable, existing: options.existing)
    let inbox = try machine.inbox(options.inbox, limits: limits)
    let quota = configuration.peerQuota(maximumPerPeer: options.maximumPerPeer)
    try await withNode(settings) { node in
        let port = configuration.listeningPort(options.port)
        // Another program may keep the port for good, and a command is waited for.
        let listener =
            isDaemon
            ? try await node.listen(onPort: port, watching: machine.directories.runtime, timeout: .seconds(1))
            : try node.listen(onPort: port)
        var properties = NodeService.Properties(
            purpose: options.purpose, port: listener.port, inbox: inbox.path,
            profileName: options.profile ?? configuration.profile)
        // A node without a terminal shows itself to devices only where the user has said so.
        if isDaemon, configuration.protocols?.contains(.localsend) == true {
            properties.localSend = try node.serveLocalSend(for: listener, try machine.localSendSecurity())
        }
        let service = try role.start(on: node, properties, profile: options.profile, feed: feed)
        let controller = ReceiveController(
            machine: machine, destination: .inbox(inbox), accept: accept, quota: quota,
            reporter: environment.makeReporter { service.publish($0) }, endsAfterFirst: false,
            display: display, feed: feed, hotspot: environment.makeHotspot(options.interface))
        let events = await service.events()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await role.run(service, on: node, listener, closesPort: true) }
            group.addTask { try await controller.serve(listener, on: node) }
            group.addTask {
                var reported = UnreachablePeers()
                for await peer in unreachablePeers {
                    let trust = (try? machine.trust.read()) ?? TrustStore()
                    if let text = reported.notice(about: peer, trust) { service.publish(.notice(text)) }
                }
            }
            defer { group.cancelAll() }
            try await environment.interruption.run(onInterrupt: { controller.interrupt(node, $0) }) {
                try await body(service, events)
            }
            node.beginShutdown()
        }
    }
}
