import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Attacks on file transfers by a peer with a session, with valid packets and false content.
@Suite struct FileAttackTests {
    private static let real = MeshFile(name: "run.sh", mediaType: "text/plain", content: [1, 2, 3])
    private static let realID = MeshFileControl.FileID(ofEncoded: try! real.encoded()[...])

    /// Mallory, Ben and Cleo, with sessions between all of them.
    private func stage(seed: UInt64) -> SimulatedMesh {
        var mesh = SimulatedMesh(seed: seed)
        for name in ["mallory", "ben", "cleo"] { mesh.addNode(name) }
        for (a, b) in [(0, 1), (1, 2), (0, 2)] { mesh.connect(a, b) }
        mesh.run(for: .seconds(1))
        let ids = mesh.nodes.map(\.router.id)
        for (a, b) in [(0, 1), (1, 2), (0, 2)] { mesh.node(a) { $0.ensureSession(with: ids[b], now: $1) } }
        mesh.run(for: .seconds(2))
        return mesh
    }

    private func offer(_ name: String, size: UInt32 = 3, fragment: UInt8 = 1) -> MeshFileOffer {
        MeshFileOffer(
            id: Self.realID, size: size, fragmentCount: 1,
            fragmentID: MeshFragment.ID(bytes: [UInt8](repeating: fragment, count: 8))!,
            name: ClaimedFileName(bytes: Array(name.utf8))!, mediaType: "text/plain")
    }

    private func say(_ control: MeshFileControl, in mesh: inout SimulatedMesh, from: Int = 0, to: Int = 1) {
        let recipient = mesh.nodes[to].router.id
        mesh.node(from) { $0.sendSealed(.fileControl(control), to: recipient, now: $1) }
        mesh.run(for: .milliseconds(500))
    }

    private func sendUnasked(in mesh: inout SimulatedMesh, from: Int = 0) throws {
        let ben = mesh.nodes[1].router.id
        let payload = MeshNoisePayload.file(try Self.real.encoded()[...])
        mesh.node(from) { $0.sendSealed(payload, to: ben, now: $1) }
        mesh.run(for: .milliseconds(500))
    }

    @Test("A1: a file before the answer, or without an offer, is not stored") func unasked() throws {
        var mesh = stage(seed: 80)
        try sendUnasked(in: &mesh)
        say(.offer(offer("run.sh")), in: &mesh)
        try sendUnasked(in: &mesh)
        #expect(mesh.nodes[1].events.offers.count == 1)
        #expect(mesh.nodes[1].events.files.isEmpty)
    }

    @Test("A2: a file after a decline, a cancel or its expiry is not stored", arguments: 0..<3) func late(way: Int) throws {
        var mesh = stage(seed: 81)
        say(.offer(offer("run.sh")), in: &mesh)
        let id = try #require(mesh.nodes[1].events.offers.first)
        switch way {
        case 0: mesh.node(1) { $0.decline(id, because: .declined, now: $1) }
        case 1:
            mesh.node(1) { $0.accept(id, now: $1) }
            mesh.node(1) { $0.cancelReceiving(id, now: $1) }
        default: mesh.run(for: .seconds(70))
        }
        try sendUnasked(in: &mesh)
        // A9: it is too late to accept.
        mesh.node(1) { $0.accept(id, now: $1) }
        try sendUnasked(in: &mesh)
        #expect(mesh.nodes[1].events.files.isEmpty)
        #expect(!mesh.nodes[1].router.isReceiving(id))
    }

    @Test("A3: a received file is not accepted twice") func twice() throws {
        var mesh = stage(seed: 82)
        say(.offer(offer("run.sh")), in: &mesh)
        let id = try #require(mesh.nodes[1].events.offers.first)
        mesh.node(1) { $0.accept(id, now: $1) }
        try sendUnasked(in: &mesh)
        try sendUnasked(in: &mesh)
        mesh.node(1) { $0.confirmStored(id, now: $1) }
        try sendUnasked(in: &mesh)
        #expect(mesh.nodes[1].events.files.count == 1)
    }

