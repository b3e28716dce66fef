import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct RouterStoryTests {
    private func pair(seed: UInt64, _ profile: MeshLinkProfile = .stream) -> SimulatedMesh {
        var mesh = SimulatedMesh(seed: seed)
        mesh.addNode("anna")
        mesh.addNode("ben")
        mesh.connect(0, 1, profile)
        mesh.run(for: .seconds(1))
        return mesh
    }

    @Test func `neighbours find each other`() {
        let mesh = pair(seed: 1)
        let ben = mesh.nodes[0].router.peer(mesh.nodes[1].router.id)
        #expect(ben?.name.claimed == "ben")
        #expect(ben?.isDirect == true)
        #expect(ben?.software == .nearshare)
    }

    /// Anna, Cleo and Ben in a row; the link of the two that are connected first lasts for some time, or begins at once.
    @Test("a peer behind a relay is known within 0.6 seconds, whichever link is there first", arguments: seeds(0..<20))
    func behindARelay(seed: UInt64) {
        for (first, pause) in [(0, 40.0), (0, 0.01), (1, 40), (1, 0.01)] {
            var mesh = SimulatedMesh(seed: seed)
            for name in ["anna", "cleo", "ben"] { mesh.addNode(name) }
            mesh.connect(first, first + 1)
            mesh.run(for: .seconds(pause))
            mesh.connect(1 - first, 2 - first)
            let ben = mesh.nodes[2].router.id
            mesh.run(for: .milliseconds(600)) { $0.nodes[0].router.peer(ben) != nil }
            #expect(mesh.nodes[0].router.peer(ben) != nil, "seed \(seed), link \(first) first, then after \(pause) s")
        }
    }

    @Test("R11: a peer behind a relay has the source of the link to the relay, until that is closed")
    func linkSource() throws {
        var mesh = SimulatedMesh(seed: 3)
        for name in ["anna", "cleo", "ben"] { mesh.addNode(name) }
        mesh.connect(0, 1, from: .address("10.0.0.1"))
        let link = mesh.connect(1, 2, from: .address("10.0.0.2"))
        mesh.run(for: .seconds(2))
        let (anna, ben) = (mesh.nodes[0].router.id, mesh.nodes[2].router.id)
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(20))
        #expect(mesh.nodes[0].router.linkShare(of: ben)?.source == .address("10.0.0.1"))
        #expect(mesh.nodes[2].router.linkShare(of: anna)?.source == .address("10.0.0.2"))
        mesh.cut(link)
        #expect(mesh.nodes[2].router.linkShare(of: anna)?.source == nil)
    }

    @Test func `a private message arrives once and is acknowledged`() throws {
        var mesh = pair(seed: 2)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(20))
        #expect(mesh.nodes[1].events.texts == ["hello"])
        #expect(mesh.nodes[0].events.contains { if case .delivered("A", _) = $0 { true } else { false } })
    }

    @Test("a private message counts as delivered once accepted, and is repeated until then")
    func deliveredOnceAccepted() throws {
        var mesh = pair(seed: 4)
        mesh.acceptsMessages = false
        let (anna, ben) = (mesh.nodes[0].router.id, mesh.nodes[1].router.id)
        func isDelivered() -> Bool { mesh.nodes[0].events.contains { if case .delivered("A", _) = $0 { true } else { false } } }
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(17))
        #expect(mesh.nodes[1].events.texts == ["hello", "hello", "hello"])
        #expect(!isDelivered())
        mesh.node(1) { $0.acknowledge("A", of: anna, now: $1) }
        mesh.run(for: .seconds(1))
        #expect(isDelivered())
        mesh.run(for: .seconds(30))
        #expect(mesh.nodes[1].events.texts.count == 3)
    }

    @Test("texts that overtake each other are received in order, and a lost one delays the next only a moment")
    func textOrder() throws {
        var mesh = pair(seed: 5)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: ben, now: $1) }
        mesh.run(for: .seconds(2))
        nonisolated(unsafe) var held: [UInt8]?
        mesh.filter = { from, frame in
            guard from == 0, frame.packetType == .noiseEncrypted else { return [frame] }
            var relayed = frame
            // The ttl: links alone change no order.
            relayed[2] -= 1
            defer { held = held == nil ? relayed : nil }
            return held.map { [relayed, $0] } ?? []
        }
        for text in ["first", "second"] {
            try mesh.node(0) { try $0.sendPrivateMessage(text, id: text, to: ben, now: $1) }
        }
        mesh.run(for: .milliseconds(200))
        #expect(mesh.nodes[1].events.texts == ["hello", "first", "second"])
        mesh.filter = { from, frame in from == 0 && frame.packetType == .noiseEncrypted ? [] : [frame] }
        try mesh.node(0) { try $0.sendPrivateMessage("lost", id: "lost", to: ben, now: $1) }
        mesh.filter = { from, frame in from == 0 ? [Array(frame[..<2]) + [frame[2] - 1] + frame[3...]] : [frame] }
        try mesh.node(0) { try $0.sendPrivateMessage("next", id: "next", to: ben, now: $1) }
        mesh.run(for: .milliseconds(600)) { $0.nodes[1].events.texts.count == 4 }
        #expect(mesh.nodes[1].events.texts.last == "next")
    }

    @Test func `two peers that begin a session at once have one session`() throws {
        var mesh = pair(seed: 3)
        let (anna, ben) = (mesh.nodes[0].router.id, mesh.nodes[1].router.id)
        try mesh.node(0) { try $0.sendPrivateMessage("from anna", id: "A", to: ben, now: $1) }
        try mesh.node(1) { try $0.sendPrivateMessage("from ben", id: "B", to: anna, now: $1) }
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[0].events.texts == ["from ben"])
        #expect(mesh.nodes[1].events.texts == ["from anna"])
    }

    /// Sends a file from the first node to the last, which accepts; runs until it has ended.
    private func send(_ count: Int, in mesh: inout SimulatedMesh, to receiver: Int, within limit: Duration) throws {
        let recipient = mesh.nodes[receiver].router.id
        var random = SeededRandom(seed: 99)
        let file = MeshFile(name: "a.bin", mediaType: "application/octet-stream", content: random.bytes(count)[...])
        try mesh.node(0) { _ = try $0.sendFile(file, to: recipient, now: $1) }
        mesh.run(for: limit) { mesh in !mesh.nodes[receiver].events.offers.isEmpty }
        let offer = try #require(mesh.nodes[receiver].events.offers.first)
        mesh.node(receiver) { $0.accept(offer, now: $1) }
        mesh.run(for: limit) { mesh in !mesh.nodes[receiver].events.files.isEmpty || !mesh.nodes[0].events.outcomes.isEmpty }
        if let received = mesh.nodes[receiver].events.files.first {
            // Not the file itself, which a failure would print.
            let isEqual = received.file.content == file.content && received.file.name == file.name
            #expect(isEqual)
            let wasAccepted = received.wasAccepted
            #expect(wasAccepted)
            mesh.node(receiver) { $0.confirmStored(MeshFileKey(received.id, with: received.sender), now: $1) }
        }
        mesh.run(for: limit) { mesh in !mesh.nodes[0].events.outcomes.isEmpty }
    }

    @Test func `a file is sent at the pace of the link and is confirmed`() throws {
        var mesh = pair(seed: 4)
        mesh.delay = .zero ... .zero
        nonisolated(unsafe) var times: [MonotonicInstant] = []
        mesh.tap = { _, _, frame, at in if frame.packetType == .fragment { times.append(at) } }
        try send(1_000_000, in: &mesh, to: 1, within: .seconds(60))
        #expect(mesh.nodes[0].events.outcomes == [.stored])
        let took = (times.last! - times.first!).inSeconds
        let expected = Double(times.count - 1) * 0.02
        #expect(times.count == 62)
        #expect(abs(took - expected) <= expected * 0.05, "\(took) instead of \(expected)")
    }

    @Test func `the largest file arrives`() throws {
        var mesh = pair(seed: 5)
        try send(MeshFile.maximumContentByteCount, in: &mesh, to: 1, within: .seconds(60))
        #expect(mesh.nodes[0].events.outcomes == [.stored])
    }

    @Test(arguments: seeds(20..<28)) func `a file arrives over three hops that lose packets`(seed: UInt64) throws {
        var mesh = SimulatedMesh(seed: seed)
        for name in ["anna", "ben", "cleo", "dora"] { mesh.addNode(name) }
        for index in 0..<3 { mesh.connect(index, index + 1, .radio) }
        mesh.run(for: .seconds(2))
        mesh.lossOneIn = 10
        mesh.run(for: .seconds(40)) { $0.nodes[0].router.peer($0.nodes[3].router.id) != nil }
        try send(60_000, in: &mesh, to: 3, within: .seconds(240))
        #expect(mesh.nodes[0].events.outcomes == [.stored], "seed \(seed)")
    }

    @Test func `a peer needs a Bluetooth hop where no other link leads to it`() throws {
        var mesh = SimulatedMesh(seed: 16)
        for name in ["anna", "ben", "cleo", "dora", "emil"] { mesh.addNode(name) }
        for other in [1, 2] { mesh.connect(0, other, .radio) }
        mesh.connect(0, 2, .stream)
        mesh.connect(1, 3, .stream)
        mesh.connect(3, 4, .radio)
        mesh.run(for: .seconds(40)) { mesh in
            (0..<5).allSatisfy { $0 == 0 || mesh.nodes[0].router.peer(mesh.nodes[$0].router.id) != nil }
        }
        let (anna, ids) = (mesh.nodes[0].router, mesh.nodes.map(\.router.id))
        #expect([1, 2, 3].map { anna.needsRadio(to: ids[$0]) } == [true, false, false])
        let emil = mesh.nodes[4].router
        #expect([0, 3].map { emil.needsRadio(to: ids[$0]) } == [true, true])
        #expect(!anna.needsRadio(to: PeerID(bytes: [9, 9, 9, 9, 9, 9, 9, 9])!))
    }

    @Test func `a file for everyone has a type that phones accept`() throws {
        var mesh = pair(seed: 15)
        for (type, content) in [("text/plain", [1, 2, 3]), ("Image/JPEG", [0xff, 0xd8, 0xff, 0])] as [(String, [UInt8])] {
            let file = MeshFile(name: "a", mediaType: type, content: content[...])
            #expect(try mesh.nodes[0].router.plan(file, to: nil).fragments == 1)
            try mesh.node(0) { _ = try $0.sendFile(file, to: nil, now: $1) }
        }
        mesh.run(for: .seconds(5)) { $0.nodes[1].events.files.count == 2 }
        #expect(mesh.nodes[1].events.files.map(\.file.mediaType) == ["application/octet-stream", "image/jpeg"])
        #expect(mesh.nodes[0].events.outcomes == [.sent, .sent])
    }

    @Test("A1: a file that was not accepted is not stored") func declining() throws {
        var mesh = pair(seed: 9)
        let ben = mesh.nodes[1].router.id
        let file = MeshFile(name: "a", mediaType: "text/plain", content: [1, 2, 3])
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty }
        let id = try #require(mesh.nodes[1].events.offers.first)
        mesh.node(1) { $0.decline(id, because: .declined, now: $1) }
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[0].events.outcomes == [.declined(.declined)])
        #expect(mesh.delivered[.fragment] == nil)
        #expect(mesh.nodes[1].events.files.isEmpty)
    }

    @Test("A8: cancelling ends the transfer on both sides, before the next fragment", arguments: [0, 1]) func cancelling(
        by canceller: Int
    )
        throws
    {
        var mesh = pair(seed: 10)
        let ben = mesh.nodes[1].router.id
        let file = MeshFile(name: "a", mediaType: "text/plain", content: [UInt8](repeating: 7, count: 2_000_000)[...])
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty }
        let id = try #require(mesh.nodes[1].events.offers.first)
        mesh.node(1) { $0.accept(id, now: $1) }
        mesh.run(for: .milliseconds(500))
        let before = mesh.delivered[.fragment] ?? 0
        #expect(before > 5)
        if canceller == 0 {
            mesh.node(0) { $0.cancelSending(MeshFileKey(id.file, with: ben), now: $1) }
        } else {
            mesh.node(1) { $0.cancelReceiving(id, now: $1) }
        }
        mesh.run(for: .seconds(5))
        #expect((mesh.delivered[.fragment] ?? 0) <= before + 1)
        #expect(mesh.nodes[0].events.outcomes == [canceller == 0 ? .cancelledLocally : .cancelledByPeer])
        #expect(mesh.nodes[1].events.contains { if case .fileReceiveEnded = $0 { true } else { false } })
        #expect(mesh.nodes[1].events.files.isEmpty)
    }

    @Test("A8: an offer that is withdrawn because it was not answered has expired at both ends", arguments: [false, true])
    func withdrawal(isExpired: Bool) throws {
        var mesh = pair(seed: 12)
        let ben = mesh.nodes[1].router.id
        let file = MeshFile(name: "a", mediaType: "text/plain", content: [1, 2, 3])
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty }
        let id = try #require(mesh.nodes[1].events.offers.first)
        mesh.node(0) { $0.cancelSending(MeshFileKey(id.file, with: ben), isExpired: isExpired, now: $1) }
        mesh.run(for: .seconds(5))
        let expected: MeshFileOutcome = isExpired ? .declined(.expired) : .cancelledByPeer
        #expect(mesh.nodes[1].events.contains { if case .fileReceiveEnded(id, expected) = $0 { true } else { false } })
    }

    @Test func `messages overtake a file, and two files both advance`() throws {
        var mesh = pair(seed: 11, .radio)
        let ben = mesh.nodes[1].router.id
        var ids: [MeshFileKey] = []
        for number in 0..<2 {
            let content = [UInt8](repeating: UInt8(number), count: 40_000)[...]
            try mesh.node(0) {
                ids.append(try $0.sendFile(MeshFile(name: "f\(number)", mediaType: "a/b", content: content), to: ben, now: $1))
            }
        }
        mesh.run(for: .seconds(5)) { $0.nodes[1].events.offers.count == 2 }
        for id in mesh.nodes[1].events.offers { mesh.node(1) { $0.accept(id, now: $1) } }
        mesh.run(for: .seconds(1))
        try mesh.node(0) { try $0.sendPrivateMessage("quick", id: "Q", to: ben, now: $1) }
        let asked = mesh.now
        mesh.run(for: .seconds(10)) { !$0.nodes[1].events.texts.isEmpty }
        #expect((mesh.now - asked) < .milliseconds(100))
        let sent = ids.map { id in
            mesh.nodes[0].events.compactMap { if case .fragmentsSent(id, let sent, _) = $0 { sent } else { nil } }.last ?? 0
        }
        // The first one has begun a fragment earlier, and may be at its turn.
        #expect(abs(sent[0] - sent[1]) <= 2 && sent[0] > 10, "\(sent)")
    }

    @Test func `a message is relayed through a node in the middle`() throws {
        var mesh = SimulatedMesh(seed: 12)
        for name in ["anna", "ben", "cleo"] { mesh.addNode(name) }
        mesh.connect(0, 1)
        mesh.connect(1, 2)
        mesh.run(for: .seconds(2))
        let cleo = mesh.nodes[2].router.id
        #expect(mesh.nodes[0].router.peer(cleo)?.isDirect == false)
        try mesh.node(0) { try $0.sendPrivateMessage("hello", id: "A", to: cleo, now: $1) }
        try mesh.node(0) { try $0.sendPublicMessage("to all", now: $1) }
        mesh.run(for: .seconds(5))
        #expect(Set(mesh.nodes[2].events.texts) == ["hello", "to all"])
        #expect(mesh.nodes[1].events.texts == ["to all"])
    }

    @Test func `a node that joins late receives earlier public messages`() throws {
        var mesh = pair(seed: 13)
        try mesh.node(0) { try $0.sendPublicMessage("early", now: $1) }
        mesh.run(for: .seconds(300))
        mesh.addNode("cleo")
        mesh.connect(1, 2)
        mesh.run(for: .seconds(60))
        #expect(mesh.nodes[2].events.texts == ["early"])
    }

    @Test func `a node that leaves is gone for its neighbours`() {
        var mesh = pair(seed: 14)
        let anna = mesh.nodes[0].router.id
        mesh.node(0) { $0.leave(now: $1) }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[1].router.peer(anna) == nil)
    }
}

