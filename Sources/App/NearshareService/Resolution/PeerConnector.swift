package import Logging
package import Nearshare

/// Connects to a peer to authenticate its key, without sending anything.
package struct PeerConnector: Sendable {
    private let machine: LocalMachine
    private let interface: String?
    private let radio: RadioOpener?
    private let reporter: any Reporter
    private let log: Logger

    /// - Parameters:
    ///   - interface: nil for the configured one.
    ///   - radio: nil for the network only.
    ///   - reporter: is told which peer is meant, where several have the name.
    package init(
        machine: LocalMachine, interface: String?, radio: RadioOpener?, reporter: any Reporter, log: Logger
    ) {
        self.reporter = reporter
        self.machine = machine
        self.interface = interface
        self.radio = radio
        self.log = log
    }

    /// - Parameters:
    ///   - peer: a name, the beginning of one, an id, or an address with a port.
    ///   - body: runs while the connection lasts, with a peer that has proven its key.
    package func connect<Result: Sendable>(
        to peer: String, interruption: any InterruptionHandler,
        _ body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        let needsDiscovery = LinkAddress(parsing: peer) == nil
        let settings = try machine.nodeSettings(
            interface: interface, discovery: needsDiscovery ? machine.discovery(log: log) : nil,
            radio: needsDiscovery ? radio : nil,
            log: log)
        let resolver = PeerResolver(machine: machine, reporter: reporter, transport: nil)
        return try await withNode(settings) { node in
            try await interruption.run(onInterrupt: { _ in node.beginShutdown() }) {
                let destination = try await resolver.resolveForConnection(peer, on: node)
                return try await Self.connect(to: destination, found: resolver, on: node, body)
            }
        }
    }

    /// Connects to a peer. Where another one answers in its place, the search goes on, see ``MismatchedAddresses``.
    static func connect<Result: Sendable>(
        to first: PeerDestination, found resolver: PeerResolver, on node: Node,
        _ body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        var destination = first
        var mismatched = MismatchedAddresses(resolver, on: node)
        var mismatch: NodeError?
        while true {
            let others = Monitor(Set<LinkAddress>())
            let isConnected = Monitor(false)
            do {
                return try await node.withConnection(to: destination) { address in
                    others.withLock { _ = $0.insert(address) }
                } body: { connection in
                    isConnected.withLock { $0 = true }
                    return try await body(connection)
                }
            } catch let error as NodeError where !isConnected.withLock({ $0 }) {
                if mismatch == nil, case .identityMismatch = error { mismatch = error }
                let addresses = others.withLock { $0 }
                guard error.isTransient || !addresses.isEmpty else { throw error }
                guard let next = await mismatched.search(for: destination, without: addresses) else {
                    let last = mismatch ?? error
                    if last.isOwnKey { throw CommandFailure(last, connectingTo: first) }
                    throw last
                }
                destination = next
            }
        }
    }
}