    @Test("A4: no third peer can answer, cancel or deliver a file") func others() throws {
        var mesh = stage(seed: 83)
        let ben = mesh.nodes[1].router.id
        var sent: MeshFileKey?
        try mesh.node(2) { sent = try $0.sendFile(Self.real, to: ben, now: $1) }
        mesh.run(for: .milliseconds(500))
        let id = try #require(mesh.nodes[1].events.offers.first)
        for control in [MeshFileControl.accept(Self.realID), .stored(Self.realID), .cancel(Self.realID)] {
            say(control, in: &mesh, from: 0, to: 2)
        }
        say(.decline(Self.realID, .declined), in: &mesh, from: 0, to: 2)
        say(.cancel(Self.realID), in: &mesh)
        mesh.node(1) { $0.accept(id, now: $1) }
        // Before the peer that offered it.
        try sendUnasked(in: &mesh)
        mesh.run(for: .seconds(2))
        #expect(mesh.nodes[1].events.files.map(\.sender) == [mesh.nodes[2].router.id])
        mesh.node(1) { $0.confirmStored(id, now: $1) }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[2].events.outcome(of: try #require(sent)) == .stored)
    }

    @Test("A9: an offer not answered in time ends on both sides") func expiry() throws {
        var mesh = stage(seed: 84)
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { _ = try $0.sendFile(Self.real, to: ben, now: $1) }
        mesh.run(for: .seconds(70))
        #expect(mesh.nodes[0].events.outcomes == [.declined(.expired)])
        let ended = mesh.nodes[1].events.contains {
            if case .fileReceiveEnded(_, .declined(.expired)) = $0 { true } else { false }
        }
        #expect(ended)
    }

    @Test("A10: an offer cannot be changed, before the answer or after") func changing() throws {
        var mesh = stage(seed: 85)
        let ben = mesh.nodes[1].router.id
        say(.offer(offer("photo.jpg")), in: &mesh)
        let id = try #require(mesh.nodes[1].events.offers.first)
        // Under the same id, with its real name.
        try mesh.node(0) { _ = try $0.sendFile(Self.real, to: ben, now: $1) }
        mesh.run(for: .milliseconds(500))
        #expect(mesh.nodes[1].router.incoming.files[id]?.offer == offer("photo.jpg"))
        mesh.node(1) { $0.accept(id, now: $1) }
        mesh.run(for: .seconds(3))
        #expect(mesh.nodes[1].events.files.isEmpty)
        #expect(mesh.nodes[0].events.outcomes == [.declined(.declined)])
        let ended = mesh.nodes[1].events.contains { if case .fileReceiveEnded(id, _) = $0 { true } else { false } }
        #expect(ended)
    }

    @Test("R12: a false size is detected") func sizes() throws {
        for size in [0, 2, 4, UInt32(MeshFile.maximumContentByteCount)] {
            var mesh = stage(seed: 86)
            say(.offer(offer("run.sh", size: size)), in: &mesh)
            if let id = mesh.nodes[1].events.offers.first { mesh.node(1) { $0.accept(id, now: $1) } }
            try sendUnasked(in: &mesh)
            #expect(mesh.nodes[1].events.files.isEmpty)
        }
    }

    @Test("R11: encrypted packets of one peer are limited in rate; forgeries in its name do not count") func sealedFlood()
        throws
    {
        var mesh = stage(seed: 88)
        let (mallory, ben) = (mesh.nodes[0].router.id, mesh.nodes[1].router.id)
        for number in 0..<1000 as Range<UInt64> {
            let forged = MeshPacket(
                type: .noiseEncrypted, timestamp: UInt64(mesh.moment.wall.milliseconds) + number,
                sender: mesh.nodes[2].router.id, recipient: ben,
                payload: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 64)[...])
            mesh.inject(try forged.encoded(), on: 0)
        }
        for number in 0..<1000 {
            let message = MeshPrivateMessage(id: "\(number)", text: "flood")
            mesh.node(0) { $0.sendSealed(.privateMessage(message), to: ben, now: $1) }
        }
        try mesh.node(2) { try $0.sendPrivateMessage("not the flood", id: "C", to: ben, now: $1) }
        mesh.run(for: .milliseconds(500))
        let texts = mesh.nodes[1].events.texts
        #expect(texts.count { $0 == "flood" } <= 250 && texts.contains("flood"))
        #expect(texts.contains("not the flood"))
        #expect(mesh.nodes[1].router.authenticatedPeer(mallory) != nil)
    }