/// Several links between the same two.
@Suite struct ParallelLinkTests {
    @Test("a frame uses the best proven link, and another when that one has broken") func oneOfThem() throws {
        var mesh = SimulatedMesh(seed: 7)
        let (ada, bea) = (mesh.addNode("Ada"), mesh.addNode("Bea"))
        let stream = mesh.connect(ada, bea, .stream)
        mesh.run(for: .seconds(2))
        // An encrypted packet proves the route to its sender; before that all links are used, because any peer can claim to be
        // near.
        let (beaID, adaID) = (mesh.nodes[bea].router.id, mesh.nodes[ada].router.id)
        try mesh.node(ada) { router, now in try router.sendPrivateMessage("are you there?", id: "A", to: beaID, now: now) }
        mesh.run(for: .seconds(5))
        try mesh.node(bea) { router, now in try router.sendPrivateMessage("yes", id: "B", to: adaID, now: now) }
        mesh.run(for: .seconds(5))
        mesh.connect(ada, bea, .radio)
        mesh.connect(ada, bea, .radio)
        mesh.run(for: .seconds(2))
        let before = mesh.delivered[.message, default: 0]
        try mesh.node(ada) { router, now in _ = try router.sendPublicMessage("one", now: now) }
        mesh.run(for: .seconds(2))
        #expect(mesh.delivered[.message, default: 0] - before == 1)
        mesh.cut(stream)
        try mesh.node(ada) { router, now in _ = try router.sendPublicMessage("two", now: now) }
        mesh.run(for: .seconds(2))
        // Nothing has proven the radio links yet.
        #expect(mesh.delivered[.message, default: 0] - before == 3)
        try mesh.node(bea) { router, now in try router.sendPrivateMessage("still there?", id: "C", to: adaID, now: now) }
        mesh.run(for: .seconds(5))
        try mesh.node(ada) { router, now in _ = try router.sendPublicMessage("three", now: now) }
        mesh.run(for: .seconds(2))
        #expect(mesh.delivered[.message, default: 0] - before == 4)
        #expect(mesh.nodes[bea].events.texts == ["are you there?", "one", "two", "three"])
    }

