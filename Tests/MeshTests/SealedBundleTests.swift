import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

/// Bundle packets inside the session of two neighbours.
@Suite struct SealedBundleTests {
    /// A packet of the bundle protocol, which the router does not decode.
    private let packet: [UInt8] = [1] + [UInt8](repeating: 0x2a, count: 2_300)

    private func pair(seed: UInt64, carrying: [Int] = [0, 1]) -> SimulatedMesh {
        var mesh = SimulatedMesh(seed: seed)
        mesh.addNode("anna")
        mesh.addNode("ben")
        mesh.connect(0, 1)
        for node in carrying { mesh.node(node) { $0.enableBundles(now: $1) } }
        mesh.run(for: .seconds(1))
        return mesh
    }

    private func carried(_ events: [MeshEvent]) -> [(packet: [UInt8], from: PeerID)] {
        events.compactMap { if case .bundlePacket(let packet, let peer) = $0 { (packet, peer) } else { nil } }
    }

    @Test("K7: a private packet arrives, and is unreadable in transit") func arrivesUnread() {
        var mesh = pair(seed: 1)
        let ben = mesh.nodes[1].router.id
        nonisolated(unsafe) var frames: [[UInt8]] = []
        mesh.tap = { _, _, frame, _ in frames.append(frame) }
        // It waits until there is a session.
        mesh.node(0) { $0.sendSealedBundlePacket(packet, to: ben, now: $1) }
        mesh.run(for: .seconds(5))
        mesh.node(0) { $0.sendSealedBundlePacket(packet, to: ben, now: $1) }
        mesh.run(for: .seconds(5))
        let arrived = carried(mesh.nodes[1].events)
        #expect(arrived.map(\.packet) == [packet, packet])
        #expect(arrived.allSatisfy { $0.from == mesh.nodes[0].router.id })
        let readable = [UInt8](repeating: 0x2a, count: 16)
        #expect(!frames.contains { frame in frame.indices.contains { frame[$0...].starts(with: readable) } })
        #expect(!frames.contains { $0.packetType == .bundle })
    }

    @Test("K12: a peer without a session is sent nothing, in particular nothing unencrypted") func noSession() {
        var mesh = pair(seed: 2)
        let ben = mesh.nodes[1].router.id
        // No handshake completes.
        mesh.filter = { _, frame in frame.packetType == .noiseHandshake ? [] : [frame] }
        nonisolated(unsafe) var types: Set<MeshPacketType> = []
        mesh.tap = { _, _, frame, _ in types.insert(frame.packetType) }
        mesh.node(0) { $0.sendSealedBundlePacket(packet, to: ben, now: $1) }
        mesh.run(for: .seconds(60))
        #expect(carried(mesh.nodes[1].events).isEmpty)
        #expect(!types.contains(.bundle))
        #expect(!types.contains(.noiseEncrypted))
    }

    @Test("a node that begins to store and forward during a session is known to, and that change is reported")
    func beginsToCarry() throws {
        var mesh = pair(seed: 4, carrying: [])
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[0].router.hasAuthenticatedKeys(ben))
        #expect(mesh.nodes[0].router.peer(ben)?.capabilities?.contains(.bundles) == false)
        mesh.nodes[0].events = []
        mesh.node(1) { $0.enableBundles(now: $1) }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[0].router.peer(ben)?.capabilities?.contains(.bundles) == true)
        let isReported = mesh.nodes[0].events.contains { event in
            if case .peerChanged(let peer) = event { peer.capabilities?.contains(.bundles) == true } else { false }
        }
        #expect(isReported)
    }

    @Test("M1: a node that does not forward drops private bundle packets, and continues") func notCarrying() throws {
        var mesh = pair(seed: 3, carrying: [0])
        let ben = mesh.nodes[1].router.id
        mesh.node(0) { $0.sendSealedBundlePacket(packet, to: ben, now: $1) }
        mesh.run(for: .seconds(5))
        #expect(carried(mesh.nodes[1].events).isEmpty)
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[1].events.texts == ["hello"])
    }
}
