internal import Logging
internal import Nearshare
internal import NearshareTerminal

/// A connection to somebody near for the sake of their key: nothing is sent.
struct PeerConnector: Sendable {
    let machine: LocalMachine
    /// As the configuration says, when nil.
    let interface: String?
    /// nil to stay on the network.
    let radio: (@Sendable () throws(DiscoveryError) -> Radio)?
    let log: Logger

    /// How long a name is looked for.
    private static let lookTime = Duration.seconds(8)

    /// - Parameters:
    ///   - peer: a name, the beginning of one, an id, or an address with a port.
    ///   - body: runs while the connection lasts, with a peer that has proven its key.
    func connect<Result: Sendable>(
        to peer: String, _ body: @Sendable @escaping (Connection) async throws -> Result
    ) async throws -> Result {
        let address = Address.parse(peer)
        let settings = try machine.nodeSettings(
            interface: interface, discovery: address == nil ? machine.discovery() : nil, radio: address == nil ? radio : nil,
            log: log)
        return try await withNode(settings) { node in
            try await SignalHandling.run(onSignal: { node.beginShutdown() }) {
                let destination: PeerDestination
                if let address {
                    destination = PeerDestination(addresses: [address])
                } else {
                    let media: Set<LinkAddress.Medium> = node.hasRadio ? [.network, .bluetooth] : [.network]
                    destination = try await node.find(peer, timeout: Self.lookTime, on: media).destination
                }
                return try await node.withConnection(to: destination, body: body)
            }
        }
    }
}
