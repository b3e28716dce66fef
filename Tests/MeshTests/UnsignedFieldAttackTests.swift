import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Copies of packets whose unsigned fields a faster neighbour has changed.
@Suite struct UnsignedFieldAttackTests {
    private enum Kind: CaseIterable {
        case announcement, line, leave, sealed, handshake, unknown, fragment
    }

    private let anna = UntrustedPeer(seed: 1)

    /// A victim that knows anna and has three links: 0 to an honest relay, 1 to the attacker, and 2.
    private func victim() throws -> AttackedRouter {
        var victim = AttackedRouter(links: 3)
        victim.receive(try anna.announcement("anna", at: victim.now, ttl: 6))
        victim.run(for: .seconds(2))
        victim.forgetWritten()
        return victim
    }

    private func frame(_ kind: Kind, in victim: AttackedRouter) throws -> [UInt8] {
        let recipient = PeerID(fitting: [9])
        func directed(_ type: MeshPacketType) throws -> [UInt8] {
            try MeshPacket(
                type: type, ttl: 6, timestamp: victim.now, sender: anna.id, recipient: recipient,
                payload: [UInt8](repeating: 1, count: 32)[...]
            ).encoded(isPadded: true)
        }
        return switch kind {
        case .announcement: try anna.announcement("anna 2", at: victim.now, ttl: 6)
        case .line: try anna.message("the bridge is closed", at: victim.now, ttl: 6)
        case .leave: try anna.leave(at: victim.now, ttl: 6)
        case .sealed: try directed(.noiseEncrypted)
        case .handshake: try directed(.noiseHandshake)
        case .unknown: try directed(MeshPacketType(rawValue: 0x66))
        case .fragment:
            try UntrustedPeer.fragment(1, of: 2, [1], from: anna.id, to: recipient, at: victim.now, ttl: 6)
        }
    }

    private func with(ttl: UInt8, _ frame: [UInt8]) -> [UInt8] {
        var copy = frame
        copy[2] = ttl
        return copy
    }

    private func relayed(_ frame: [UInt8], by victim: AttackedRouter, on link: Int = 2) -> [MeshPacket] {
        victim.written(frame.packetType, on: link).filter { $0.sender == anna.id }
    }

    @Test("M18: a first copy with a lower ttl ends no packet's way", arguments: Kind.allCases, [0, 1, 2, 4] as [UInt8])
    private func lowered(kind: Kind, ttl: UInt8) throws {
        for isWaiting in [true, false] {
            var victim = try victim()
            let genuine = try frame(kind, in: victim)
            victim.receive(with(ttl: ttl, genuine), from: 1)
            if !isWaiting { victim.run(for: .seconds(1)) }
            victim.receive(genuine, from: 0)
            victim.run(for: .seconds(1))
            let ttls = relayed(genuine, by: victim).map(\.ttl)
            #expect(ttls.last == 5 && ttls.count <= (isWaiting ? 1 : 2))
            #expect(victim.events.texts.count == (kind == .line ? 1 : 0))
            #expect(relayed(genuine, by: victim, on: 0).map(\.ttl).allSatisfy { $0 < 5 })
            if kind == .announcement { #expect(victim.router.peer(anna.id)?.hops == MeshPeer.hops(ttl: 6)) }
        }
    }

    /// (the ttls of the copies in their order, those with which they are relayed)
    static let ttlOrders: [([UInt8], [UInt8])] = [
        ([0, 1, 2, 3, 4, 5, 6, 7, 255, 7, 1, 6], [1, 3, 5]),
        ([6, 1, 7, 255, 7, 6, 5, 4, 3, 2, 1, 0], [5]),
        ([2, 1, 0, 4, 3, 2, 7, 6, 5, 255], [1, 3, 6]),
    ]

    @Test("M2, M18: copies with different ttls are relayed three times at most, whatever their order", arguments: ttlOrders)
    func anyOrder(ttls: [UInt8], relayedTTLs: [UInt8]) throws {
        var victim = try victim()
        let genuine = try frame(.line, in: victim)
        for ttl in ttls {
            victim.receive(with(ttl: ttl, genuine), from: 1)
            victim.run(for: .seconds(1))
        }
        #expect(relayed(genuine, by: victim).map(\.ttl) == relayedTTLs)
        #expect(victim.events.texts.count == 1)
    }

    @Test(
        "M2, M18: copies in a random order are relayed three times at most, each at least two hops further",
        arguments: seeds(1...20))
    func randomOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var victim = try victim()
        let genuine = try frame(.line, in: victim)
        for ttl in ([0, 1, 2, 3, 4, 5, 6, 7, 255, 7, 1, 6] as [UInt8]).shuffled(using: &random) {
            victim.receive(with(ttl: ttl, genuine), from: 1)
            victim.run(for: .seconds(1))
        }
        let ttls = relayed(genuine, by: victim).map(\.ttl)
        #expect(ttls.count <= 3 && zip(ttls, ttls.dropFirst()).allSatisfy { $0 + 2 <= $1 }, "seed \(seed)")
        #expect(victim.events.texts.count == 1, "seed \(seed)")
    }

