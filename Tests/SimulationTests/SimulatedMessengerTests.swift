import NearshareBase
import NearshareBundles
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Messages that nodes store and forward, on virtual time. The stores outlive the nodes.
@Suite("simulated messenger") struct SimulatedMessengerTests {
    private func kinds(_ store: InMemoryBundleStore) -> [Bundle.Kind] {
        store.bundles().compactMap { (try? BundleCopy(decoding: $0.copy[...]))?.bundle.kind }
    }

    @Test(
        "a message from A to C, who is away: B carries it and is restarted, A leaves, C comes and receives it once, and A learns of it",
        arguments: seeds(0..<8), [0, 10])
    func carried(seed: UInt64, lossOneIn: Int) throws {
        var nodes = SimulatedNodes(seed: seed)
        nodes.conditions.lossOneIn = lossOneIn
        let (ada, bea, cleo) = (try nodes.addNode("Ada"), try nodes.addNode("Bea"), try nodes.addNode("Cleo"))
        nodes.connect(ada, bea)
        let id = try nodes.send("for later", from: ada, to: cleo)
        let isCarried = nodes.run(for: .seconds(120)) { $0.nodes[ada].bundleEvents.contains(.sent(id)) }
        #expect(isCarried && nodes.nodes[bea].store.contains(id), "\(nodes.summary)")

        nodes.leave(ada)
        nodes.run(for: .seconds(1))
        nodes.kill(bea)
        try nodes.start(bea)
        let meeting = nodes.connect(bea, cleo)
        // The acknowledgement is carried in place of the message.
        let isAcknowledged = nodes.run(for: .seconds(360)) { nodes in
            !nodes.texts(cleo).isEmpty && kinds(nodes.nodes[bea].store) == [.acknowledgement]
        }
        #expect(isAcknowledged, "\(nodes.summary)")

        try nodes.start(ada)
        if let meeting { nodes.cut(meeting) }
        nodes.connect(ada, bea)
        let isDelivered = nodes.run(for: .seconds(360)) { $0.nodes[ada].bundleEvents.contains(.delivered(id)) }
        #expect(isDelivered, "\(nodes.summary)")
        nodes.run(for: .seconds(60))
        #expect(nodes.texts(cleo) == ["for later"], "\(nodes.summary)")
        #expect(nodes.nodes.allSatisfy { $0.rejections.isEmpty }, "\(nodes.summary)")
    }

    @Test("in a ring that loses a tenth of all frames, every message arrives once and is acknowledged", arguments: seeds(0..<8))
    func ring(seed: UInt64) throws {
        var nodes = SimulatedNodes(seed: seed)
        nodes.conditions.lossOneIn = 10
        for number in 0..<5 { try nodes.addNode("node \(number)") }
        for number in 0..<5 { nodes.connect(number, (number + 1) % 5) }
        nodes.run(for: .seconds(60))
        var ids: [BundleID] = []
        for sender in 0..<5 { ids.append(try nodes.send("from \(sender)", from: sender, to: (sender + 2) % 5)) }
        try nodes.send("to all", from: 0, to: nil)
        let areDelivered = nodes.run(for: .seconds(600)) { nodes in
            (0..<5).allSatisfy { nodes.nodes[$0].bundleEvents.contains(.delivered(ids[$0])) }
                && (1..<5).allSatisfy { nodes.texts($0).contains("to all") }
        }
        #expect(areDelivered, "\(nodes.summary)")
        for receiver in 0..<5 {
            let expected = ["from \((receiver + 3) % 5)"] + (receiver == 0 ? [] : ["to all"])
            #expect(nodes.texts(receiver).sorted() == expected.sorted(), "node \(receiver); \(nodes.summary)")
        }
    }

    @Test(
        "in a line that loses a tenth of all frames, what waits for a node that restarts arrives once", arguments: seeds(0..<8))
    func restarted(seed: UInt64) throws {
        var nodes = SimulatedNodes(seed: seed)
        nodes.conditions.lossOneIn = 10
        for number in 0..<4 { try nodes.addNode("node \(number)") }
        var links = (1..<4).map { nodes.connect($0 - 1, $0) }
        nodes.run(for: .seconds(60))
        nodes.kill(3)
        let id = try nodes.send("for later", from: 0, to: 3)
        nodes.run(for: .seconds(90))
        try nodes.start(3)
        links.append(nodes.connect(2, 3))
        let isDelivered = nodes.run(for: .seconds(360)) { $0.nodes[0].bundleEvents.contains(.delivered(id)) }
        #expect(isDelivered && nodes.texts(3) == ["for later"], "\(nodes.summary)")
    }
}
