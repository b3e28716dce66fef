package import Nearshare

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
        // A daemon waits a second for a port that a command of this user releases; no longer, as another program may keep it.
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
            // The next node listens on the same port.
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
