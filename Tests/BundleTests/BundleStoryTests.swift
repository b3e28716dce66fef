import NearshareBase
import NearshareBundles
import NearshareTesting
import Testing

@Suite("bundles between nodes")
struct CarryStoryTests {
    @Test("a bundle waits at its sender until the destination is in range, and is acknowledged")
    func waitsAtTheSender() {
        var network = BundleNetwork(2)
        let id = network.send("hello", from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.nodes[0].events.isEmpty)
        network.connect(0, 1)
        network.run(.seconds(5))
        #expect(network.texts(1) == ["hello"])
        // The acknowledgement overtakes the receipt.
        #expect(network.nodes[0].events == [.delivered(id)])
        #expect(network.nodes[0].store.isEmpty)
    }

    @Test("a sends to C through B while C is away; A leaves, B is killed and restarted, C returns: it receives the bundle once")
    func overAThird() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.run(.seconds(5))
        network.send("for later", from: 0, to: 2)
        network.run(.seconds(60))
        network.cut(0, 1)
        network.kill(1)
        network.run(.seconds(600))
        network.start(1)
        network.connect(1, 2)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["for later"])
        #expect(network.texts(1).isEmpty)
        // The acknowledgement is routed back to A; B stores nothing else.
        network.cut(1, 2)
        network.connect(0, 1)
        network.run(.seconds(60))
        #expect(network.nodes[0].events.contains { if case .delivered = $0 { true } else { false } })
    }

    @Test("a broadcast reaches every node once, with one copy for each receiver")
    func broadcast() {
        var network = BundleNetwork(12)
        // A ring with chords.
        for node in 0..<12 {
            network.connect(node, (node + 1) % 12)
            network.connect(node, (node + 4) % 12)
        }
        network.run(.seconds(150))
        let id = network.send("to all", from: 3, to: nil)
        network.run(.seconds(150))
        for node in 0..<12 where node != 3 { #expect(network.texts(node) == ["to all"], "node \(node)") }
        #expect(network.copies[id] == 11)
    }

    @Test(
        "a broadcast that is sent while a node joins the tree reaches it soon",
        arguments: seeds(1...8))
    func broadcastMeanwhile(seed: UInt64) {
        for delay in stride(from: 0, through: 500, by: 50) {
            var network = BundleNetwork(3, seed: seed)
            network.connect(0, 1)
            network.run(.seconds(1))
            network.connect(1, 2)
            network.run(.milliseconds(delay))
            network.send("to all", from: 0, to: nil)
            network.run(.seconds(10))
            #expect(network.texts(2) == ["to all"], "\(delay) ms later")
        }
    }

    @Test("a bundle for a distant node takes the shortest path, and so does its acknowledgement")
    func routed() {
        var network = BundleNetwork(10)
        for node in 0..<9 { network.connect(node, node + 1) }
        network.run(.seconds(200))
        let id = network.send("far", from: 0, to: 9)
        network.run(.seconds(10))
        #expect(network.texts(9) == ["far"])
        #expect(network.nodes[0].events.contains(.delivered(id)))
        #expect(network.copies[id] == 9)
        for node in 0..<9 { #expect(network.nodes[node].store.isEmpty, "node \(node)") }
    }

    @Test("over links that lose a fifth of all packets every bundle arrives once", arguments: seeds(1...4))
    func loss(seed: UInt64) {
        var network = BundleNetwork(8, seed: seed)
        network.lossOneIn = 5
        for node in 0..<7 { network.connect(node, node + 1) }
        network.connect(0, 4)
        network.run(.seconds(100))
        for number in 0..<5 { network.send("\(number)", from: number, to: 7) }
        network.send("all", from: 2, to: nil)
        network.run(.seconds(400))
        #expect(network.texts(7).sorted() == ["0", "1", "2", "3", "4", "all"], "seed \(seed)")
        for node in 0..<7 where node != 2 { #expect(network.texts(node) == ["all"], "seed \(seed), node \(node)") }
        for number in 0..<5 {
            #expect(network.nodes[number].events.count { if case .delivered = $0 { true } else { false } } == 1, "seed \(seed)")
        }
    }

    @Test("when the root of the tree disappears, another node becomes root, and bundles are delivered")
    func rootGone() {
        var network = BundleNetwork(6)
        let root = (0..<6).min { network.address($0).rawValue < network.address($1).rawValue }!
        for a in 0..<6 {
            for b in 0..<a where (a + b) % 2 == 1 || a - b == 2 { network.connect(a, b) }
        }
        network.run(.seconds(130))
        network.kill(root)
        let others = (0..<6).filter { $0 != root }
        network.send("still there", from: others[0], to: others[4])
        network.run(.seconds(60))
        #expect(network.texts(others[4]) == ["still there"])
        network.run(.seconds(300))
        network.send("and now", from: others[1], to: others[3])
        network.run(.seconds(5))
        #expect(network.texts(others[3]) == ["and now"])
    }

    @Test("a direct bundle is forwarded to its destination alone, and fails when the destination leaves")
    func direct() throws {
        var network = BundleNetwork(3)
        let message = network.outgoing("you only", from: 0, to: 1)
        #expect(throws: BundleRejection.notInRange) {
            try network.sendDirect(message, from: 0, to: 1)
        }
        network.connect(0, 1)
        network.connect(0, 2)
        try network.sendDirect(message, from: 0, to: 1)
        network.run(.seconds(5))
        #expect(network.texts(1) == ["you only"])
        #expect(network.nodes[2].store.isEmpty)
        // The acknowledgement overtakes the receipt.
        #expect(network.nodes[0].events == [.delivered(message.id)])

        network.tamper = { packet, _, _ in if case .copy = packet { nil } else { packet } }
        let lost = network.outgoing("never comes", from: 0, to: 1)
        try network.sendDirect(lost, from: 0, to: 1)
        network.run(.seconds(5))
        network.cut(0, 1)
        #expect(network.nodes[0].events.last == .expired(lost.id))
    }

    @Test("a stored bundle that was sent in a session is direct, so that a new process does not rely on it")
    func oneHop() throws {
        let profile = try PropagationProfile(
            hopLimit: 1, timeToLiveSeconds: 60, sharingTimeMilliseconds: 1_000, maximumPropagation: 1, tracklistLimit: 0)
        var network = BundleNetwork(2)
        network.connect(0, 1)
        network.run(.seconds(5))
        network.tamper = { packet, _, _ in if case .copy = packet { nil } else { packet } }
        let direct = network.outgoing("in the session", from: 0, to: 1, isSealed: false, profile: profile)
        try network.sendDirect(direct, from: 0, to: 1)
        let oneHop = network.send("to a neighbour", from: 0, to: 1, profile: profile)
        let carried = network.send("to any place", from: 0, to: 1)
        let router = try #require(network.nodes[0].router)
        #expect(router.isDirect(direct.id) && !router.isDirect(oneHop) && !router.isDirect(carried))
        network.run(.seconds(100))
        #expect(network.nodes[0].router?.isDirect(direct.id) == false)
    }

    @Test("a bundle that is not delivered expires, and its sender learns of it")
    func expires() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        let id = network.send("too late", from: 0, to: 2, profile: .shortReach)
        network.run(.seconds(1_900))
        #expect(network.nodes[0].events == [.sent(id), .expired(id)])
        #expect(network.nodes[0].store.isEmpty && network.nodes[1].store.isEmpty)
        network.connect(1, 2)
        network.run(.seconds(100))
        #expect(network.texts(2).isEmpty)
    }

    @Test("large bundles wait for a link that is no radio")
    func radio() {
        var network = BundleNetwork(3)
        network.connect(0, 1, isRadio: true)
        network.send(String(repeating: "x", count: 2_000), from: 0, to: 1)
        network.send("short", from: 0, to: 1)
        network.run(.seconds(100))
        #expect(network.texts(1) == ["short"])
        network.connect(0, 2)
        network.connect(2, 1)
        network.run(.seconds(100))
        #expect(network.texts(1).count == 2)
    }

    @Test("large bundles leave when a neighbour that was reached by radio is reached by a stream, and not the other way round")
    func relinked() {
        var network = BundleNetwork(2)
        network.connect(0, 1, isRadio: true)
        network.send(String(repeating: "x", count: 2_000), from: 0, to: 1)
        network.run(.seconds(100))
        #expect(network.texts(1).isEmpty)
        network.relink(0, 1, isRadio: false)
        network.run(.seconds(10))
        #expect(network.texts(1).count == 1)
        network.relink(0, 1, isRadio: true)
        network.send(String(repeating: "y", count: 2_000), from: 0, to: 1)
        network.send("short", from: 0, to: 1)
        network.run(.seconds(100))
        #expect(network.texts(1).count == 2 && network.texts(1).last == "short")
    }

    @Test("a node that does not forward still sends and receives its own bundles")
    func carriesNothing() {
        var settings = BundleRouterSettings()
        settings.isForwarding = false
        var network = BundleNetwork(3, settings: settings)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        network.send("past you", from: 0, to: 2)
        network.send("for you", from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.texts(1) == ["for you"] && network.texts(2).isEmpty)
        #expect(network.nodes[1].store.values.allSatisfy { $0.previousNode == nil })
    }

    @Test("B7: an own message for everyone that comes back after the store was restored is forwarded, and not shown")
    func ownMessageComesBack() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.send("to all", from: 0, to: nil)
        network.run(.seconds(60))
        for _ in 0..<2 {
            network.kill(0)
            network.nodes[0].store = [:]
            network.start(0)
            network.run(.seconds(60))
            #expect(network.texts(0).isEmpty)
        }
        network.cut(0, 1)
        network.nodes[0].delivered = []
        network.kill(0)
        network.start(0)
        network.connect(0, 1)
        network.connect(0, 2)
        network.run(.seconds(120))
        #expect(network.texts(0).isEmpty && network.texts(1) == ["to all"] && network.texts(2) == ["to all"])
    }

    /// The bundles of a node that it has reported as created while its clock was ahead.
    private func ahead(_ network: BundleNetwork, _ node: Int) -> [BundleID] {
        network.nodes[node].events.flatMap { event -> [BundleID] in
            if case .createdAhead(let ids) = event { ids } else { [] }
        }
    }

    @Test("what was created while the clock was ahead is reported once, is not forwarded, and leaves when its time comes")
    func createdAhead() {
        var network = BundleNetwork(2)
        network.clockOffsets[0] = .seconds(3_600)
        let ids = ["one", "two"].map { text -> BundleID in
            network.run(.seconds(1))
            return network.send(text, from: 0, to: 1)
        }
        network.clockOffsets[0] = nil
        // A clock that is behind has no neighbour: its times of creation are not reported.
        network.run(.seconds(120))
        #expect(ahead(network, 0).isEmpty)
        network.connect(0, 1)
        network.run(.seconds(120))
        #expect(ahead(network, 0) == ids && network.texts(1).isEmpty)
        let copyCount = ids.reduce(0) { $0 + network.copies[$1, default: 0] }
        #expect(network.nodes[1].events.isEmpty && copyCount == 0)
        network.kill(0)
        network.start(0)
        network.run(.seconds(120))
        #expect(ahead(network, 0) == ids + ids && network.nodes[1].events.isEmpty)
        network.run(.seconds(3_600))
        #expect(network.texts(1).sorted() == ["one", "two"])
    }

    @Test("a clock that is set back while the node runs is noticed")
    func setBack() {
        var network = BundleNetwork(3)
        network.clockOffsets = [0: .seconds(3_600), 1: .seconds(3_600)]
        network.connect(0, 1)
        let id = network.send("early", from: 0, to: 2)
        network.run(.seconds(60))
        network.clockOffsets = [:]
        network.run(.seconds(120))
        // A neighbour does not change what it carries for others.
        #expect(ahead(network, 0) == [id] && ahead(network, 1).isEmpty)
    }

    @Test("a clock that is set back is not believed before a neighbour has the same time")
    func setBackWrongly() {
        var network = BundleNetwork(3)
        network.clockOffsets = [0: .seconds(3_600), 1: .seconds(3_600)]
        network.connect(0, 1)
        let id = network.send("on time", from: 0, to: 2)
        network.run(.seconds(60))
        network.clockOffsets[0] = nil
        // The mesh accepts no packet from a node whose clock differs.
        network.tamper = { _, _, _ in nil }
        network.run(.seconds(120))
        #expect(ahead(network, 0).isEmpty)
        network.clockOffsets[0] = .seconds(3_600)
        network.tamper = nil
        network.run(.seconds(120))
        #expect(ahead(network, 0).isEmpty)
        network.clockOffsets = [:]
        network.run(.seconds(120))
        #expect(ahead(network, 0) == [id])
    }

    @Test("a clock that is set back by less than the last sleep is not believed either")
    func setBackInSleep() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.run(.seconds(60))
        network.tamper = { _, _, _ in nil }
        // The monotonic clock stops in a sleep of eight hours.
        network.clockOffsets[0] = .seconds(8 * 3_600)
        let id = network.send("after the sleep", from: 0, to: 2)
        network.clockOffsets[0] = .seconds(7 * 3_600)
        network.run(.seconds(120))
        #expect(ahead(network, 0).isEmpty)
        network.tamper = nil
        network.clockOffsets[1] = .seconds(7 * 3_600)
        network.run(.seconds(300))
        #expect(ahead(network, 0) == [id])
    }

    @Test("a readable bundle and an acknowledgement get another time of creation, and a sealed bundle does not")
    func redated() throws {
        var network = BundleNetwork(2)
        network.connect(0, 1)
        network.run(.seconds(60))
        // The clock of the receiver is ahead: its acknowledgement is refused.
        network.clockOffsets[1] = .seconds(3_600)
        let id = network.send("hello", from: 0, to: 1)
        network.run(.seconds(10))
        #expect(network.texts(1) == ["hello"] && !network.nodes[0].events.contains(.delivered(id)))
        let sealed = network.send("sealed", from: 1, to: 0)
        let readable = network.send("to all", from: 1, to: nil)
        network.run(.seconds(10))
        #expect(network.texts(0).isEmpty)
        network.clockOffsets[1] = nil
        network.run(.seconds(120))
        let early = ahead(network, 1)
        #expect(early.count == 3 && early.contains(sealed) && early.contains(readable))
        let renewed = try early.compactMap { old -> BundleID? in
            let copy = try #require(network.nodes[1].store[old]?.copy)
            return network.redate(copy, of: 1)
        }
        #expect(renewed.count == 2 && network.nodes[1].store[sealed] != nil && network.nodes[1].store[readable] == nil)
        network.run(.seconds(120))
        #expect(network.texts(0) == ["to all"] && network.nodes[0].events.contains(.delivered(id)))
    }

    @Test("B12: a private bundle names neither its sender nor its destination, and is delivered")
    func privacy() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        let known = Set([0, 2].map { network.address($0) })
        let staticKeys = network.nodes.map(\.keys.publicKeys.signingKey.bytes)
        var copies: [BundleCopy] = []
        network.tamper = { packet, _, _ in
            if case .copy(let copy) = packet { copies.append(copy) }
            return packet
        }
        network.send("secret", from: 0, to: 2, isPrivate: true)
        network.send("secret", from: 0, to: 2, isPrivate: true)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["secret", "secret"])
        #expect(network.texts(1).isEmpty)
        #expect(network.nodes[0].events.count { if case .delivered = $0 { true } else { false } } == 2)
        #expect(copies.count >= 8)
        for copy in copies {
            #expect(!known.contains(copy.bundle.source) && !staticKeys.contains(copy.bundle.senderKey))
            if case .endpoint(let receiver) = copy.bundle.destination { #expect(!known.contains(receiver)) }
        }
        // Two bundles of one sender have nothing in common.
        let messages = Set(copies.map(\.bundle)).filter { $0.kind == .sealed }
        #expect(messages.count == 2 && Set(messages.map(\.senderKey)).count == 2)
    }
}