    @Test("a file fragmented for a stream continues over the radio when the stream breaks") func recut() throws {
        var mesh = SimulatedMesh(seed: 8)
        let (ada, bea) = (mesh.addNode("Ada"), mesh.addNode("Bea"))
        mesh.connect(ada, bea, .radio)
        let stream = mesh.connect(ada, bea, .stream)
        mesh.run(for: .seconds(2))
        let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let recipient = mesh.nodes[bea].router.id
        try mesh.node(ada) { router, now in
            let file = MeshFile(name: "a", mediaType: "application/octet-stream", content: content[...])
            _ = try router.sendFile(file, to: recipient, now: now)
        }
        mesh.run(for: .seconds(20)) { !$0.nodes[bea].events.offers.isEmpty }
        let offer = try #require(mesh.nodes[bea].events.offers.first)
        mesh.node(bea) { $0.accept(offer, now: $1) }
        let before = mesh.delivered[.fragment, default: 0]
        mesh.run(for: .seconds(20)) { $0.delivered[.fragment, default: 0] - before >= 3 }
        mesh.cut(stream)
        mesh.run(for: .seconds(120)) { !$0.nodes[bea].events.files.isEmpty }
        #expect(mesh.nodes[bea].events.files.first?.file.content.elementsEqual(content) == true)
    }
}
