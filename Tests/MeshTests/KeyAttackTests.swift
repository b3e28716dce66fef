import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Peer identity: handshakes, sessions and announced keys, with a man in the middle.
@Suite struct KeyAttackTests {
    // MARK: Handshakes

    @Test("K1, K4: a peer that answers with another's id, or changes its id during the handshake, gets no session")
    func otherIDs() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 200), UntrustedPeer(seed: 201))
        for untrusted in [anna, mallory] { victim.receive(try untrusted.announcement(at: victim.now)) }
        // Mallory's key under Anna's id.
        #expect(try UntrustedPeerSession(of: mallory, as: anna.id, with: &victim) != nil)
        #expect(victim.router.authenticatedPeer(anna.id) == nil)
        // The first message under Anna's id, the third under its own, and the other way round.
        for ids in [[anna.id, mallory.id], [mallory.id, anna.id]] {
            #expect(try UntrustedPeerSession(of: mallory, as: ids[0], thenAs: ids[1], with: &victim) != nil)
        }
        #expect(victim.router.authenticatedPeer(anna.id) == nil && victim.router.authenticatedPeer(mallory.id) == nil)
        #expect(try UntrustedPeerSession(of: anna, with: &victim) != nil)
        #expect(victim.router.authenticatedPeer(anna.id)?.id == anna.id)
    }

    @Test("K9: low-order points, our own messages reflected, and packets in our name make no session") func degenerate() throws
    {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 202)
        victim.receive(try anna.announcement(at: victim.now))
        for (number, byte) in [UInt8(0), 1, 0xff].enumerated() {
            var point = [UInt8](repeating: byte == 1 ? 0 : byte, count: 32)
            if byte == 1 { point[0] = 1 }
            victim.receive(try UntrustedPeerSession.packet(point, from: anna.id, to: victim, number: UInt64(number)))
        }
        #expect(victim.written(.noiseHandshake, on: 0).isEmpty)
        victim.act { $0.ensureSession(with: anna.id, now: $1) }
        let first = try #require(victim.written(.noiseHandshake, on: 0).first)
        for (number, sender) in [anna.id, victim.router.id].enumerated() {
            victim.receive(
                try UntrustedPeerSession.packet(Array(first.payload), from: sender, to: victim, number: UInt64(10 + number)))
        }
        // Exchanges messages with any answer.
        for (number, answer) in victim.written(.noiseHandshake, on: 0).enumerated() {
            victim.receive(
                try UntrustedPeerSession.packet(Array(answer.payload), from: anna.id, to: victim, number: UInt64(20 + number)))
        }
        #expect(victim.router.authenticatedPeer(anna.id) == nil)
        let zero = MeshAnnouncement(
            nickname: "zero", noiseKey: [UInt8](repeating: 0, count: 32),
            signingKey: anna.identity.signingKey.publicKey.bytes)
        let packet = MeshPacket(
            type: .announce, timestamp: victim.now, sender: PeerID(fitting: [0x66]), payload: try zero.encoded()[...])
        victim.receive(try anna.signed(packet))
        #expect(victim.router.announcedPeers.map(\.id) == [anna.id])
    }

    @Test("R9: forged first messages are answered at a limited rate, and end no genuine handshake") func forgedHandshakes()
        throws
    {
        var victim = AttackedRouter()
        var mallory = UntrustedPeer(seed: 203)
        let anna = UntrustedPeer(seed: 204)
        victim.receive(try anna.announcement(at: victim.now))
        // Anna begins; before Anna's third message a flood arrives in Anna's name, and in others'.
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim, isHeldBack: true))
        victim.forgetWritten()
        for number in 0..<500 as Range<UInt64> {
            let sender = number % 2 == 0 ? anna.id : mallory.randomID()
            victim.receive(
                try UntrustedPeerSession.packet(mallory.bytes(32), from: sender, to: victim, number: 100 + number), from: 1)
        }
        let answers = victim.written(.noiseHandshake, on: 0).count + victim.written(.noiseHandshake, on: 1).count
        #expect(answers <= 2 * 60)
        try session.finish(with: &victim)
        #expect(victim.router.authenticatedPeer(anna.id)?.id == anna.id)
    }

    @Test("R9: first messages forged in a peer's name on one link leave room for its own on another, and always on its own")
    func forgedOnAnotherLink() throws {
        var victim = AttackedRouter(links: 3)
        var mallory = UntrustedPeer(seed: 203)
        let anna = UntrustedPeer(seed: 204)
        victim.receive(try anna.announcement(at: victim.now))
        func forge(_ count: UInt64, from link: Int) throws {
            for number in 0..<count {
                victim.receive(
                    try UntrustedPeerSession.packet(mallory.bytes(32), from: anna.id, to: victim, number: 100 + number),
                    from: link)
                victim.run(for: .milliseconds(200))
            }
        }
        for second in 0..<6 {
            try forge(20, from: 1)
            let session = try UntrustedPeerSession(of: anna, with: &victim)
            try #require(session != nil, "round \(second)")
        }
        #expect(victim.router.authenticatedPeer(anna.id)?.id == anna.id)
        #expect(victim.router.isNeighbour(anna.id))
        // Also where its own link has brought more than forgeries may.
        for number in 0..<4 {
            victim.run(for: .seconds(3))
            let session = try UntrustedPeerSession(of: anna, with: &victim)
            #expect(session != nil, "session \(number)")
        }
    }

    @Test("a peer with signed first messages is answered, also when its process is killed every other second")
    func killedAgain()
        throws
    {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 211)
        victim.receive(try anna.announcement(at: victim.now))
        for number in 0..<40 {
            var state = HandshakeState(
                role: .initiator, prologue: [], staticKey: anna.identity.agreementKey,
                ephemeral: (0..<32).map { UInt8($0 + number) })
            let packet = MeshPacket(
                type: .noiseHandshake, timestamp: victim.now, sender: anna.id, recipient: victim.router.id,
                payload: try state.writeMessage(payload: [])[...])
            victim.forgetWritten()
            victim.receive(try anna.signed(packet))
            #expect(victim.written(.noiseHandshake, on: 0).count == 1, "handshake \(number)")
            victim.run(for: .seconds(2))
        }
    }

    @Test("K11: handshakes and encrypted packets count once, in any new packet") func replays() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 205)
        victim.receive(try anna.announcement(at: victim.now))
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let text = MeshNoisePayload.privateMessage(MeshPrivateMessage(id: "1", text: "once"))
        let sealed = try session.seal(text)
        for number in 0..<5 as Range<UInt64> {
            victim.receive(try anna.signed(UntrustedPeerSession.sealedPacket(sealed, from: anna, to: victim, number: number)))
        }
        #expect(victim.events.texts == ["once"])
        // Its first and third message again, in new packets: the session stays.
        for (number, message) in session.said.enumerated() {
            victim.receive(
                try UntrustedPeerSession.packet(message, from: anna.id, to: victim, number: UInt64(50 + number)), from: 1)
        }
        let next = try session.seal(.privateMessage(MeshPrivateMessage(id: "2", text: "still")))
        victim.receive(try anna.signed(UntrustedPeerSession.sealedPacket(next, from: anna, to: victim, number: 60)))
        #expect(victim.events.texts == ["once", "still"])
        let sessions = victim.events.count { if case .sessionEstablished = $0 { true } else { false } }
        #expect(sessions == 1)
    }

    @Test("K11: limits of the window: a message late by 1023 is read once, one late by 1024 is not") func windowEdges() throws {
        var settings = MeshRouter.Settings()
        settings.sealedBurst = 10_000
        var victim = AttackedRouter(settings: settings)
        let anna = UntrustedPeer(seed: 206)
        victim.receive(try anna.announcement(at: victim.now))
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let sealed = try (0..<1026).map {
            try session.seal(.privateMessage(MeshPrivateMessage(id: "\($0)", text: "\($0)")))
        }
        for number in [1025, 2, 1, 2, 1025] {
            let packet = UntrustedPeerSession.sealedPacket(sealed[number], from: anna, to: victim, number: UInt64(number))
            victim.receive(try anna.signed(packet))
            victim.run(for: .milliseconds(3))
        }
        #expect(victim.events.texts == ["1025", "2"])
    }

    @Test("K13: an encrypted message that is truncated, altered or reordered is read unchanged, or not at all")
    func damaged() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 207)
        victim.receive(try anna.announcement(at: victim.now))
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let sealed = try (0..<3).map { try session.seal(.privateMessage(MeshPrivateMessage(id: "\($0)", text: "\($0)"))) }
        var number: UInt64 = 0
        func receive(_ message: [UInt8]) throws {
            number += 1
            victim.receive(try anna.signed(UntrustedPeerSession.sealedPacket(message, from: anna, to: victim, number: number)))
        }
        for index in sealed[0].indices {
            var flipped = sealed[0]
            flipped[index] ^= 1 << UInt8(index % 8)
            try receive(flipped)
            try receive(Array(sealed[0].prefix(index)))
        }
        try receive(sealed[0] + [0])
        #expect(victim.events.texts.isEmpty)
        for index in [2, 0, 1] { try receive(sealed[index]) }
        #expect(victim.events.texts == ["2", "0", "1"])
    }

    // MARK: Announced keys

    @Test("K2: a peer that returns with another signing key is rejected until a session proves it") func pinnedKeys() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 208), UntrustedPeer(seed: 209))
        victim.receive(try anna.announcement("anna", at: victim.now))
        victim.receive(try anna.leave(at: victim.now + 1))
        #expect(victim.router.peer(anna.id) == nil)
        victim.run(for: .seconds(300))
        // Anna's id and agreement key are public; only the signing key is secret.
        let forged = mallory.identity.signingKey
        victim.receive(try anna.announcement("mallory", at: victim.now, signer: forged))
        #expect(victim.router.peer(anna.id) == nil)
        // The contradiction makes this node look for the peer; it gives up before the peer comes.
        #expect(!victim.written(.noiseHandshake, on: 0).isEmpty)
        victim.run(for: .seconds(12))
        // The peer has a new one, and announces it in its session.
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let state = MeshPeerState(capabilities: [.privateMedia], signingKey: forged.publicKey.bytes)
        victim.receive(
            try UntrustedPeerSession.sealedPacket(session.seal(.peerState(state)), from: anna, to: victim, number: 1).encoded())
        victim.receive(try anna.announcement("anna again", at: victim.now + 10, signer: forged))
        #expect(victim.router.peer(anna.id)?.name.claimed == "anna again")
        victim.receive(try anna.announcement("old key", at: victim.now + 20))
        #expect(victim.router.peer(anna.id)?.name.claimed == "anna again")
    }

    @Test("K2: support for bundles that a forged announcement claims is void once a session has proven another key")
    func forgedBundles() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 211), UntrustedPeer(seed: 212))
        victim.receive(
            try anna.announcement(
                at: victim.now, capabilities: [.privateMedia, .bundles], signer: mallory.identity.signingKey))
        #expect(victim.router.peer(anna.id)?.capabilities?.contains(.bundles) == true)
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let state = MeshPeerState(capabilities: [.privateMedia], signingKey: anna.identity.signingKey.publicKey.bytes)
        victim.receive(
            try UntrustedPeerSession.sealedPacket(session.seal(.peerState(state)), from: anna, to: victim, number: 1).encoded())
        #expect(victim.router.peer(anna.id)?.capabilities == [.privateMedia])
        #expect(victim.router.bundleNeighbours.isEmpty)
    }

    @Test("K12: unencrypted files of a peer that can encrypt them are rejected, whatever it announces later") func downgrade()
        throws
    {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 210)
        victim.receive(try anna.announcement(at: victim.now, capabilities: [.privateMedia]))
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        let state = MeshPeerState(capabilities: [.privateMedia], signingKey: anna.identity.signingKey.publicKey.bytes)
        victim.receive(
            try UntrustedPeerSession.sealedPacket(session.seal(.peerState(state)), from: anna, to: victim, number: 1).encoded())
        victim.receive(try anna.announcement(at: victim.now + 5, capabilities: []))
        #expect(victim.router.peer(anna.id)?.capabilities == [.privateMedia])
        let file = try MeshFile(name: "a", mediaType: "image/png", content: [1, 2, 3]).encoded()
        let open = MeshPacket(
            version: .v2, type: .fileTransfer, timestamp: victim.now + 6, sender: anna.id, recipient: victim.router.id,
            payload: file[...])
        victim.receive(try anna.signed(open))
        #expect(victim.events.files.isEmpty)
        let sealed = try session.seal(.file(file[...]))
        victim.receive(try anna.signed(UntrustedPeerSession.sealedPacket(sealed, from: anna, to: victim, number: 7)))
        #expect(victim.events.files.map(\.authenticatedSender?.id) == [anna.id])
    }

    @Test("K14: the event for an encrypted message names the proven key, not a field of the packet") func authenticatedSender()
        throws
    {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 211), UntrustedPeer(seed: 212))
        for untrusted in [anna, mallory] { victim.receive(try untrusted.announcement(at: victim.now)) }
        var session = try #require(try UntrustedPeerSession(of: mallory, with: &victim))
        let sealed = try session.seal(.privateMessage(MeshPrivateMessage(id: "1", text: "from anna")))
        // Mallory's message under Anna's id: there is no session with Anna.
        var packet = UntrustedPeerSession.sealedPacket(sealed, from: anna, to: victim, number: 1)
        victim.receive(try packet.encoded())
        #expect(victim.events.texts.isEmpty)
        packet.sender = mallory.id
        victim.receive(try packet.encoded())
        let senders = victim.events.compactMap { if case .privateMessage(let peer, _, _) = $0 { peer.id } else { nil } }
        #expect(senders == [mallory.id])
    }
}