    @Test("M2, M18: a copy that gains a single hop, as over another path, costs nothing") func oneHop() throws {
        for isWaiting in [true, false] {
            var victim = try victim()
            let genuine = try frame(.line, in: victim)
            victim.receive(with(ttl: 5, genuine), from: 1)
            if !isWaiting { victim.run(for: .seconds(1)) }
            victim.receive(genuine, from: 0)
            victim.run(for: .seconds(1))
            #expect(relayed(genuine, by: victim).map(\.ttl) == [isWaiting ? 5 : 4])
            #expect(relayed(genuine, by: victim, on: 1).isEmpty)
        }
    }

    @Test("M18: a mark of a sync response is not relayed") func mark() throws {
        var victim = try victim()
        let genuine = try frame(.line, in: victim)
        var marked = genuine
        marked[11] |= 16
        victim.receive(marked, from: 1)
        victim.receive(genuine, from: 0)
        victim.run(for: .seconds(1))
        #expect(relayed(genuine, by: victim).map(\.isSyncResponse) == [false])
    }

    @Test("M18: a copy with a route to the attacker does not keep the genuine packet from others") func route() throws {
        var victim = try victim()
        let mallory = UntrustedPeer(seed: 2)
        victim.receive(try mallory.announcement("mallory", at: victim.now, capabilities: .supported), from: 1)
        try victim.answerChallenge(as: mallory, on: 1)
        var packet = MeshPacket(
            type: .noiseEncrypted, ttl: 6, timestamp: victim.now, sender: anna.id, recipient: PeerID(fitting: [9]), payload: [1]
        )
        let genuine = try packet.encoded(isPadded: true)
        packet.version = .v2
        packet.route = [victim.router.id, mallory.id]
        victim.receive(try packet.encoded(isPadded: true), from: 1)
        victim.receive(genuine, from: 0)
        victim.run(for: .seconds(1))
        #expect(relayed(genuine, by: victim).map(\.ttl) == [5])
    }

    @Test(
        "M18: lines reach the end of a row, although an attacker near each node is first with a spent copy",
        arguments: [0, 1, 3])
    func row(ttl: UInt8) throws {
        var mesh = SimulatedMesh(seed: 18)
        for number in 0..<7 { mesh.addNode("node \(number)") }
        for number in 1..<7 { mesh.connect(number - 1, number) }
        var settings = MeshRouter.Settings()
        settings.isRelaying = false
        let attacker = mesh.addNode("attacker", settings: settings)
        let ways = (2..<7).map { mesh.connect(attacker, $0) }
        mesh.run(for: .seconds(40))
        var passes: [String: Int] = [:]
        var line: [UInt8]?
        mesh.filter = { from, frame in
            if from == 0, frame.packetType == .message { line = frame }
            return [frame]
        }
        mesh.tap = { from, to, frame, _ in
            if frame.packetType == .message, from != attacker { passes["\(from) \(to)", default: 0] += 1 }
        }
        try mesh.node(0) { try $0.sendPublicMessage("all the way", now: $1) }
        let copy = with(ttl: ttl, try #require(line))
        for way in ways { mesh.inject(copy, on: way) }
        // Before any request for missed packets.
        mesh.run(for: .seconds(2))
        for node in 1..<7 { #expect(mesh.nodes[node].events.texts == ["all the way"], "node \(node)") }
        #expect(!passes.isEmpty && passes.values.allSatisfy { $0 <= 2 })
    }

    @Test(
        "M2, M18: an honest network sends hardly any packet twice over a link",
        arguments: [(1, 2), (2, 4), (3, 8)] as [(UInt64, Int)])
    func honest(seed: UInt64, degree: Int) throws {
        var mesh = SimulatedMesh(seed: seed)
        // Slow links and fast ones: copies over longer paths overtake others.
        mesh.delay = .milliseconds(1)...(.milliseconds(60))
        let count = 24
        var random = SeededRandom(seed: seed)
        for number in 0..<count { mesh.addNode("node \(number)") }
        var edges: Set<[Int]> = []
        for number in 1..<count { edges.insert([Int.random(in: max(0, number - 6)..<number, using: &random), number]) }
        while edges.count < count * degree / 2 { edges.insert((0..<count).shuffled(using: &random).prefix(2).sorted()) }
        for edge in edges.sorted(by: { $0.lexicographicallyPrecedes($1) }) { mesh.connect(edge[0], edge[1]) }
        var passes: [String: Int] = [:]
        mesh.tap = { from, to, frame, _ in
            guard let packet = try? MeshFrame(decoding: frame[...]).packet, packet.ttl > 0, packet.isPublic else { return }
            passes["\(from) \(to) \(MeshPacketID(of: packet))", default: 0] += 1
        }
        mesh.run(for: .seconds(40))
        for number in 0..<20 {
            try mesh.node(number) { try $0.sendPublicMessage("line \(number)", now: $1) }
            mesh.run(for: .seconds(1))
        }
        let repeated = passes.values.reduce(0) { $0 + $1 - 1 }
        #expect(passes.count > 1_000 && repeated * 100 < passes.count, "\(repeated) of \(passes.count)")
    }
}
