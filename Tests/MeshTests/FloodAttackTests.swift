import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

/// One machine without a known key sends as much as it likes, and tries to silence others.
@Suite struct FloodAttackTests {
    // MARK: Identities

    @Test("M16, R6: thousands of identities on some links keep no newcomer on another from being known and heard")
    func identities() throws {
        var victim = AttackedRouter(links: 6)
        for number in 0..<1_200 as Range<UInt64> {
            let peer = UntrustedPeer(seed: 10_000 + number)
            let frame = try peer.announcement("m\(number)", at: victim.now, ttl: 5 + UInt8(number % 3))
            victim.receive(frame, from: Int(number % 4))
        }
        let (near, far) = (UntrustedPeer(seed: 1), UntrustedPeer(seed: 2))
        victim.receive(try near.announcement("near", at: victim.now), from: 4)
        victim.receive(try far.announcement("far", at: victim.now, ttl: 5), from: 5)
        for number in 0..<20 as Range<UInt64> {
            victim.receive(try near.message("near \(number)", at: victim.now + number), from: 4)
            victim.receive(try far.message("far \(number)", at: victim.now + number), from: 5)
        }
        #expect(victim.router.peer(near.id) != nil && victim.router.peer(far.id) != nil)
        #expect(victim.events.texts.count { $0.hasPrefix("near") || $0.hasPrefix("far") } == 40)
        #expect(victim.router.peers.count <= PeerTable.capacity && victim.router.peers.degree <= 6)
    }

    @Test("M2, M16: a flood on the links of eleven machines keeps no line of a contact on another one from being read")
    func contactBesideFlood() throws {
        var victim = AttackedRouter(links: 12)
        let anna = UntrustedPeer(seed: 80)
        victim.act { router, _ in router.setContacts([anna.id: anna.identity.signingKey.publicKey]) }
        victim.receive(try anna.announcement(at: victim.now, capabilities: [.fileOffers, .bundles]), from: 11)
        try victim.answerChallenge(as: anna, on: 11)
        #expect(victim.router.isNeighbour(anna.id))
        for number in 0..<11 {
            let mallory = UntrustedPeer(seed: 81_000 + UInt64(number))
            victim.receive(try mallory.announcement(at: victim.now), from: number)
            // A forged packet is not remembered, so each one is checked.
            let forged = try MeshPacket(
                type: .message, timestamp: victim.now, sender: mallory.id, payload: Array("junk".utf8)[...],
                signature: [UInt8](repeating: 1, count: 64)
            ).encoded()
            for _ in 0..<100 { victim.receive(forged, from: number) }
        }
        let lines = (0..<150).map { "line \($0)" }
        for (number, line) in lines.enumerated() {
            victim.receive(try anna.message(line, at: victim.now + UInt64(number)), from: 11)
        }
        #expect(victim.events.texts == lines)
    }

    @Test("M12: a newcomer that has only written to everyone counts for the link on which it is known, until that is closed")
    func shareOfNewcomer() throws {
        var victim = AttackedRouter(links: 0)
        let (anna, ben) = (UntrustedPeer(seed: 82), UntrustedPeer(seed: 83))
        for number in 1...2 {
            victim.act { $0.linkUp(AttackedRouter.link(number), .stream, from: .address("\(number)"), now: $1) }
        }
        victim.receive(try anna.announcement(at: victim.now), from: 1)
        victim.receive(try anna.message("hello", at: victim.now), from: 1)
        victim.receive(try ben.announcement(at: victim.now, ttl: 5), from: 2)
        #expect([anna, ben].map { victim.router.linkShare(of: $0.id)?.source } == [.address("1"), .address("2")])
        victim.act { $0.linkDown(AttackedRouter.link(1), now: $1) }
        #expect([anna, ben].map { victim.router.linkShare(of: $0.id)?.source } == [nil, .address("2")])
    }

    @Test("M12: an event counts towards the host that its proven sender is behind, contacts apart, and for none by a claim")
    func eventSources() throws {
        var victim = AttackedRouter(links: 0)
        let (anna, ben) = (UntrustedPeer(seed: 82), UntrustedPeer(seed: 83))
        for number in 1...2 {
            victim.act { $0.linkUp(AttackedRouter.link(number), .stream, from: .address("\(number)"), now: $1) }
        }
        victim.act { router, _ in router.setContacts([anna.id: anna.identity.signingKey.publicKey]) }
        victim.receive(try anna.announcement(at: victim.now), from: 1)
        victim.receive(try ben.announcement(at: victim.now), from: 2)
        victim.receive(try anna.message("anna's", at: victim.now), from: 1)
        // Brought by another link than that over which its author became known.
        victim.receive(try ben.message("ben's", at: victim.now), from: 1)
        func source(_ event: MeshEvent) -> PacketSource { victim.router.source(of: event) }
        let texts = victim.events.filter { if case .publicMessage = $0 { true } else { false } }
        #expect(texts.map(source) == [.known, .host(.address("2"))])
        #expect([anna, ben].map { source(.bundlePacket([], from: $0.id)) } == [.known, .host(.address("2"))])
        #expect([anna, ben].map { source(.pong(from: $0.id, nonce: [], hops: 1)) } == [.gone, .gone])
        victim.act { $0.linkDown(AttackedRouter.link(2), now: $1) }
        #expect(source(.bundlePacket([], from: ben.id)) == .gone)
    }

    @Test("M16: the neighbour's neighbour is known, whatever an attacker further away announces over the same link")
    func nearBeforeFar() throws {
        var victim = AttackedRouter()
        for number in 0..<300 as Range<UInt64> {
            victim.receive(try UntrustedPeer(seed: 20_000 + number).announcement(at: victim.now, ttl: 5))
        }
        let anna = UntrustedPeer(seed: 3)
        victim.receive(try anna.announcement("anna", at: victim.now, ttl: 6))
        victim.receive(try anna.message("hello", at: victim.now, ttl: 6))
        #expect(victim.events.texts == ["hello"])
    }

