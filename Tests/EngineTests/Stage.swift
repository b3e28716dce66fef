import Logging
import NearshareBase
import NearshareCrypto
import NearshareEngine
import NearshareInterfaces
import NearshareTCP
import NearshareTesting

/// The transports on which each test of nodes runs.
enum LinkKind: CaseIterable {
    case memory
    case tcp

    var transport: any StreamTransport {
        switch self {
        case .memory: InMemoryTransport()
        case .tcp: TCPTransport()
        }
    }

    /// All traffic stays on this machine.
    var interface: String? { self == .tcp ? "lo" : nil }
}

/// The environment that the nodes of one test share.
struct Stage: Sendable {
    static let ada = LocalIdentity(seed: [UInt8](repeating: 1, count: 64))
    static let bea = LocalIdentity(seed: [UInt8](repeating: 2, count: 64))
    static let resumeKey = [UInt8](repeating: 9, count: 32)

    let transport: any StreamTransport
    let interface: String?

    init(_ linkKind: LinkKind) {
        transport = StoryResources.counted(linkKind.transport)
        interface = linkKind.interface
    }

    func settings(_ identity: LocalIdentity, _ name: String) -> NodeSettings {
        var settings = NodeSettings(
            identity: identity, name: DisplayName(truncating: name)!, transport: transport, discovery: nil,
            clock: { SystemClock.monotonic() }, wallClock: { SystemClock.wall() },
            random: { count in
                var generator = SystemRandomNumberGenerator()
                return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            },
            trustStatus: { _, _ in .new }, log: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        settings.interface = interface
        // So small that a waiting receiver stops its sender long before the end.
        settings.limits.connection.window = 256 << 10
        return settings
    }

    var sender: NodeSettings { settings(Self.ada, "Ada") }
    var receiver: NodeSettings { settings(Self.bea, "Bea") }

    func destination(_ port: UInt16, id: PeerID? = bea.peerID) -> PeerDestination {
        PeerDestination(addresses: [LinkAddress(host: "127.0.0.1", port: port)], id: id, name: DisplayName(truncating: "Bea"))
    }
}
