import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// Packets that an untrusted peer can send on a link, and how the router treats them.
@Suite struct PacketAttackTests {
    /// The peers whose clocks are reported to differ.
    private func reported(_ events: [MeshEvent]) -> [PeerID] {
        events.compactMap { if case .clockSkewDetected(from: let id, by: _) = $0 { id } else { nil } }
    }

    @Test("M14: each peer whose clock differs is reported once in ten minutes, and few of many")
    func differentClocks() throws {
        var victim = AttackedRouter()
        let peers = (1...6).map { UntrustedPeer(seed: UInt64($0)) }
        for _ in 0..<3 {
            for peer in peers { victim.receive(try peer.announcement(at: victim.now + 3_600_000)) }
        }
        #expect(reported(victim.events) == peers.prefix(4).map(\.id))
        victim.run(for: .seconds(600))
        victim.receive(try peers[5].announcement(at: victim.now + 3_600_000))
        #expect(reported(victim.events).last == peers[5].id)
    }

    @Test("M14: an announcement under another's id says nothing of that peer's clock")
    func clockOfAnotherID() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 1), UntrustedPeer(seed: 2))
        let payload = try MeshAnnouncement(
            nickname: "anna", noiseKey: mallory.identity.agreementKey.publicKey.bytes,
            signingKey: mallory.identity.signingKey.publicKey.bytes
        ).encoded()
        let packet = MeshPacket(
            type: .announce, ttl: 7, timestamp: victim.now + 3_600_000, sender: anna.id, payload: payload[...])
        victim.receive(try mallory.signed(packet))
        #expect(reported(victim.events).isEmpty)
        victim.receive(try anna.announcement("anna", at: victim.now + 3_600_000))
        #expect(reported(victim.events) == [anna.id])
    }

    @Test("M14: an announcement with another key than the pinned one says nothing of a peer's clock", arguments: [true, false])
    func clockOfAnotherKey(isContact: Bool) throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 1), UntrustedPeer(seed: 2))
        if isContact {
            let contacts = [anna.id: anna.identity.signingKey.publicKey]
            victim.act { router, _ in router.setContacts(contacts) }
        } else {
            victim.receive(try anna.announcement("anna", at: victim.now))
            // Until the announcement is none in time any more.
            victim.run(for: .seconds(125))
        }
        victim.receive(try anna.announcement("anna", at: victim.now + 3_600_000, signer: mallory.identity.signingKey))
        #expect(reported(victim.events).isEmpty)
        victim.receive(try anna.announcement("anna", at: victim.now + 3_600_000))
        #expect(reported(victim.events) == [anna.id])
    }

    @Test("M14: a replayed announcement says nothing of the clock of a peer that has announced itself in time")
    func clockOfReplay() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 1)
        let old = try anna.announcement("anna", at: victim.now - 86_400_000)
        victim.receive(try anna.announcement("anna", at: victim.now))
        victim.receive(old, from: 1)
        victim.run(for: .seconds(118))
        victim.receive(old, from: 1)
        #expect(reported(victim.events).isEmpty)
        // Afterwards a replay cannot be told from a clock that was set back.
        victim.run(for: .seconds(4))
        victim.receive(old, from: 1)
        #expect(reported(victim.events) == [anna.id])
    }

    // MARK: Relaying

    @Test("M1: the router survives arbitrary input", arguments: seeds(100..<104)) func fuzz(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var victim = AttackedRouter(links: 3)
        var anna = UntrustedPeer(seed: seed)
        let genuine = [
            try anna.announcement(at: victim.now), try anna.message("hello", at: victim.now),
            try anna.leave(at: victim.now),
            try UntrustedPeer.fragment(1, of: 3, anna.bytes(100), from: anna.id, at: victim.now),
            try MeshPacket(
                type: .noiseHandshake, timestamp: victim.now, sender: anna.id, recipient: victim.router.id,
                payload: anna.bytes(32)[...]
            ).encoded(isPadded: true),
            try MeshPacket(
                version: .v2, type: .noiseEncrypted, timestamp: victim.now, sender: anna.id, recipient: victim.router.id,
                route: [anna.id, victim.router.id], payload: anna.bytes(64)[...]
            ).encoded(),
            try anna.signed(
                MeshPacket(
                    type: .requestSync, ttl: 0, timestamp: victim.now, sender: anna.id,
                    payload: MeshSyncRequest(filter: GolombFilter(hashes: [1, 2, 3])).encoded[...])),
            try MeshPacket(
                type: .ping, timestamp: victim.now, sender: anna.id, recipient: victim.router.id,
                payload: MeshPing(nonce: anna.bytes(8), originTTL: 7).encoded[...]
            ).encoded(),
        ]
        for _ in 0..<1000 {
            victim.receive(
                genuine.randomElement(using: &random)!.mutated(using: &random), from: Int.random(in: 0..<3, using: &random))
            if random.once(in: 50) { victim.run(for: .milliseconds(Int.random(in: 1...400, using: &random))) }
        }
        victim.run(for: .seconds(30))
        var ben = UntrustedPeer(seed: seed + 1)
        victim.receive(try ben.announcement("ben", at: victim.now), from: 1)
        victim.receive(try ben.message("still there?", at: victim.now + 1), from: 1)
        #expect(victim.events.texts.contains("still there?"), "seed \(seed)")
        #expect(ben.number() != 0)
    }

    @Test(
        "M17: a route that fills a fragment multiplies no bytes, and hinders no other packet",
        arguments: [8, 28, 29, 52, 63, 200])
    func longRoutes(hops: Int) throws {
        var victim = AttackedRouter(links: 3, .radio)
        var anna = UntrustedPeer(seed: 1)
        let ben = UntrustedPeer(seed: 2)
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try ben.announcement("ben", at: victim.now), from: 1)
        victim.run(for: .seconds(1))
        victim.forgetWritten()
        var receivedCount = 0
        for number in 0..<4 {
            let others = (0..<hops - 2).map { _ in anna.randomID() }
            let packet = MeshPacket(
                version: .v2, type: .noiseEncrypted, timestamp: victim.now + UInt64(number), sender: anna.id, recipient: ben.id,
                route: [victim.router.id, ben.id] + others, payload: anna.bytes(2_000)[...])
            let frame = try packet.encoded()
            receivedCount += frame.count
            victim.receive(frame)
        }
        victim.run(for: .seconds(10))
        #expect(victim.router.fragments.isEmpty)
        let fragments = victim.written(.fragment, on: 1)
        #expect(Set(fragments.map(\.route.count)) == [hops <= 28 ? hops : 0])
        #expect(fragments.count >= 20)
        // Each fragment fills a write of 512 bytes at most.
        #expect(fragments.count * 512 < receivedCount * 5 / 2)
        victim.forgetWritten()
        // Does not become smaller when it is compressed.
        let text = Hex.encode(anna.bytes(1_500))
        victim.act { router, now in _ = try? router.sendPublicMessage(text, now: now) }
        victim.run(for: .seconds(2))
        #expect(victim.written(.fragment, on: 1).count >= 4)
    }

    @Test("M2: forged packets are neither accepted nor relayed, and do not suppress genuine ones") func forgeries() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 1), UntrustedPeer(seed: 2))
        victim.receive(try anna.announcement(at: victim.now))
        victim.run(for: .seconds(1))
        victim.forgetWritten()
        let packets = [
            MeshPacket(type: .message, timestamp: victim.now, sender: anna.id, payload: [65]),
            MeshPacket(type: .leave, timestamp: victim.now + 1, sender: anna.id, payload: []),
            MeshPacket(version: .v2, type: .fileTransfer, timestamp: victim.now + 2, sender: anna.id, payload: [1]),
        ]
        for packet in packets {
            victim.receive(try packet.encoded())
            victim.receive(try mallory.signed(packet))
        }
        victim.receive(
            try anna.announcement("not anna", at: victim.now + 3, signer: mallory.identity.signingKey))
        victim.run(for: .seconds(1))
        #expect(victim.router.peer(anna.id)?.name.claimed == "attacker")
        #expect(victim.events.texts.isEmpty && victim.events.files.isEmpty)
        #expect(Set((victim.written[AttackedRouter.link(1)] ?? []).map(\.packet.sender)).isSubset(of: [victim.router.id]))
        // The one with the same name, but the right signature.
        victim.receive(try anna.signed(packets[0]))
        #expect(victim.events.texts == ["A"])
    }

    @Test("M2: an unsigned copy whose recipient looks like the signature suppresses nothing") func lookalike() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 8)
        victim.receive(try anna.announcement(at: victim.now))
        let genuine = try anna.message("genuine", at: victim.now)
        var copy = try MeshFrame(decoding: genuine[...]).packet
        copy.recipient = PeerID(fitting: try #require(copy.signature).prefix(8))
        copy.signature = nil
        victim.receive(try copy.encoded())
        victim.receive(genuine)
        #expect(victim.events.texts == ["genuine"])
    }

    @Test("M2: a copy addressed to another peer does not suppress our packet") func otherRecipient() throws {
        var mesh = SimulatedMesh(seed: 3)
        mesh.addNode("anna")
        mesh.addNode("ben")
        let way = mesh.connect(0, 1)
        mesh.run(for: .seconds(1))
        let ben = mesh.nodes[1].router.id
        try mesh.node(0) { try $0.sendPrivateMessage("first", id: "1", to: ben, now: $1) }
        mesh.run(for: .seconds(2))
        // Records the encrypted packet, and is first with a copy that has no recipient.
        var copies: [[UInt8]] = []
        mesh.filter = { from, frame in
            guard from == 0, frame.packetType == .noiseEncrypted,
                var packet = try? MeshFrame(decoding: frame[...]).packet, packet.recipient == ben
            else { return [frame] }
            packet.recipient = PeerID(fitting: [1])
            copies.append(try! packet.encoded())
            return [copies.last!, frame]
        }
        try mesh.node(0) { try $0.sendPrivateMessage("second", id: "2", to: ben, now: $1) }
        mesh.run(for: .seconds(3))
        #expect(!copies.isEmpty)
        #expect(mesh.nodes[1].events.texts == ["first", "second"])
        #expect(way == 0)
    }

    @Test("M2, M5: in a ring each packet uses each link at most once") func ring() throws {
        var mesh = SimulatedMesh(seed: 4)
        for number in 0..<6 { mesh.addNode("node \(number)") }
        for number in 0..<6 { mesh.connect(number, (number + 1) % 6) }
        mesh.run(for: .seconds(3))
        var passes: [String: Int] = [:]
        mesh.tap = { from, to, frame, _ in
            guard let packet = try? MeshFrame(decoding: frame[...]).packet, packet.type == .message else { return }
            passes["\(from) \(to) \(packet.timestamp)", default: 0] += 1
        }
        for _ in 0..<3 { try mesh.node(0) { try $0.sendPublicMessage("round and round", now: $1) } }
        mesh.run(for: .seconds(5))
        #expect(!passes.isEmpty && passes.values.allSatisfy { $0 == 1 })
        for node in mesh.nodes[1...] { #expect(node.events.texts.count == 3) }
    }

    @Test("M5: a ttl of 255 counts as 7, and 0 and 1 stop here") func ttl() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 5)
        victim.receive(try anna.announcement(at: victim.now))
        victim.run(for: .seconds(1))
        for (number, ttl) in [255, 8, 7, 2, 1, 0].enumerated() {
            victim.receive(try anna.message("\(ttl)", at: victim.now + UInt64(number), ttl: UInt8(ttl)))
        }
        victim.run(for: .seconds(1))
        #expect(victim.written(.message, on: 1).map(\.ttl).sorted() == [1, 6, 6, 6])
        #expect(victim.written(.message, on: 0).isEmpty)
        #expect(victim.events.texts.count == 6)
    }

    @Test("M5: a packet with a repeated hop in its route is not relayed") func routes() throws {
        var victim = AttackedRouter(links: 3)
        let (anna, ben) = (UntrustedPeer(seed: 6), UntrustedPeer(seed: 7))
        victim.receive(try ben.announcement("ben", at: victim.now, capabilities: .supported), from: 1)
        try victim.answerChallenge(as: ben, on: 1)
        victim.run(for: .seconds(1))
        func send(_ route: [PeerID], _ number: UInt8) throws {
            let packet = MeshPacket(
                version: .v2, type: .noiseEncrypted, timestamp: victim.now + UInt64(number), sender: anna.id,
                recipient: PeerID(fitting: [9]), route: route, payload: [number])
            victim.receive(try packet.encoded(isPadded: true))
        }
        try send([victim.router.id, ben.id], 1)
        try send([victim.router.id, ben.id, victim.router.id], 2)
        try send([victim.router.id, PeerID(fitting: [8])], 3)
        victim.run(for: .seconds(1))
        // Each waits for its own delay.
        #expect(Set(victim.written(.noiseEncrypted, on: 1).map(\.payload.first)) == [1, 3])
        #expect(victim.written(.noiseEncrypted, on: 2).map(\.payload.first) == [3])
    }

    @Test("M2: a neighbour that echoes everything deprives only itself of it") func echoes() throws {
        var victim = AttackedRouter(links: 5)
        let neighbours = (0..<5).map { UntrustedPeer(seed: UInt64(10 + $0)) }
        for (number, neighbour) in neighbours.enumerated() {
            victim.receive(try neighbour.announcement("n\(number)", at: victim.now), from: number)
        }
        victim.run(for: .seconds(1))
        let message = try neighbours[0].message("to all", at: victim.now)
        victim.receive(message, from: 0)
        victim.receive(message, from: 4)
        victim.run(for: .seconds(1))
        for number in 1...3 { #expect(victim.written(.message, on: number).count == 1) }
        #expect(victim.written(.message, on: 4).isEmpty)
    }

    @Test("M10: lines of made-up senders that a neighbour passes on keep none of its sealed packets from being relayed")
    func linesBesideSealedPackets() throws {
        var victim = AttackedRouter()
        var anna = UntrustedPeer(seed: 8)
        let ben = UntrustedPeer(seed: 9)
        victim.receive(try ben.announcement("ben", at: victim.now), from: 1)
        let sealedCount = 50
        for number in 0..<sealedCount {
            // 1,000 a second.
            for each in 0..<100 {
                let line = MeshPacket(
                    type: .message, ttl: 5, timestamp: victim.now, sender: anna.randomID(), payload: [UInt8(each)])
                victim.receive(try line.encoded())
            }
            let answer = MeshPacket(
                type: .noiseEncrypted, timestamp: victim.now, sender: anna.id, recipient: ben.id,
                payload: [UInt8(number)])
            victim.receive(try answer.encoded(isPadded: true))
            victim.run(for: .milliseconds(100))
        }
        victim.run(for: .seconds(1))
        #expect(victim.written(.noiseEncrypted, on: 1).count == sealedCount)
        // A burst of an address, and 5 s at its rate and that of its link.
        #expect((2_000...2_600).contains(victim.written(.message, on: 1).count))
    }

    // MARK: Signatures

    @Test("M2: malformed sync requests use up none of their link's signature checks") func malformedRequests() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 3)
        victim.receive(try anna.announcement(at: victim.now, capabilities: .supported))
        for number in 0..<2000 as Range<UInt64> {
            let request = MeshPacket(
                type: .requestSync, ttl: 0, timestamp: victim.now + number, sender: anna.id, payload: [1],
                signature: [UInt8](repeating: 1, count: 64))
            victim.receive(try request.encoded())
        }
        try victim.answerChallenge(as: anna, on: 0)
        #expect(victim.router.peers.isNeighbour(anna.id))
    }

    @Test("M2: a pong of a nearshare node counts only with its signature, one of a phone also without") func forgedPongs()
        throws
    {
        var victim = AttackedRouter()
        let (anna, phone) = (UntrustedPeer(seed: 1), UntrustedPeer(seed: 2))
        victim.receive(try anna.announcement(at: victim.now, ttl: 6, capabilities: [.fileOffers]))
        victim.receive(try phone.announcement("phone", at: victim.now, ttl: 6))
        let (now, id) = (victim.now, victim.router.id)
        func pong(of sender: UntrustedPeer, _ number: UInt64) -> MeshPacket {
            MeshPacket(
                type: .pong, ttl: 6, timestamp: now + number, sender: sender.id, recipient: id,
                payload: MeshPing(nonce: [UInt8](repeating: 3, count: 8), originTTL: 7).encoded[...])
        }
        victim.receive(try pong(of: anna, 1).encoded())
        victim.receive(try anna.signed(pong(of: anna, 2), by: phone.identity.signingKey))
        victim.receive(try phone.signed(pong(of: phone, 3), by: anna.identity.signingKey))
        #expect(
            !victim.events.contains {
                if case .pong = $0 { true } else { false }
            })
        victim.receive(try anna.signed(pong(of: anna, 4)))
        victim.receive(try pong(of: phone, 5).encoded())
        let senders: [PeerID] = victim.events.compactMap {
            if case .pong(let sender, _, _) = $0 { sender } else { nil }
        }
        #expect(senders == [anna.id, phone.id])
    }

    // MARK: Time

    @Test("M3: packets from another time are rejected") func otherTimes() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 20)
        for timestamp in [0, victim.now - 901_000, victim.now + 901_000, .max] {
            victim.receive(try anna.announcement(at: timestamp))
        }
        #expect(victim.router.peer(anna.id) == nil)
        victim.receive(try anna.announcement(at: victim.now))
        for timestamp in [0, victim.now - 121_000, victim.now + 121_000, .max] {
            victim.receive(try anna.message("\(timestamp)", at: timestamp))
            // In fragments, whose own time is valid.
            let inner = try anna.message("\(timestamp) cut", at: timestamp)
            victim.receive(
                try UntrustedPeer.fragment(timestamp, of: 1, type: .message, inner, from: anna.id, at: victim.now))
        }
        #expect(victim.events.texts.isEmpty)
        victim.receive(try anna.message("late", at: victim.now - 119_000))
        #expect(victim.events.texts == ["late"])
    }

    @Test("M3: an answer to our request may be old, but not from the future") func answers() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 21)
        victim.receive(try anna.announcement(at: victim.now))
        victim.run(for: .seconds(6))
        #expect(!victim.written(.requestSync, on: 0).isEmpty)
        for age in [-20_000_000_000, -200_000, 21_700_000] as [Int64] {
            let timestamp = UInt64(Int64(victim.now) - age)
            victim.receive(try anna.message("\(age)", at: timestamp, ttl: 0))
        }
        #expect(victim.events.texts.isEmpty)
        victim.receive(try anna.message("an hour", at: victim.now - 3_600_000, ttl: 0))
        victim.receive(try anna.message("an hour", at: victim.now - 3_600_000, ttl: 0), from: 1)
        #expect(victim.events.texts == ["an hour"])
        // These were not requested.
        victim.receive(try anna.leave(at: victim.now - 200_000, ttl: 0))
        #expect(victim.router.peer(anna.id) != nil)
    }

    @Test("M3: a leave from before the peer returned, fragmented or not, has no effect") func oldLeave() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 22)
        let leave = try anna.leave(at: victim.now)
        victim.receive(try anna.announcement(at: victim.now + 1))
        victim.receive(leave)
        #expect(victim.router.peer(anna.id) != nil)
        let another = try anna.leave(at: victim.now + 2)
        victim.run(for: .seconds(150))
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try UntrustedPeer.fragment(1, of: 1, type: .leave, another, from: anna.id, at: victim.now))
        #expect(victim.router.peer(anna.id) != nil)
        victim.receive(try anna.leave(at: victim.now + 1))
        #expect(victim.router.peer(anna.id) == nil)
    }

    @Test("M3: an older announcement has no effect") func oldAnnouncement() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 23)
        victim.receive(try anna.announcement("new", at: victim.now))
        victim.receive(try anna.announcement("old", at: victim.now - 1000))
        #expect(victim.router.peer(anna.id)?.name.claimed == "new")
    }

    @Test("M3: an announcement from before the peer's leave does not bring it back") func announcementBeforeLeave() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 23), UntrustedPeer(seed: 24))
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try anna.leave(at: victim.now + 1))
        victim.run(for: .seconds(2))
        victim.receive(try anna.announcement("older", at: victim.now - 100_000), from: 1)
        #expect(victim.router.peer(anna.id) == nil)
        victim.receive(try anna.announcement("back", at: victim.now))
        #expect(victim.router.peer(anna.id)?.name.claimed == "back")
        // A leave of a node that was first with another's id does not keep out its owner.
        let ben = UntrustedPeer(seed: 25)
        victim.receive(try ben.announcement("not ben", at: victim.now, signer: mallory.identity.signingKey))
        victim.receive(
            try ben.signed(
                MeshPacket(type: .leave, timestamp: victim.now + 60_000, sender: ben.id, payload: []),
                by: mallory.identity.signingKey))
        #expect(victim.router.peer(ben.id) == nil)
        victim.forgetWritten()
        victim.receive(try ben.announcement("ben", at: victim.now + 1))
        #expect(victim.router.peer(ben.id) != nil || !victim.written(.noiseHandshake, on: 0).isEmpty)
    }

    @Test("M7: packets that a flood has evicted from memory are not accepted again") func forgetting() throws {
        var settings = MeshRouter.Settings()
        settings.frameBurst = 100_000
        settings.signatureBurst = 100_000
        var victim = AttackedRouter(settings: settings)
        var anna = UntrustedPeer(seed: 24)
        victim.receive(try anna.announcement(at: victim.now))
        let leave = try anna.leave(at: victim.now + 1)
        victim.receive(leave)
        victim.run(for: .seconds(1))
        victim.receive(try anna.announcement(at: victim.now))
        for number in 0..<20_100 as Range<UInt64> {
            let packet = MeshPacket(
                type: MeshPacketType(rawValue: 0x60), ttl: 1, timestamp: victim.now, sender: anna.randomID(),
                payload: withUnsafeBytes(of: number) { Array($0)[...] })
            victim.router.receive(try packet.encoded()[...], from: AttackedRouter.link(0), now: victim.moment)
        }
        #expect(victim.router.history.packets.count <= 20_000 && victim.router.history.packets.hasDroppedEarly)
        victim.receive(leave)
        #expect(victim.router.peer(anna.id) != nil)
    }

    @Test("M15, M7: a flood of lines that made-up keys have signed makes no line over another link refused, or shown twice")
    func signedFlood() throws {
        var victim = AttackedRouter(links: 3)
        let (anna, ben, mallory) = (UntrustedPeer(seed: 26), UntrustedPeer(seed: 27), UntrustedPeer(seed: 28))
        victim.receive(try anna.announcement(at: victim.now), from: 1)
        victim.receive(try ben.announcement(at: victim.now), from: 2)
        victim.receive(try mallory.announcement(at: victim.now), from: 0)
        // The victim asks its neighbours for old lines.
        victim.run(for: .seconds(6))
        let honest = try anna.message("honest", at: victim.now)
        let raced = try anna.message("raced", at: victim.now)
        victim.receive(honest, from: 1)
        // The attacker was the first to bring it.
        victim.receive(raced, from: 0)
        let sent = victim.now
        victim.run(for: .seconds(1))
        // The lines are recorded as a router does that has checked their signatures, which would take most of the test.
        let flood = MeshLinkSource.link(AttackedRouter.link(0))
        victim.act { router, now in
            for number in 0..<10_500 as Range<UInt64> {
                let line = MeshPacket(
                    type: .message, timestamp: sent + number, sender: PeerID(fitting: [UInt8(number % 50), 1]), payload: [1])
                router.history.record(PacketKey(of: line), line, from: .host(flood), isAuthentic: true, now: now)
            }
        }
        #expect(victim.router.history.messages.hasDroppedEarly)
        // Over the link of the flood, lines from before it are refused.
        victim.receive(try mallory.message("mallory's clock is slow", at: victim.now - 100_000), from: 0)
        #expect(victim.events.texts == ["honest", "raced"])
        victim.receive(try anna.message("missed", at: victim.now - 600_000, ttl: 0), from: 1)
        victim.receive(try anna.message("the clock is slow", at: victim.now - 100_000), from: 1)
        let shown = ["honest", "raced", "missed", "the clock is slow"]
        #expect(victim.events.texts == shown)
        for link in [0, 1, 2] { victim.receive(honest, from: link) }
        victim.receive(raced, from: 0)
        #expect(victim.events.texts == shown)
        // Another host may bring once what the attacker brought first: conversations know the line by its id.
        for link in [2, 2, 1, 0] { victim.receive(raced, from: link) }
        #expect(victim.events.texts == shown + ["raced"])
    }

    @Test("M15: lines of contacts are remembered apart from what the host brings that floods") func floodBesideContact() throws
    {
        var victim = AttackedRouter(links: 1)
        let anna = UntrustedPeer(seed: 26)
        victim.act { router, _ in router.setContacts([anna.id: anna.identity.signingKey.publicKey]) }
        victim.receive(try anna.announcement(at: victim.now))
        let line = try anna.message("a contact's", at: victim.now)
        victim.receive(line)
        victim.run(for: .seconds(1))
        let flood = MeshLinkSource.link(AttackedRouter.link(0))
        victim.act { router, now in
            for number in 0..<10_500 as Range<UInt64> {
                let line = MeshPacket(type: .message, timestamp: number, sender: PeerID(fitting: [1]), payload: [1])
                router.history.record(PacketKey(of: line), line, from: .host(flood), isAuthentic: true, now: now)
            }
        }
        victim.receive(line)
        victim.receive(try anna.message("the clock is slow", at: victim.now - 100_000))
        #expect(victim.events.texts == ["a contact's", "the clock is slow"])
    }

    // MARK: Fragments

    @Test("M4: sets begun under any number of ids evict no set of another link, and no accepted file")
    func floodOfSets() throws {
        var settings = MeshRouter.Settings()
        settings.frameBurst = 100_000
        var victim = AttackedRouter(settings: settings)
        let anna = UntrustedPeer(seed: 30)
        var mallory = UntrustedPeer(seed: 31)
        victim.receive(try anna.announcement(at: victim.now))
        let frame = try anna.message("put together", at: victim.now)
        let half = frame.count / 2
        victim.receive(
            try UntrustedPeer.fragment(
                7, 0, of: 2, type: .message, Array(frame[..<half]), from: anna.id, at: victim.now), from: 0)
        victim.run(for: .milliseconds(100))
        for _ in 0..<8 * FragmentAssembler.Limits().sets {
            victim.router.receive(
                try UntrustedPeer.fragment(
                    mallory.number(), of: 2, mallory.bytes(20), from: mallory.randomID(), at: victim.now)[...],
                from: AttackedRouter.link(1), now: victim.moment)
        }
        // In the same name, too.
        for _ in 0..<100 {
            victim.receive(
                try UntrustedPeer.fragment(mallory.number(), of: 2, [1], from: anna.id, at: victim.now), from: 1)
        }
        #expect(victim.router.incoming.assembler.count <= FragmentAssembler.Limits().sets)
        victim.receive(
            try UntrustedPeer.fragment(
                7, 1, of: 2, type: .message, Array(frame[half...]), from: anna.id, at: victim.now), from: 0)
        #expect(victim.events.texts == ["put together"])
    }

    @Test("M4, R1: the memory for fragments is bounded over all senders") func bytesOfFragments() throws {
        var settings = MeshRouter.Settings()
        settings.frameBurst = 1_000_000
        settings.byteBurst = 1e12
        var victim = AttackedRouter(settings: settings)
        var mallory = UntrustedPeer(seed: 32)
        let names = (0..<40).map { _ in mallory.randomID() }
        // Random, and therefore not compressed.
        let slice = mallory.bytes(60_000)
        for round in 0..<20 {
            for name in names {
                let frame = try UntrustedPeer.fragment(
                    5, round, of: 100, slice, from: name, at: victim.now)
                victim.router.receive(frame[...], from: AttackedRouter.link(0), now: victim.moment)
            }
            #expect(victim.router.incoming.assembler.byteCount <= FragmentAssembler.Limits().bytes)
        }
        // One-byte fragments of one set count with their memory. For this node: those for all are also stored for neighbours.
        for index in 0..<10_000 {
            let frame = try UntrustedPeer.fragment(
                6, index, of: 10_000, [1], from: names[0], to: victim.router.id, at: victim.now)
            victim.router.receive(frame[...], from: AttackedRouter.link(0), now: victim.moment)
        }
        #expect(victim.router.incoming.assembler.byteCount <= FragmentAssembler.Limits().bytes)
        victim.run(for: .seconds(31))
        victim.receive(try UntrustedPeer.fragment(8, of: 2, [1], from: names[0], at: victim.now))
        #expect(victim.router.incoming.assembler.count == 1)
    }

    @Test("M4: totals of 65,535 and zero, and an index beyond the end, are rejected") func impossibleFragments() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 33)
        for (index, total) in [(0, 65_535), (0, 10_001), (0, 0), (2, 2), (65_535, 10_000)] {
            victim.receive(try UntrustedPeer.fragment(1, index, of: total, [1], from: anna.id, at: victim.now))
        }
        victim.run(for: .seconds(1))
        #expect(victim.router.incoming.assembler.count == 0)
        #expect(victim.written(.fragment, on: 1).isEmpty)
    }

    @Test("M4: nested fragments are not reassembled") func nesting() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 34)
        victim.receive(try anna.announcement(at: victim.now))
        func wrapped(_ text: String, times: Int) throws -> [UInt8] {
            var frame = try anna.message(text, at: victim.now + UInt64(times))
            for depth in 0..<times {
                frame = try UntrustedPeer.fragment(
                    UInt64(times * 100 + depth), of: 1, type: depth == 0 ? .message : .fragment, frame, from: anna.id,
                    at: victim.now)
            }
            return frame
        }
        for times in [1, 2, 3, 40] { victim.receive(try wrapped("\(times)", times: times)) }
        #expect(victim.events.texts == ["1", "2"])
    }

    @Test("M4: a fragmented announcement from a distant peer makes no neighbour") func neighbourInFragments() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 35)
        let announcement = try anna.announcement(at: victim.now)
        victim.receive(
            try UntrustedPeer.fragment(1, of: 1, type: .announce, announcement, from: anna.id, at: victim.now, ttl: 5))
        #expect(victim.router.peer(anna.id)?.isDirect == false)
        let ben = UntrustedPeer(seed: 36)
        victim.receive(
            try UntrustedPeer.fragment(
                1, of: 1, type: .announce, try ben.announcement(at: victim.now), from: ben.id, at: victim.now, ttl: 7))
        #expect(victim.router.peer(ben.id)?.isDirect == true)
    }

    // MARK: Amounts

    @Test("R6: any number of new ids does not evict known peers") func names() throws {
        var settings = MeshRouter.Settings()
        settings.signatureBurst = 100_000
        var victim = AttackedRouter(settings: settings)
        let anna = UntrustedPeer(seed: 40)
        victim.receive(try anna.announcement("anna", at: victim.now, ttl: 5), from: 1)
        var mallory = UntrustedPeer(seed: 41)
        for number in 0..<3000 {
            let someone = number < 600 ? UntrustedPeer(seed: UInt64(1000 + number)) : nil
            if let someone { victim.receive(try someone.announcement("s\(number)", at: victim.now, ttl: 5)) }
            for type in [MeshPacketType.noiseEncrypted, .noiseHandshake] {
                let packet = MeshPacket(
                    type: type, timestamp: victim.now, sender: mallory.randomID(), recipient: victim.router.id,
                    payload: mallory.bytes(32)[...])
                victim.receive(try packet.encoded())
            }
        }
        #expect(victim.router.peers.count <= PeerTable.capacity)
        #expect(victim.router.peer(anna.id) != nil)
        // Answers to handshakes stay below what came in.
        #expect(victim.written(.noiseHandshake, on: 0).count <= 100)
    }

    @Test("R2, M2: the cost of a link is bounded in decompressed bytes, and in signatures") func expensiveFrames() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 42)
        victim.receive(try anna.announcement(at: victim.now))
        let bomb = MeshPacket(
            version: .v2, type: MeshPacketType(rawValue: 0x61), timestamp: victim.now, sender: anna.id,
            payload: [UInt8](repeating: 0, count: 5_000_000)[...])
        let frame = try bomb.encoded()
        #expect(frame.count < 10_000)
        for number in 0..<200 {
            var copy = frame
            // Another timestamp.
            copy[10] = UInt8(number)
            victim.router.receive(copy[...], from: AttackedRouter.link(0), now: victim.moment)
        }
        #expect(victim.router.history.packets.count < 20)
        // Another link is not affected.
        victim.receive(try anna.message("elsewhere", at: victim.now), from: 1)
        #expect(victim.events.texts == ["elsewhere"])
    }

    @Test("R2: frames that do not inflate, and fragments of those that do, cost what their payloads may inflate to")
    func uncountedInflation() throws {
        let anna = UntrustedPeer(seed: 43)
        var victim = AttackedRouter()
        let bomb = MeshPacket(
            version: .v2, type: MeshPacketType(rawValue: 0x61), timestamp: victim.now, sender: anna.id,
            payload: [UInt8](repeating: 0, count: 5_000_000)[...])
        let whole = try bomb.encoded()
        var damaged = whole
        // The end of the original size.
        damaged[27] ^= 1
        #expect(throws: MalformedInput.self) { try MeshFrame(decoding: damaged[...]) }
        for number in 0..<20 as Range<UInt64> {
            victim.receive(damaged, from: 0)
            var copy = whole
            // Another timestamp.
            copy[10] = UInt8(number)
            victim.receive(try UntrustedPeer.fragment(number, of: 1, copy, from: anna.id, at: victim.now), from: 1)
        }
        for link in [AttackedRouter.link(0), AttackedRouter.link(1)] {
            let isAdmitted = victim.router.links.budgets.consume(.inflatedBytes, on: link, now: victim.moment.monotonic)
            #expect(!isAdmitted)
        }
    }

    @Test("R1, M6: random floods leave every table within its bounds", arguments: [50, 51] as [UInt64])
    func floods(seed: UInt64) throws {
        var settings = MeshRouter.Settings()
        (settings.frameBurst, settings.byteBurst, settings.signatureBurst) = (1e9, 1e12, 1e9)
        (settings.handshakeBurst, settings.newPeerBurst) = (1e9, 1e9)
        var victim = AttackedRouter(settings: settings, links: 3)
        var mallory = UntrustedPeer(seed: seed)
        var random = SeededRandom(seed: seed)
        let known = (0..<30).map { UntrustedPeer(seed: seed * 1000 + UInt64($0)) }
        for peer in known { victim.receive(try peer.announcement(at: victim.now, ttl: 6)) }
        for number in 0..<4000 as Range<UInt64> {
            let peer = known.randomElement(using: &random)!
            let frame: [UInt8] =
                switch random.next() % 6 {
                case 0: try peer.message(String(repeating: "x", count: 2000), at: victim.now + number)
                case 1:
                    try UntrustedPeer.fragment(
                        random.next(), of: 50, mallory.bytes(400), from: mallory.randomID(), at: victim.now)
                case 2:
                    try MeshPacket(
                        type: .noiseHandshake, timestamp: victim.now, sender: mallory.randomID(), recipient: victim.router.id,
                        payload: mallory.bytes(32)[...]
                    ).encoded()
                case 3:
                    try MeshPacket(
                        type: .noiseEncrypted, timestamp: victim.now + number, sender: peer.id, recipient: victim.router.id,
                        payload: mallory.bytes(64)[...]
                    ).encoded()
                case 4:
                    try MeshPacket(
                        type: MeshPacketType(rawValue: 0x70), timestamp: victim.now, sender: mallory.randomID(),
                        payload: mallory.bytes(20)[...]
                    ).encoded()
                default:
                    try MeshPacket(
                        version: .v2, type: MeshPacketType(rawValue: 0x71), timestamp: victim.now, sender: mallory.randomID(),
                        payload: mallory.bytes(20)[...] + [UInt8](repeating: UInt8(number % 251), count: 17_000)
                    ).encoded(compression: .deflated(mallory.bytes(17_000)[...]))
                }
            victim.router.receive(frame[...], from: AttackedRouter.link(Int(random.next() % 3)), now: victim.moment)
            let router = victim.router
            try #require(router.peers.count <= PeerTable.capacity, "seed \(seed)")
            try #require(router.incoming.assembler.byteCount <= FragmentAssembler.Limits().bytes, "seed \(seed)")
            try #require(router.relays.byteCount <= 8 << 20, "seed \(seed)")
            try #require(router.sync.store.count <= 500 && router.sync.store.byteCount <= 4 << 20, "seed \(seed)")
            try #require(router.fragments.jobs.count <= 128, "seed \(seed)")
            if number % 500 == 0 { victim.run(for: .milliseconds(100)) }
        }
        victim.run(for: .seconds(60))
        #expect(victim.router.relays.count == 0 && victim.router.relays.byteCount == 0 && victim.router.relays.recordCount == 0)
        #expect(victim.router.incoming.assembler.count <= 128)
        #expect(victim.router.sessions.waitingCounts.allSatisfy { $0.early <= 8 && $0.queued <= 64 })
    }

    @Test("M2, R11: texts are limited in rate for each sender, independently of other senders") func talkative() throws {
        var victim = AttackedRouter()
        let (anna, ben) = (UntrustedPeer(seed: 43), UntrustedPeer(seed: 44))
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try ben.announcement(at: victim.now))
        for number in 0..<400 as Range<UInt64> { victim.receive(try anna.message("\(number)", at: victim.now + number)) }
        victim.receive(try ben.message("ben's", at: victim.now))
        victim.run(for: .seconds(1))
        #expect(victim.events.texts.count == 201 && victim.events.texts.last == "ben's")
        #expect(victim.written(.message, on: 1).count == 201)
        victim.run(for: .seconds(2))
        victim.receive(try anna.message("later", at: victim.now))
        #expect(victim.events.texts.last == "later")
    }

    @Test("M6: no sender evicts the messages of others from the store") func store() throws {
        var store = SyncStore()
        let (anna, ben) = (UntrustedPeer(seed: 60), UntrustedPeer(seed: 61))
        func insert(_ bytes: [UInt8]) throws {
            store.insert(try MeshFrame(decoding: bytes[...]))
        }
        try insert(try anna.message("anna's", at: 1))
        for number in 0..<1000 as Range<UInt64> { try insert(try ben.message("ben's", at: number)) }
        #expect(store.count == 101)
        let request = MeshSyncRequest(filter: GolombFilter(hashes: []))
        let given = store.missing(for: request, limit: 1000, byteLimit: 1 << 20)
        #expect(given.contains { $0.packet.sender == anna.id })
        for number in 0..<100 as Range<UInt64> {
            try insert(try UntrustedPeer(seed: 100 + number).message(String(repeating: "x", count: 60_000), at: number))
        }
        #expect(store.byteCount <= 4 << 20)
        let few = store.missing(for: request, limit: 1000, byteLimit: 256 << 10)
        #expect(few.reduce(0) { $0 + $1.bytes.count } <= 256 << 10 && !few.isEmpty)
    }

    @Test("M2: a request is answered for a neighbour that signed it, and only for a limited time") func questions() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 62), UntrustedPeer(seed: 63))
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try mallory.announcement(at: victim.now, ttl: 6))
        for number in 0..<20 as Range<UInt64> { victim.receive(try anna.message("\(number)", at: victim.now + number)) }
        victim.run(for: .seconds(1))
        victim.forgetWritten()
        func question(from untrusted: UntrustedPeer, ttl: UInt8 = 0, number: UInt64) throws -> [UInt8] {
            let request = MeshSyncRequest(filter: GolombFilter(hashes: []))
            return try untrusted.signed(
                MeshPacket(
                    type: .requestSync, ttl: ttl, timestamp: victim.now + number, sender: untrusted.id,
                    payload: request.encoded[...]))
        }
        func answers() -> Int { victim.written(.message, on: 0).count + victim.written(.message, on: 1).count }
        victim.receive(try question(from: mallory, number: 1))
        victim.receive(try question(from: anna, ttl: 1, number: 2))
        victim.receive(try question(from: anna, number: 3), from: 1)
        #expect(answers() == 0)
        for number in 0..<50 as Range<UInt64> { victim.receive(try question(from: anna, number: 10 + number)) }
        #expect(answers() == 8 * 20)
        #expect(victim.written(.message, on: 0).allSatisfy { $0.ttl == 0 && $0.isSyncResponse })
    }

    @Test("R7: links with a very small frame size are still served") func tinyLinks() throws {
        var victim = AttackedRouter(links: 2, MeshLinkProfile(maximumFrameByteCount: 1, pacing: .zero, isRadio: false))
        let anna = UntrustedPeer(seed: 64)
        victim.receive(try anna.announcement(at: victim.now))
        victim.receive(try anna.message(String(repeating: "long ", count: 500), at: victim.now + 1))
        victim.run(for: .seconds(20))
        let frames = victim.written[AttackedRouter.link(1)] ?? []
        #expect(!frames.isEmpty && frames.allSatisfy { $0.bytes.count <= 106 })
        var assembler = FragmentAssembler()
        var texts = 0
        for packet in victim.written(.fragment, on: 1) where packet.sender == anna.id {
            let fragment = try MeshFragment(decoding: packet.payload)
            guard case .complete(let frame) = assembler.add(fragment, from: anna.id, now: victim.moment.monotonic) else {
                continue
            }
            if try MeshFrame(decoding: frame[...]).packet.type == .message { texts += 1 }
        }
        #expect(texts == 1)
    }

    @Test("T1, T2: a name with escape sequences is displayed without them") func escapes() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 65)
        victim.receive(try anna.announcement("\u{1b}]52;c;eA==\u{7}anna\u{9b}2J\u{202e}", at: victim.now))
        let shown = try #require(victim.router.peer(anna.id)).name.shown
        #expect(shown.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0 != "\u{202e}" })
        #expect(shown.contains("anna"))
    }
}
