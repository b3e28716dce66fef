import NearshareBase
import NearshareMesh
import NearshareTesting
import Testing

/// The same file more than once: to several, from several, and again.
@Suite struct FileAgainTests {
    private let file = MeshFile(
        name: "a.bin", mediaType: "application/octet-stream", content: [UInt8](repeating: 7, count: 60_000)[...])

    /// Anna in the middle, between Ben and Cleo.
    private func three(seed: UInt64) -> SimulatedMesh {
        var mesh = SimulatedMesh(seed: seed)
        for name in ["anna", "ben", "cleo"] { mesh.addNode(name) }
        mesh.connect(0, 1)
        mesh.connect(0, 2)
        mesh.run(for: .seconds(1))
        return mesh
    }

    /// Accepts the files offered to a node, and confirms each as stored when it is complete.
    private func takeAll(_ node: Int, in mesh: inout SimulatedMesh, for limit: Duration) {
        let end = mesh.now + limit
        var (accepted, stored) = (0, 0)
        while mesh.now < end {
            mesh.run(for: end - mesh.now) {
                $0.nodes[node].events.offers.count > accepted || $0.nodes[node].events.files.count > stored
            }
            for offer in mesh.nodes[node].events.offers.dropFirst(accepted) {
                accepted += 1
                mesh.node(node) { $0.accept(offer, now: $1) }
            }
            for file in mesh.nodes[node].events.files.dropFirst(stored) {
                stored += 1
                mesh.node(node) { $0.confirmStored(MeshFileKey(file.id, with: file.sender), now: $1) }
            }
        }
    }

    @Test("A3: one file is sent to two peers at once, each decides independently") func toTwo() throws {
        var mesh = three(seed: 70)
        let (ben, cleo) = (mesh.nodes[1].router.id, mesh.nodes[2].router.id)
        var sent: [MeshFileKey] = []
        for peer in [ben, cleo] {
            try mesh.node(0) { sent.append(try $0.sendFile(file, to: peer, now: $1)) }
        }
        #expect(sent[0] != sent[1])
        mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty && !$0.nodes[2].events.offers.isEmpty }
        let offered = try #require(mesh.nodes[2].events.offers.first)
        mesh.node(2) { $0.decline(offered, because: .declined, now: $1) }
        takeAll(1, in: &mesh, for: .seconds(10))
        #expect(mesh.nodes[0].events.outcome(of: sent[0]) == .stored)
        #expect(mesh.nodes[0].events.outcome(of: sent[1]) == .declined(.declined))
        #expect(mesh.nodes[1].events.files.count == 1 && mesh.nodes[2].events.files.isEmpty)
    }

    @Test("A3, A4: two peers send the same file at once; cancelling one leaves the other") func fromTwo() throws {
        var mesh = three(seed: 71)
        let anna = mesh.nodes[0].router.id
        var sent: [MeshFileKey] = []
        for node in [1, 2] { try mesh.node(node) { sent.append(try $0.sendFile(file, to: anna, now: $1)) } }
        mesh.run(for: .seconds(5)) { $0.nodes[0].events.offers.count == 2 }
        #expect(Set(mesh.nodes[0].events.offers.map(\.peer)) == [mesh.nodes[1].router.id, mesh.nodes[2].router.id])
        mesh.node(2) { $0.cancelSending(sent[1], now: $1) }
        takeAll(0, in: &mesh, for: .seconds(10))
        #expect(mesh.nodes[1].events.outcomes == [.stored])
        #expect(mesh.nodes[2].events.outcomes == [.cancelledLocally])
        #expect(mesh.nodes[0].events.files.map(\.sender) == [mesh.nodes[1].router.id])
    }

    @Test("A3: a file that was sent before is asked for and sent again", arguments: [true, false]) func again(
        isStored: Bool
    ) throws {
        var mesh = three(seed: 72)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        if isStored {
            takeAll(1, in: &mesh, for: .seconds(10))
        } else {
            mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty }
            let offered = try #require(mesh.nodes[1].events.offers.first)
            mesh.node(1) { $0.decline(offered, because: .declined, now: $1) }
            mesh.run(for: .seconds(5))
        }
        #expect(mesh.nodes[0].events.outcomes == [isStored ? .stored : .declined(.declined)])
        mesh.nodes[0].events = []
        mesh.nodes[1].events = []
        let before = mesh.delivered[.fragment] ?? 0
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        takeAll(1, in: &mesh, for: .seconds(10))
        #expect(mesh.nodes[1].events.offers.count == 1 && mesh.nodes[1].events.files.count == 1)
        #expect((mesh.delivered[.fragment] ?? 0) - before >= 4)
        #expect(mesh.nodes[0].events.outcomes == [.stored])
    }

    @Test("a lost answer is sent again, and the user is asked once") func lostAnswer() throws {
        var mesh = three(seed: 73)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        mesh.run(for: .seconds(5)) { !$0.nodes[1].events.offers.isEmpty }
        let offered = try #require(mesh.nodes[1].events.offers.first)
        // For a while Ben's encrypted packets are lost.
        mesh.filter = { from, frame in from == 1 && frame.packetType == .noiseEncrypted ? [] : [frame] }
        mesh.node(1) { $0.decline(offered, because: .tooLarge, now: $1) }
        mesh.run(for: .seconds(3))
        #expect(mesh.nodes[0].events.outcomes.isEmpty)
        mesh.filter = nil
        mesh.run(for: .seconds(5))
        #expect(mesh.nodes[0].events.outcomes == [.declined(.tooLarge)])
        #expect(mesh.nodes[1].events.offers.count == 1)
    }

    @Test("A3: the same file to the same peer twice at once is rejected by the sender") func twiceAtOnce() throws {
        var mesh = three(seed: 74)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) }
        #expect(throws: MeshSendError.alreadyInProgress) { try mesh.node(0) { _ = try $0.sendFile(file, to: ben, now: $1) } }
        takeAll(1, in: &mesh, for: .seconds(10))
        #expect(mesh.nodes[0].events.outcomes == [.stored])
        #expect(mesh.nodes[1].events.files.count == 1)
    }
}