    @Test("M19: accepted offers of which nothing is sent, by many peers at one address, keep out no file of another")
    func neverSent() throws {
        var mesh = SimulatedMesh(seed: 89)
        for name in ["ben", "mallory1", "mallory2", "mallory3", "mallory4", "cleo"] { mesh.addNode(name) }
        for mallory in 1...4 { mesh.connect(mallory, 0, from: .address("mallory's")) }
        mesh.connect(5, 0, from: .address("cleo's"))
        mesh.run(for: .seconds(1))
        let ben = mesh.nodes[0].router.id
        for node in 1...5 { mesh.node(node) { $0.ensureSession(with: ben, now: $1) } }
        mesh.run(for: .seconds(2))
        for number in 0..<32 {
            let offer = MeshFileOffer(
                id: MeshFileControl.FileID(bytes: [UInt8](repeating: UInt8(number), count: 32))!, size: 1_000,
                fragmentCount: 3, fragmentID: MeshFragment.ID(bytes: [UInt8](repeating: UInt8(number), count: 8))!,
                name: ClaimedFileName(bytes: [65])!, mediaType: "a/b")
            mesh.node(1 + number / 8) { $0.sendSealed(.fileControl(.offer(offer)), to: ben, now: $1) }
        }
        mesh.run(for: .seconds(1))
        let hostile = mesh.nodes[0].events.offers
        #expect(hostile.count == 32)
        // They send nothing more, and do not withdraw what they do not have.
        mesh.filter = { from, frame in (1...4).contains(from) ? [] : [frame] }
        for offer in hostile { mesh.node(0) { $0.accept(offer, now: $1) } }
        mesh.run(for: .seconds(1))
        var sent: MeshFileKey?
        try mesh.node(5) { sent = try $0.sendFile(Self.real, to: ben, now: $1) }
        mesh.run(for: .seconds(1))
        let offer = try #require(mesh.nodes[0].events.offers.last)
        #expect(offer.peer == mesh.nodes[5].router.id)
        mesh.node(0) { $0.accept(offer, now: $1) }
        mesh.run(for: .seconds(2))
        mesh.node(0) { $0.confirmStored(offer, now: $1) }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[5].events.outcome(of: try #require(sent)) == .stored)
        let displaced = mesh.nodes[0].events.compactMap { event in
            if case .fileReceiveEnded(let key, .declined(.busy)) = event { key } else { nil }
        }
        #expect(displaced.count == 1 && hostile.contains(displaced[0]))
    }

    @Test("R4, R11: a flood of offers is declined, and does not keep out those of other peers") func flood() throws {
        var mesh = stage(seed: 87)
        let ben = mesh.nodes[1].router.id
        for number in 0..<200 {
            let another = MeshFileOffer(
                id: MeshFileControl.FileID(bytes: [UInt8](repeating: UInt8(number), count: 32))!, size: 5_000_000,
                fragmentCount: 400, fragmentID: MeshFragment.ID(bytes: [UInt8](repeating: UInt8(number), count: 8))!,
                name: ClaimedFileName(bytes: [65])!, mediaType: "a/b")
            mesh.node(0) { $0.sendSealed(.fileControl(.offer(another)), to: ben, now: $1) }
        }
        mesh.run(for: .seconds(2))
        #expect(mesh.nodes[1].events.offers.count <= 8)
        try mesh.node(2) { _ = try $0.sendFile(Self.real, to: ben, now: $1) }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[1].events.offers.last?.peer == mesh.nodes[2].router.id)
    }
}