    /// Ben is a neighbour of the victim, Mallory has one link. With a machine in common, their links share its rates.
    @Test(
        "M16, M10: announcements at 200 a second on one link keep no newcomer's from a third node, also from the same machine",
        arguments: [nil, MeshLinkSource.address("one machine")])
    func relayedNewcomer(machine: MeshLinkSource?) throws {
        var mesh = SimulatedMesh(seed: 26)
        for name in ["victim", "ben", "mallory", "carol"] { mesh.addNode(name) }
        mesh.connect(0, 1, from: machine)
        let attacked = mesh.connect(2, 0, from: machine)
        let carol = mesh.nodes[3].router.id
        for number in 0..<900 as Range<UInt64> {
            let peer = UntrustedPeer(seed: 90_000 + number)
            mesh.inject(try peer.announcement(at: mesh.moment.wall.unixMilliseconds), on: attacked)
            mesh.run(for: .milliseconds(5))
            if number == 400 { mesh.connect(0, 3, from: machine) }
            if number >= 500, number.isMultiple(of: 20) {
                try mesh.node(3) { try $0.sendPublicMessage("\(number)", now: $1) }
            }
        }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[1].router.peer(carol) != nil)
        #expect(Set(mesh.nodes[1].events.texts).count == 20)
    }

    @Test("M16: links that come and go take no more places than the largest one that stays") func churn() throws {
        var victim = AttackedRouter()
        let honest = (0..<40 as Range<UInt64>).map { UntrustedPeer(seed: 100_000 + $0) }
        for peer in honest { victim.receive(try peer.announcement(at: victim.now, ttl: 5)) }
        for number in 0..<60 as Range<UInt64> {
            victim.act { $0.linkUp(AttackedRouter.link(2), .stream, now: $1) }
            for peer in 0..<30 as Range<UInt64> {
                let mallory = UntrustedPeer(seed: 110_000 + 100 * number + peer)
                victim.receive(try mallory.announcement(at: victim.now, ttl: 5), from: 2)
            }
            victim.act { $0.linkDown(AttackedRouter.link(2), now: $1) }
        }
        #expect(honest.allSatisfy { victim.router.peer($0.id) != nil })
    }

    @Test("M16: carriers that only announce themselves take no place in store and forward") func carriers() throws {
        var mesh = SimulatedMesh(seed: 5)
        for name in ["victim", "mallory", "ben"] { mesh.addNode(name) }
        let attacked = mesh.connect(1, 0)
        for node in [0, 2] { mesh.node(node) { $0.enableBundles(now: $1) } }
        mesh.run(for: .seconds(1))
        for number in 0..<64 as Range<UInt64> {
            let peer = UntrustedPeer(seed: 30_000 + number)
            let now = mesh.moment.wall.unixMilliseconds
            mesh.inject(try peer.announcement(at: now, capabilities: [.fileOffers, .bundles]), on: attacked)
        }
        mesh.run(for: .seconds(2))
        mesh.connect(0, 2)
        mesh.run(for: .seconds(2))
        let neighbours = mesh.nodes[0].router.bundleNeighbours
        #expect(neighbours.map(\.id) == [mesh.nodes[2].router.id])
    }

    @Test("M16: a carrier nearby does not shut out those behind phones") func behindPhones() throws {
        var victim = AttackedRouter(links: 3)
        victim.act { $0.enableBundles(now: $1) }
        let (mallory, phone, anna) = (UntrustedPeer(seed: 6), UntrustedPeer(seed: 7), UntrustedPeer(seed: 8))
        let carrier: MeshCapabilities = [.fileOffers, .bundles]
        victim.receive(try mallory.announcement(at: victim.now, capabilities: carrier), from: 0)
        try victim.answerChallenge(as: mallory, on: 0)
        victim.receive(try phone.announcement(at: victim.now, capabilities: [.privateMedia]), from: 1)
        victim.receive(try anna.announcement(at: victim.now, ttl: 6, capabilities: carrier), from: 1)
        // Behind a carrier: that one forwards for it.
        victim.receive(try UntrustedPeer(seed: 9).announcement(at: victim.now, ttl: 6, capabilities: carrier), from: 0)
        let neighbours = victim.router.bundleNeighbours
        #expect(Set(neighbours.map(\.id)) == [mallory.id, anna.id])
        // Those behind a phone are attributed to its link.
        for neighbour in neighbours {
            #expect(neighbour.source == .link(AttackedRouter.link(neighbour.id == mallory.id ? 0 : 1)))
        }
        for number in 0..<50 as Range<UInt64> {
            victim.receive(
                try UntrustedPeer(seed: 40_000 + number).announcement(at: victim.now, ttl: 5, capabilities: carrier), from: 1)
        }
        #expect(victim.router.bundleNeighbours.count <= 9)
    }

    @Test(
        "B11, M2: bundles of new keys on eight links of a machine have one rate, sealed or not, and a contact's beside them all arrive",
        arguments: [true, false])
    func bundlesOfNewKeys(isSealed: Bool) throws {
        var victim = AttackedRouter(links: 0)
        let anna = UntrustedPeer(seed: 950)
        victim.act { router, now in
            router.enableBundles(now: now)
            router.setContacts([anna.id: anna.identity.signingKey.publicKey])
            for number in 0...8 {
                router.linkUp(AttackedRouter.link(number), .stream, from: .address("one machine"), now: now)
            }
        }
        var random = SeededRandom(seed: 9)
        func send(_ count: UInt64, by peer: UntrustedPeer, on number: Int) throws {
            victim.receive(try peer.announcement(at: victim.now, capabilities: [.fileOffers, .bundles]))
            var session = try isSealed ? UntrustedPeerSession(of: peer, with: &victim) : nil
            for each in 1...count {
                let bundle = [1] + random.bytes(8_000)
                var packet = MeshPacket(
                    version: .v2, type: .bundle, ttl: 1, timestamp: victim.now + each, sender: peer.id,
                    recipient: victim.router.id, payload: bundle[...])
                if let sealed = try session?.seal(bytes: [0x7d] + bundle) {
                    packet = UntrustedPeerSession.sealedPacket(sealed, from: peer, to: victim, number: each)
                }
                victim.receive(try peer.signed(packet), from: number)
            }
            #expect((session == nil) == !isSealed)
        }
        func byteCount(of isSender: (PeerID) -> Bool) -> Int {
            victim.events.reduce(0) { count, event in
                guard case .bundlePacket(let packet, let peer) = event, isSender(peer) else { return count }
                return count + packet.count
            }
        }
        for number in 0..<8 { try send(100, by: UntrustedPeer(seed: 951 + UInt64(number)), on: number) }
        let flood = byteCount { $0 != anna.id }
        // The burst of the machine, and the shares of its links.
        let burst = Int(MeshRouter.Settings().bundleByteBurst)
        #expect(flood >= burst * 9 / 10 && flood <= burst * 20 / 12)
        try send(50, by: anna, on: 8)
        #expect(byteCount { $0 == anna.id } == 50 * 8_001)
    }

    // MARK: Claims

    /// Anna is behind Rita; Mallory has four links to the victim, and passes nothing on.
    @Test("M8: replayed announcements on four links do not attract what is for their sender", arguments: [1, 2] as [UInt64])
    func blackHole(seed: UInt64) throws {
        var mesh = SimulatedMesh(seed: seed)
        for name in ["victim", "rita", "anna", "mallory"] { mesh.addNode(name) }
        mesh.connect(0, 1)
        mesh.connect(1, 2)
        let attacked = (0..<4).map { _ in mesh.connect(3, 0) }
        let anna = mesh.nodes[2].router.id
        mesh.filter = { from, frame in from == 3 ? [] : [frame] }
        nonisolated(unsafe) var announcement: [UInt8]?
        mesh.tap = { _, to, frame, _ in
            if to == 0, frame.packetType == .announce,
                let packet = try? MeshFrame(decoding: frame[...]).packet, packet.sender == anna
            {
                announcement = frame
            }
        }
        mesh.run(for: .seconds(30)) { $0.nodes[0].router.peer(anna) != nil }
        var replayed = try #require(announcement, "seed \(seed)")
        replayed[2] = 7
        for link in attacked { mesh.inject(replayed, on: link) }
        mesh.run(for: .milliseconds(100))
        for number in 0..<20 {
            try mesh.node(0) { try $0.sendPrivateMessage("\(number)", id: "\(number)", to: anna, now: $1) }
        }
        mesh.run(for: .seconds(4)) { Set($0.nodes[2].events.texts).count == 20 }
        #expect(Set(mesh.nodes[2].events.texts).count == 20, "seed \(seed)")
        #expect(!mesh.nodes[0].router.isNeighbour(anna))
    }

    /// An announcement with another's id and Noise key, which are public, and a signing key of the attacker.
    private func forgery(of genuine: MeshAnnouncement, as id: PeerID, by mallory: UntrustedPeer, at now: UInt64) throws
        -> [UInt8]
    {
        var forged = genuine
        forged.nickname = "anna, really"
        forged.signingKey = mallory.identity.signingKey.publicKey.bytes
        let payload = try forged.encoded()
        return try mallory.signed(MeshPacket(type: .announce, timestamp: now, sender: id, payload: payload[...]))
    }

    @Test("M11: whoever comes first with another's id loses it when its owner comes", arguments: [true, false])
    func firstClaim(isFirst: Bool) throws {
        var mesh = SimulatedMesh(seed: 11)
        for name in ["victim", "mallory", "anna", "rita", "behind the victim"] { mesh.addNode(name) }
        let attacked = mesh.connect(1, 0)
        mesh.connect(0, 4)
        let (anna, mallory) = (mesh.nodes[2].router.id, UntrustedPeer(seed: 12))
        nonisolated(unsafe) var announcement: MeshAnnouncement?
        mesh.tap = { from, _, frame, _ in
            guard from == 2, frame.packetType == .announce else { return }
            announcement = (try? MeshFrame(decoding: frame[...])).flatMap { try? MeshAnnouncement(decoding: $0.packet.payload) }
        }
        // Mallory sees Anna elsewhere.
        mesh.connect(2, 3)
        mesh.run(for: .seconds(1))
        let genuine = try #require(announcement)
        func now() -> UInt64 { mesh.moment.wall.unixMilliseconds }
        if !isFirst {
            mesh.connect(2, 0)
            mesh.run(for: .seconds(1))
        }
        // Ahead of all that the owner will announce.
        mesh.inject(try forgery(of: genuine, as: anna, by: mallory, at: now() + 60_000), on: attacked)
        mesh.run(for: .seconds(1))
        if isFirst { mesh.connect(2, 0) }
        mesh.run(for: .seconds(5))
        for node in [0, 4] { #expect(mesh.nodes[node].router.peer(anna)?.name.claimed == "anna", "\(node)") }
        let lie = try mallory.signed(
            MeshPacket(type: .message, timestamp: now(), sender: anna, payload: Array("a lie".utf8)[...]))
        mesh.inject(lie, on: attacked)
        // An empty text is none.
        for text in ["", " \n", "the truth"] { try mesh.node(2) { try $0.sendPublicMessage(text, now: $1) } }
        mesh.run(for: .seconds(1))
        #expect(mesh.nodes[0].events.texts == ["the truth"])
        // Again, also when others have filled the memory of keys.
        mesh.inject(try forgery(of: genuine, as: anna, by: mallory, at: now() + 90_000), on: attacked)
        mesh.run(for: .seconds(1))
        try mesh.node(2) { try $0.sendPublicMessage("still", now: $1) }
        mesh.run(for: .seconds(1))
        for node in [0, 4] { #expect(mesh.nodes[node].events.texts == ["the truth", "still"], "\(node)") }
    }

    @Test("M11: a contact's id is nobody else's, also before the contact comes") func contacts() throws {
        var victim = AttackedRouter()
        let (anna, mallory) = (UntrustedPeer(seed: 13), UntrustedPeer(seed: 14))
        victim.act { router, _ in router.setContacts([anna.id: anna.identity.signingKey.publicKey]) }
        victim.receive(try anna.announcement("mallory", at: victim.now, signer: mallory.identity.signingKey))
        #expect(victim.router.peer(anna.id) == nil)
        victim.receive(try anna.announcement("anna", at: victim.now))
        #expect(victim.router.peer(anna.id)?.name.claimed == "anna")
    }

    @Test("M12: sealed texts of many sessions of one machine have one limit, which a contact does not use up")
    func sealedTexts() throws {
        var victim = AttackedRouter(links: 2)
        let anna = UntrustedPeer(seed: 920)
        victim.act { router, _ in router.setContacts([anna.id: anna.identity.signingKey.publicKey]) }
        func send(_ count: Int, in session: inout UntrustedPeerSession, of peer: UntrustedPeer) throws {
            for number in 0..<count {
                let text = MeshPrivateMessage(id: "\(peer.id) \(number)", text: "\(peer.id)")
                let packet = try UntrustedPeerSession.sealedPacket(
                    session.seal(.privateMessage(text)), from: peer, to: victim, number: UInt64(number))
                victim.receive(try peer.signed(packet))
            }
        }
        for seed in 921..<933 as Range<UInt64> {
            let peer = UntrustedPeer(seed: seed)
            victim.receive(try peer.announcement(at: victim.now))
            var session = try #require(try UntrustedPeerSession(of: peer, with: &victim))
            try send(100, in: &session, of: peer)
        }
        let settings = MeshRouter.Settings()
        // The link's own share comes on top of the rate of the machine.
        #expect(victim.events.texts.count <= Int(settings.sealedPayloadBurst * 13 / 12) + 2)
        victim.receive(try anna.announcement(at: victim.now))
        var session = try #require(try UntrustedPeerSession(of: anna, with: &victim))
        try send(20, in: &session, of: anna)
        #expect(victim.events.texts.count { $0 == "\(anna.id)" } == 20)
    }

    @Test("M21: a state that a peer repeats in its session changes and reports nothing") func repeatedState() throws {
        var victim = AttackedRouter()
        let peer = UntrustedPeer(seed: 940)
        victim.receive(try peer.announcement(at: victim.now))
        var session = try #require(try UntrustedPeerSession(of: peer, with: &victim))
        let state = MeshPeerState(capabilities: [.privateMedia], signingKey: peer.identity.signingKey.publicKey.bytes)
        func changeCount() -> Int { victim.events.count { if case .peerChanged = $0 { true } else { false } } }
        var counts: [Int] = []
        for number in 0..<50 as Range<UInt64> {
            victim.receive(
                try UntrustedPeerSession.sealedPacket(session.seal(.peerState(state)), from: peer, to: victim, number: number)
                    .encoded())
            counts.append(changeCount())
        }
        #expect(Set(counts).count == 1 && counts[0] > 0)
    }

    // MARK: Junk

    private enum Directed: CaseIterable { case ping, handshake, sealed, bundle, request }

    @Test("M9: packets for this node from afar use up nothing that the public messages of the same link need")
    func directed() throws {
        for kind in Directed.allCases {
            var victim = AttackedRouter()
            victim.act { $0.enableBundles(now: $1) }
            let anna = UntrustedPeer(seed: 15)
            var mallory = UntrustedPeer(seed: 16)
            victim.receive(try anna.announcement(at: victim.now, ttl: 6, capabilities: [.bundles]))
            for number in 0..<20 as Range<UInt64> {
                for count in 0..<225 as Range<UInt64> {
                    var packet = MeshPacket(
                        type: .ping, ttl: 5, timestamp: victim.now + count, sender: anna.id, recipient: victim.router.id,
                        payload: (mallory.bytes(8) + [7])[...], signature: mallory.bytes(64))
                    switch kind {
                    case .ping: packet.sender = mallory.randomID()
                    case .handshake: (packet.type, packet.payload) = (.noiseHandshake, mallory.bytes(32)[...])
                    case .sealed: (packet.type, packet.payload) = (.noiseEncrypted, mallory.bytes(64)[...])
                    case .bundle: (packet.type, packet.payload) = (.bundle, mallory.bytes(40)[...])
                    case .request: (packet.type, packet.ttl) = (.requestSync, 0)
                    }
                    victim.receive(try packet.encoded())
                }
                victim.receive(try anna.message("line \(number)", at: victim.now + number, ttl: 6))
                victim.run(for: .milliseconds(150))
            }
            #expect(victim.events.texts.count == 20, "\(kind)")
            // Answers cost little, too.
            #expect(victim.written(.pong, on: 0).count <= 60, "\(kind)")
        }
    }

    @Test("M10: four megabytes of junk a second delay no line on a slow link, neither this node's nor another's")
    func slowLink() throws {
        var router = AttackedRouter(links: 3).router
        var moment = AttackedRouter(links: 1).moment
        func advance(_ milliseconds: Int) {
            moment = Moment(
                monotonic: moment.monotonic + .milliseconds(milliseconds),
                wall: WallTime(milliseconds: moment.wall.milliseconds + Int64(milliseconds)))
        }
        let anna = UntrustedPeer(seed: 17)
        var mallory = UntrustedPeer(seed: 18)
        func now() -> UInt64 { moment.wall.unixMilliseconds }
        router.receive(try anna.announcement(at: now())[...], from: AttackedRouter.link(1), now: moment)
        let junk = mallory.bytes(4_000)
        var texts: [String] = []
        for number in 0..<20 as Range<UInt64> {
            for count in 0..<100 as Range<UInt64> {
                let packet = MeshPacket(
                    type: MeshPacketType(rawValue: 0x61), timestamp: now() + count, sender: mallory.randomID(),
                    payload: junk[...])
                router.receive(try packet.encoded(compression: .none)[...], from: AttackedRouter.link(0), now: moment)
            }
            router.receive(
                try anna.message("hers \(number)", at: now() + number)[...], from: AttackedRouter.link(1), now: moment)
            try router.sendPublicMessage("ours \(number)", now: moment)
            // 100 kB a second leave on the third link.
            for _ in 0..<10 {
                advance(10)
                router.advance(to: moment)
                var room = 1_000
                while room > 0, let frame = router.dequeueFrame(for: AttackedRouter.link(2)) {
                    room -= frame.count
                    let packet = try MeshFrame(decoding: frame[...]).packet
                    if packet.type == .message { texts.append(String(decoding: packet.payload, as: UTF8.self)) }
                }
                while router.dequeueFrame(for: AttackedRouter.link(1)) != nil {}
            }
        }
        #expect(texts.count { $0.hasPrefix("ours") } == 20)
        #expect(texts.count { $0.hasPrefix("hers") } >= 19)
        #expect(router.links.byteCount < 2 << 20)
    }

    @Test(
        "R3: a neighbour has an excess for a flood of its own, and none for one from behind it", arguments: [7, 6] as [UInt8])
    func excess(ttl: UInt8) throws {
        var victim = AttackedRouter()
        var mallory = UntrustedPeer(seed: 76)
        let anna = UntrustedPeer(seed: 77)
        victim.receive(try anna.announcement(at: victim.now), from: 0)
        for number in 0..<2_500 as Range<UInt64> {
            let ping = MeshPing(nonce: number.bigEndianBytes, originTTL: MeshPacket.maximumTTL)
            let packet = MeshPacket(
                type: .ping, ttl: ttl, timestamp: victim.now, sender: mallory.randomID(), recipient: victim.router.id,
                payload: ping.encoded[...])
            victim.receive(try packet.encoded())
        }
        // The neighbour's own line among them is read.
        victim.receive(try anna.message("hello", at: victim.now), from: 0)
        let excess = victim.router.excess(of: AttackedRouter.link(0), now: victim.moment.monotonic)
        #expect((excess > 0) == (ttl == MeshPacket.maximumTTL) && victim.events.texts == ["hello"])
    }

    @Test("R3: a neighbour whose clock is off, and a member that returns with its store, have no excess") func honest() throws {
        var victim = AttackedRouter()
        victim.act { $0.enableBundles(now: $1) }
        let (late, anna) = (UntrustedPeer(seed: 78), UntrustedPeer(seed: 79))
        victim.receive(try anna.announcement(at: victim.now, capabilities: [.fileOffers, .bundles]), from: 1)
        try victim.answerChallenge(as: anna, on: 1)
        for number in 0..<600 as Range<UInt64> {
            // An hour ago; an announcement, and lines.
            let time = victim.now - 3_600_000 + number
            victim.receive(try number % 20 == 0 ? late.announcement(at: time) : late.message("late", at: time), from: 0)
            let bundle = MeshPacket(
                version: .v2, type: .bundle, ttl: 1, timestamp: victim.now + number, sender: anna.id,
                recipient: victim.router.id, payload: [UInt8](repeating: UInt8(number % 251), count: 20_000)[...])
            victim.receive(try anna.signed(bundle), from: 1)
        }
        let excess = (0..<2).map { victim.router.excess(of: AttackedRouter.link($0), now: victim.moment.monotonic) }
        #expect(excess == [0, 0] && victim.router.isNeighbour(anna.id))
    }

    @Test("M15: any number of small packets leaves the tolerance to clocks as it is") func clocks() throws {
        var settings = MeshRouter.Settings()
        settings.frameBurst = 1e6
        var victim = AttackedRouter(settings: settings)
        var mallory = UntrustedPeer(seed: 19)
        let (anna, ben) = (UntrustedPeer(seed: 20), UntrustedPeer(seed: 21))
        victim.receive(try anna.announcement(at: victim.now - 100_000), from: 1)
        for round in 0..<6 as Range<UInt64> {
            for number in 0..<5_000 as Range<UInt64> {
                let packet = MeshPacket(
                    type: MeshPacketType(rawValue: 0x60), ttl: 1, timestamp: victim.now + round, sender: mallory.randomID(),
                    payload: withUnsafeBytes(of: number) { Array($0)[...] })
                victim.router.receive(try packet.encoded()[...], from: AttackedRouter.link(0), now: victim.moment)
            }
            victim.run(for: .seconds(1))
        }
        // Their clocks are 100 s slow.
        victim.receive(try anna.message("slow", at: victim.now - 100_000), from: 1)
        victim.receive(try ben.announcement(at: victim.now - 100_000), from: 1)
        #expect(victim.events.texts == ["slow"] && victim.router.peer(ben.id) != nil)
    }

    @Test("M12: lines of few bytes that hold many are limited by what they hold, for all senders of a link together")
    func compressed() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 22)
        victim.receive(try anna.announcement(at: victim.now), from: 1)
        let text = String(repeating: "x", count: 60_000)
        for sender in 0..<8 as Range<UInt64> {
            let mallory = UntrustedPeer(seed: 50_000 + sender)
            victim.receive(try mallory.announcement(at: victim.now))
            for number in 0..<8 as Range<UInt64> { victim.receive(try mallory.message(text, at: victim.now + number)) }
        }
        // Half a mebibyte from each of them, nearly four from all.
        let held = victim.events.texts.reduce(0) { $0 + $1.utf8.count }
        #expect(held > 0 && held <= (1 << 20) * 13 / 12)
        for number in 0..<20 as Range<UInt64> {
            victim.receive(try anna.message("\(number)", at: victim.now + number), from: 1)
        }
        #expect(victim.events.texts.suffix(20) == (0..<20).map { "\($0)" }[...])
    }

    /// A file for everyone that is signed as one compressor makes it, and sent as another does.
    private func recompressed(
        by peer: UntrustedPeer, byteCount: Int, at timestamp: UInt64, as compression: MeshPacket.Compression = .level(9),
        isForged: Bool = false
    ) throws -> [UInt8] {
        // The levels make different bytes of it, where it is long.
        var random = SeededRandom(seed: timestamp)
        let content = (0..<byteCount).map { _ in UInt8(ascii: "a") + UInt8.random(in: 0..<4, using: &random) }
        let file = MeshFile(name: "a.txt", mediaType: "text/plain", content: content[...])
        var packet = MeshPacket(
            version: .v2, type: .fileTransfer, timestamp: timestamp, sender: peer.id, payload: try file.encoded()[...])
        var signature = peer.identity.signingKey.signature(for: try packet.signingPreimage(compression: .level(6)))
        if isForged { signature[0] ^= 1 }
        packet.signature = signature
        let frame = try packet.encoded(compression: compression)
        #expect(try packet.encoded(compression: .level(6)) != frame)
        return frame
    }

    @Test("M20: forged signatures of compressed packets use up what one host may have compressed again, and nothing else")
    func forgedRecompression() throws {
        var settings = MeshRouter.Settings()
        (settings.signatureBurst, settings.byteBurst) = (1e6, 1e9)
        var victim = AttackedRouter(settings: settings)
        let (phone, mallory) = (UntrustedPeer(seed: 27), UntrustedPeer(seed: 28))
        victim.receive(try phone.announcement(at: victim.now), from: 1)
        victim.receive(try mallory.announcement(at: victim.now), from: 0)
        let size = 100_000
        for number in 0..<3 as Range<UInt64> {
            victim.receive(try recompressed(by: phone, byteCount: size, at: victim.now + number), from: 0)
        }
        #expect(victim.events.files.count == 3)
        // A forged packet is not remembered, so the same one is checked each time.
        let forged = try recompressed(by: mallory, byteCount: size, at: victim.now, isForged: true)
        for _ in 0..<40 { victim.receive(forged, from: 0) }
        #expect(victim.events.files.count == 3)
        let late = try recompressed(by: phone, byteCount: size, at: victim.now + 3)
        victim.receive(late, from: 0)
        #expect(victim.events.files.count == 3)
        // A short one over the same link, a packet whose received bytes are signed, and the late one over another link.
        victim.receive(try recompressed(by: phone, byteCount: 900, at: victim.now + 4, as: .none), from: 0)
        victim.receive(try phone.message(String(repeating: "hello ", count: 1_000), at: victim.now + 5), from: 0)
        victim.receive(late, from: 1)
        #expect(victim.events.files.map(\.file.content.count) == [size, size, size, 900, size])
        #expect(victim.events.texts.count == 1)
        victim.run(for: .seconds(10))
        victim.receive(try recompressed(by: phone, byteCount: size, at: victim.now + 6), from: 0)
        #expect(victim.events.files.count == 6)
    }

    // MARK: Stores

    @Test("M6: lines of made-up senders displace no line of another link, and the requesting neighbour gets some of each link")
    func syncStore() throws {
        var store = SyncStore()
        let anna = UntrustedPeer(seed: 23)
        let links = (1...2 as ClosedRange<UInt64>).map { MeshLinkID(rawValue: $0) }
        func insert(_ bytes: [UInt8], _ link: Int) throws {
            store.insert(try MeshFrame(decoding: bytes[...]), from: links[link])
        }
        try insert(try anna.announcement(at: 1), 0)
        for number in 0..<20 as Range<UInt64> { try insert(try anna.message("anna's \(number)", at: number), 0) }
        for sender in 0..<30 as Range<UInt64> {
            let mallory = UntrustedPeer(seed: 60_000 + sender)
            for number in 0..<30 as Range<UInt64> { try insert(try mallory.message("junk", at: 100 + number), 1) }
        }
        #expect(493...500 ~= store.count)
        let missing = store.missing(
            for: MeshSyncRequest(filter: GolombFilter(hashes: [])), limit: 100, byteLimit: 256 << 10)
        #expect(missing.count == 100 && missing.first?.packet.sender == anna.id)
        #expect(missing.count { $0.packet.sender == anna.id } == 21)
    }

    @Test("M6: links that come and go displace no packet of another machine, and none of an open link of the same")
    func syncStoreChurn() throws {
        let address = MeshLinkSource.address("one machine")
        for (honest, hostile) in [(MeshLinkSource.address("another"), address), (address, address), (nil, nil)] {
            var sync = PublicSync()
            let anna = UntrustedPeer(seed: 70)
            let link = MeshLinkID(rawValue: 1)
            func insert(_ bytes: [UInt8], _ link: MeshLinkID, _ source: MeshLinkSource?) throws {
                sync.insert(try MeshFrame(decoding: bytes[...]), from: link, of: source)
            }
            try insert(try anna.announcement(at: 1), link, honest)
            for number in 0..<60 as Range<UInt64> { try insert(try anna.message("anna's \(number)", at: number), link, honest) }
            for number in 0..<60 as Range<UInt64> {
                let hostileLink = MeshLinkID(rawValue: 2 + number)
                let mallory = UntrustedPeer(seed: 71_000 + number)
                for line in 0..<20 as Range<UInt64> {
                    try insert(try mallory.message("junk", at: 100 + line), hostileLink, hostile)
                }
                sync.removeLink(hostileLink)
            }
            let missing = sync.store.missing(
                for: MeshSyncRequest(filter: GolombFilter(hashes: [])), limit: 1_000, byteLimit: 4 << 20)
            #expect(493...500 ~= missing.count && missing.count { $0.packet.sender == anna.id } == 61)
        }
    }

    @Test("M6: a neighbour that brings others' lines faster does not make them part of its share") func syncStoreOrigin() throws
    {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 72)
        victim.receive(try anna.announcement("anna", at: victim.now), from: 0)
        for number in 0..<20 as Range<UInt64> {
            victim.receive(try anna.message("\(number)", at: victim.now + number), from: 1)
        }
        for sender in 0..<40 as Range<UInt64> {
            let mallory = UntrustedPeer(seed: 73_000 + sender)
            victim.receive(try mallory.announcement(at: victim.now, ttl: 5), from: 1)
            for number in 0..<15 as Range<UInt64> {
                victim.receive(try mallory.message("junk", at: victim.now + number), from: 1)
            }
        }
        let stored = victim.router.sync.store.missing(
            for: MeshSyncRequest(filter: GolombFilter(hashes: [])), limit: 1_000, byteLimit: 4 << 20)
        #expect(stored.count > 400 && stored.count { $0.packet.sender == anna.id } == 21)
    }

    @Test("R2, M16: what other links of an address have inflated keeps no line of its newcomer from being read")
    func inflatedByOthers() throws {
        var victim = AttackedRouter(links: 0)
        let machine = MeshLinkSource.address("one machine")
        for number in 0..<12 {
            victim.act { $0.linkUp(AttackedRouter.link(number), .stream, from: machine, now: $1) }
            let mallory = UntrustedPeer(seed: 75_000 + UInt64(number))
            victim.receive(try mallory.announcement(at: victim.now), from: number)
            var bomb = try MeshPacket(
                version: .v2, type: .fileTransfer, timestamp: victim.now, sender: mallory.id,
                payload: [UInt8](repeating: 0, count: 5_000_000)[...], signature: [UInt8](repeating: 1, count: 64)
            ).encoded()
            for copy in 0..<12 as Range<UInt8> {
                // Another timestamp.
                bomb[10] = copy
                victim.receive(bomb, from: number)
            }
        }
        let unreadCount = victim.router.unreadFrameCount
        #expect(unreadCount > 100)
        victim.act { $0.linkDown(AttackedRouter.link(11), now: $1) }
        victim.act { $0.linkUp(AttackedRouter.link(12), .stream, from: machine, now: $1) }
        let anna = UntrustedPeer(seed: 74)
        victim.receive(try anna.announcement(at: victim.now), from: 12)
        let lines = (0..<40).map { "line \($0)" }
        for (number, line) in lines.enumerated() {
            victim.receive(try anna.message(line, at: victim.now + UInt64(number)), from: 12)
        }
        #expect(victim.events.texts == lines && victim.router.unreadFrameCount == unreadCount)
    }

    @Test("R2, M12: a compressed packet is counted with what it decompresses to") func heldBytes() throws {
        let anna = UntrustedPeer(seed: 24)
        let frame = try MeshFrame(decoding: try anna.message(String(repeating: "x", count: 50_000), at: 1)[...])
        #expect(frame.bytes.count < 1_000 && frame.heldByteCount > 50_000)
        var store = SyncStore()
        store.insert(frame, from: MeshLinkID(rawValue: 1))
        #expect(store.byteCount == frame.heldByteCount)
    }

    // MARK: Fragments

    private func fragments(_ frame: [UInt8], _ id: UInt64, count: Int) -> [MeshFragment] {
        let size = (frame.count + count - 1) / count
        return (0..<count).map { index in
            MeshFragment(
                id: MeshFragment.ID(rawValue: id), index: index, total: count, originalType: .message,
                slice: frame[min(frame.count, index * size)..<min(frame.count, (index + 1) * size)])
        }
    }

    @Test("M4: forged headers and pieces of another link do not spoil a set") func poison() throws {
        var assembler = FragmentAssembler()
        let now = MonotonicInstant(nanoseconds: 1_000_000_000)
        let (good, bad) = (MeshLinkID(rawValue: 1), MeshLinkID(rawValue: 2))
        let sender = PeerID(fitting: [5])
        let frame = (0..<100).map { UInt8($0) }
        let pieces = fragments(frame, 7, count: 10)
        _ = assembler.add(pieces[0], from: sender, on: good, isExpected: true, now: now)
        // Another total, another type, other bytes under the same index.
        for (total, type) in [(3, MeshPacketType.message), (10, .fileTransfer), (9_999, .message)] {
            let forged = MeshFragment(
                id: pieces[0].id, index: 2, total: total, originalType: type, slice: [9, 9, 9])
            _ = assembler.add(forged, from: sender, on: bad, now: now)
        }
        var other = pieces[0]
        other.slice = [6, 6, 6]
        _ = assembler.add(other, from: sender, on: bad, isExpected: true, now: now)
        #expect(assembler.missing(of: pieces[0].id, from: sender, limit: 10) == Array(1..<10))
        // A forged piece that comes first spoils one attempt; then each link's set counts alone.
        var early = pieces[9]
        early.slice = [1, 1]
        _ = assembler.add(early, from: sender, on: bad, isExpected: true, now: now)
        for piece in pieces[1..<8] { _ = assembler.add(piece, from: sender, on: good, isExpected: true, now: now) }
        guard case .complete(let spoilt) = assembler.add(pieces[8], from: sender, on: good, isExpected: true, now: now) else {
            Issue.record("not complete")
            return
        }
        #expect(spoilt != frame)
        #expect(assembler.finish(pieces[8], from: sender, isGenuine: false, trusting: good) == nil)
        #expect(assembler.missing(of: pieces[0].id, from: sender, limit: 10) == [9])
        _ = assembler.add(early, from: sender, on: bad, isExpected: true, now: now)
        let last = assembler.add(pieces[9], from: sender, on: good, isExpected: true, now: now)
        #expect(last == .complete(frame))
    }

    /// Adds a piece; of the frames that become complete, only this one is genuine.
    private func add(
        _ piece: MeshFragment, _ assembler: inout FragmentAssembler, on link: UInt64, genuine: [UInt8], isExpected: Bool,
        at milliseconds: UInt64 = 0
    ) -> Bool {
        let link = MeshLinkID(rawValue: link)
        let sender = PeerID(fitting: [5])
        let outcome = assembler.add(
            piece, from: sender, on: link, isExpected: isExpected,
            now: MonotonicInstant(nanoseconds: Int64(1_000_000_000 + milliseconds * 1_000_000)))
        guard case .complete(var frame) = outcome else { return false }
        while frame != genuine {
            guard let next = assembler.finish(piece, from: sender, isGenuine: false, trusting: link) else { return false }
            frame = next
        }
        #expect(assembler.finish(piece, from: sender, isGenuine: true, trusting: link) == nil)
        return true
    }

    @Test(
        "M4: forged pieces with the right header end no packet, however many come ahead of the genuine ones",
        arguments: [true, false], [1, 2, 10, 20])
    func forgedAhead(isExpected: Bool, headStart: Int) {
        let frame = (0..<200).map { UInt8($0) }
        let pieces = fragments(frame, 7, count: 20)
        for honestLinks in [[1], [1, 2], [1, 2, 3]] as [[UInt64]] {
            var assembler = FragmentAssembler()
            var isComplete = false
            // A forger on one link is always ahead by some pieces, and begins again and again.
            for (number, piece) in pieces.enumerated() {
                for ahead in 0..<headStart {
                    var forged = pieces[(number + ahead) % 20]
                    forged.slice = [UInt8(ahead), 1][...]
                    #expect(!add(forged, &assembler, on: 9, genuine: frame, isExpected: isExpected))
                }
                #expect(!isComplete)
                isComplete = add(
                    piece, &assembler, on: honestLinks[number % honestLinks.count], genuine: frame, isExpected: isExpected)
            }
            #expect(isComplete && assembler.count == 0 && assembler.byteCount == 0, "\(honestLinks)")
        }
    }

    @Test(
        "M4: forgers on several links, who pass on some of the genuine pieces, do not block a packet that comes over one link")
    func severalForgers() {
        let frame = (0..<200).map { UInt8($0) }
        let pieces = fragments(frame, 7, count: 20)
        var assembler = FragmentAssembler()
        var isComplete = false
        for piece in pieces {
            for link in [7, 8, 9] as [UInt64] {
                var forged = piece
                if piece.index % Int(link) != 0 { forged.slice = [UInt8(link)] }
                #expect(!add(forged, &assembler, on: link, genuine: frame, isExpected: true))
            }
            isComplete = add(piece, &assembler, on: 1, genuine: frame, isExpected: true)
        }
        #expect(isComplete && assembler.count == 0)
    }

    @Test("M4: sets of links that come and go end none of an open link") func closedLinks() {
        var assembler = FragmentAssembler()
        let now = MonotonicInstant(nanoseconds: 1_000_000_000)
        let frame = (0..<100).map { UInt8($0) }
        var outcome: FragmentAssembler.Outcome?
        var churned: UInt64 = 100
        for piece in fragments(frame, 7, count: 10) {
            outcome = assembler.add(piece, from: PeerID(fitting: [5]), on: MeshLinkID(rawValue: 1), now: now)
            for _ in 0..<200 {
                churned += 1
                let junk = MeshFragment(
                    id: .init(rawValue: churned), index: 0, total: 2, originalType: .message, slice: [1, 2, 3])
                let link = MeshLinkID(rawValue: churned)
                _ = assembler.add(junk, from: PeerID(fitting: [6]), on: link, now: now)
                assembler.removeLink(link)
            }
        }
        #expect(outcome == .complete(frame))
    }

    @Test("M4: a second fragment under an index of one link is rejected, so that the genuine one still comes over another")
    func conflictingPieces() {
        let pieces = fragments((0..<100).map { UInt8($0) }, 7, count: 10)
        var assembler = FragmentAssembler()
        let (sender, now) = (PeerID(fitting: [5]), MonotonicInstant(nanoseconds: 1))
        var forged = pieces[3]
        forged.slice = [6]
        #expect(assembler.add(forged, from: sender, on: MeshLinkID(rawValue: 9), now: now) == .started)
        #expect(assembler.add(forged, from: sender, on: MeshLinkID(rawValue: 9), now: now) == .stored)
        #expect(assembler.add(pieces[3], from: sender, on: MeshLinkID(rawValue: 9), now: now) == .conflicting)
        #expect(assembler.add(pieces[3], from: sender, on: MeshLinkID(rawValue: 1), now: now) == .stored)
    }

    @Test("M4: forged sets in the sender's name on another link, or behind the same one, end no set that is being received")
    func forgedSets() throws {
        for link in [1, 2] as [UInt64] {
            var assembler = FragmentAssembler()
            let now = MonotonicInstant(nanoseconds: 1_000_000_000)
            let (good, bad) = (MeshLinkID(rawValue: 1), MeshLinkID(rawValue: link))
            let sender = PeerID(fitting: [5])
            let frame = (0..<200).map { UInt8($0) }
            let pieces = fragments(frame, 7, count: 20)
            var outcome: FragmentAssembler.Outcome?
            for piece in pieces {
                outcome = assembler.add(piece, from: sender, on: good, now: now)
                // It has begun before the flood.
                for number in 0..<(piece.index == 0 ? 0 : 40) as Range<UInt64> {
                    let forged = MeshFragment(
                        id: MeshFragment.ID(rawValue: 1_000 + number), index: 0, total: 5, originalType: .fileTransfer,
                        slice: [UInt8](repeating: 0, count: 900)[...])
                    for name in [sender, PeerID(fitting: [UInt8(number)])] {
                        _ = assembler.add(forged, from: name, on: bad, now: now)
                    }
                }
            }
            #expect(outcome == .complete(frame), "link \(link)")
            #expect(assembler.count <= 128)
        }
    }

    // MARK: Privacy

    @Test("X1: announcements do not list the neighbours") func neighbourList() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 25)
        victim.receive(try anna.announcement(at: victim.now, capabilities: .supported))
        try victim.answerChallenge(as: anna, on: 0)
        victim.run(for: .seconds(40))
        let announcements = try victim.written(.announce, on: 0).map { try MeshAnnouncement(decoding: $0.payload) }
        #expect(!announcements.isEmpty && announcements.allSatisfy { $0.neighbours == nil })
    }
}
