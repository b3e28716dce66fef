import NearshareBase
import NearshareDirect
import NearshareMesh
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Whole nodes on virtual time: their mesh and their direct links.
@Suite("simulated nodes") struct SimulatedNodeTests {
    /// Nodes in a row, each with a link to the next.
    private func row(_ names: [String], _ seed: UInt64, lossOneIn: Int = 0) throws -> SimulatedNodes {
        var nodes = SimulatedNodes(seed: seed)
        nodes.conditions.lossOneIn = lossOneIn
        for name in names { try nodes.addNode(name) }
        for number in 1..<names.count { nodes.connect(number - 1, number) }
        let areKnown = nodes.run(for: .seconds(120)) { nodes in
            nodes.nodes.allSatisfy { $0.process?.mesh.router.announcedPeers.count == names.count - 1 }
        }
        #expect(areKnown, "\(nodes.summary)")
        return nodes
    }

    /// Until its receipt arrives it is sent again, and receivers recognise it by its id.
    @Test("a private message crosses three hops that lose a tenth of all frames, and is acknowledged", arguments: seeds(0..<8))
    func privateMessage(seed: UInt64) throws {
        var nodes = try row(["Ada", "Bea", "Cleo", "Dan"], seed, lossOneIn: 10)
        let dan = nodes.id(3)
        try nodes.mesh(0) { try $0.sendPrivateMessage("hello", id: "A", to: dan, now: $1) }
        func isDelivered(_ nodes: SimulatedNodes) -> Bool {
            nodes.nodes[0].meshEvents.contains { if case .delivered("A", _) = $0 { true } else { false } }
        }
        let isDone = nodes.run(for: .seconds(60), until: isDelivered)
        #expect(isDone, "\(nodes.summary)")
        let received = nodes.nodes[3].meshEvents.compactMap { event -> [String]? in
            if case .privateMessage(_, let id, let text) = event { [id, text] } else { nil }
        }
        #expect(Set(received) == [["A", "hello"]], "\(nodes.summary)")
    }

    @Test("a node that leaves says so, and its neighbours forget it", arguments: seeds(0..<8))
    func leaving(seed: UInt64) throws {
        var nodes = try row(["Ada", "Bea", "Cleo"], seed)
        let bea = nodes.id(1)
        nodes.leave(1)
        #expect(nodes.nodes[1].process == nil, "\(nodes.summary)")
        nodes.run(for: .seconds(1))
        for number in [0, 2] {
            let isLost = nodes.nodes[number].meshEvents.contains { if case .peerLost(bea) = $0 { true } else { false } }
            #expect(isLost, "node \(number); \(nodes.summary)")
        }
    }

    @Test("a file goes over a direct link between nodes that talk in the mesh meanwhile", arguments: seeds(0..<8))
    func directLink(seed: UInt64) throws {
        var nodes = try row(["Ada", "Bea"], seed)
        let id = TransferID(rawValue: seed + 1)
        var random = SeededRandom(seed: seed &+ 1_000)
        let content = MemoryContent.random(using: &random, largest: 60_000)
        let (ada, bea) = nodes.connectDirectly(0, 1)
        let isEstablished = nodes.run(for: .seconds(5)) { $0.peers.allSatisfy(\.isEstablished) }
        #expect(isEstablished, "\(nodes.summary)")
        nodes.peer(ada) { $0.offer(id, content, now: $1) }
        let isInvited = nodes.run(for: .seconds(5)) { $0.peers[bea].invitations[id] != nil }
        #expect(isInvited, "\(nodes.summary)")
        nodes.peer(bea) { $0.accept(id, now: $1) }
        try nodes.send("meanwhile", from: 1, to: 0)
        let isDone = nodes.run(for: .seconds(60)) { nodes in
            nodes.peers.allSatisfy { $0.outcomes[id] == .completed } && nodes.texts(0) == ["meanwhile"]
        }
        #expect(isDone, "\(nodes.summary)")
        #expect(nodes.peers[bea].received[id]?.entries == content.entries, "\(nodes.summary)")
    }

    @Test("one seed is one story", arguments: [3, 4] as [UInt64])
    func replay(seed: UInt64) throws {
        func story() throws -> [String] {
            var nodes = try row(["Ada", "Bea", "Cleo"], seed, lossOneIn: 10)
            try nodes.send("once", from: 0, to: 2)
            nodes.run(for: .seconds(30))
            return nodes.nodes.map { "\($0.meshEvents) \($0.bundleEvents)" } + ["\(nodes.timeline.random.next())"]
        }
        let (first, second) = (try story(), try story())
        #expect(first == second, "seed \(seed)")
    }
}
