import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareBundles

@Suite("Attacks on what is carried")
struct CarryAttackTests {
    /// Three in a row, who know each other; the one in the middle is the attacker's to tamper with.
    private func row() -> CarryNetwork {
        var network = CarryNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        return network
    }

    @Test("M1: no change of any field of a copy crashes a carrier or gets an altered message through")
    func tampered() {
        var network = row()
        var random = SeededRandom(seed: 7)
        let message = network.outgoing("as I wrote it", from: 0, to: nil)
        var readableCount = 0
        for round in 0..<2_000 {
            let copy = BundleCopy(
                hops: 1, way: .routed, carriers: [1, 2, 3], message: message.copy.message, signature: message.copy.signature)
            let bytes = BundlePacket.copy(copy).encoded.mutated(using: &random)
            guard let packet = try? BundlePacket(decoding: bytes[...]) else { continue }
            readableCount += 1
            network.inject(packet, from: 0, to: 1)
            network.run(.milliseconds(20))
            #expect(network.texts(1).allSatisfy { $0 == "as I wrote it" }, "round \(round)")
        }
        #expect(readableCount > 200)
        // As it was written it is taken, whatever came before it under its id.
        var genuine = message.copy
        genuine.hops = 1
        network.inject(.copy(genuine), from: 0, to: 1)
        network.run(.seconds(1))
        #expect(network.texts(1) == ["as I wrote it"])
    }

    @Test("D1: a message signed with another key than the one it names is not taken")
    func forgedSender() throws {
        var network = row()
        var forged = network.outgoing("I am zero", from: 1, to: nil).copy
        forged.hops = 1
        forged.message.senderKey = network.nodes[0].keys.contact.signingKey.bytes
        network.inject(.copy(forged), from: 0, to: 1)
        // Its own message's signature, under the victim's key.
        let own = network.outgoing("I am zero", from: 1, to: nil).copy
        forged.message = own.message
        forged.message.senderKey = network.nodes[0].keys.contact.signingKey.bytes
        forged.signature = own.signature
        network.inject(.copy(forged), from: 0, to: 1)
        network.run(.seconds(5))
        #expect(network.texts(1).isEmpty && network.nodes[1].store.isEmpty)
        var genuine = own
        genuine.hops = 1
        network.inject(.copy(genuine), from: 0, to: 1)
        #expect(network.texts(1) == ["I am zero"])
    }

    @Test(
        "M6: limits, times, receivers, locks and kinds can't be altered unseen",
        arguments: [
            { $0.profile = .longReach }, { $0.created.milliseconds += 1 },
            {
                $0.receiver = .everybody
                $0.kind = .clear
                $0.lock = nil
            },
            { $0.lock = [UInt8](repeating: 1, count: 16) }, { $0.body[40] ^= 1 }, { $0.kind = .clear },
        ] as [@Sendable (inout Bundle) -> Void])
    func altered(change: @Sendable (inout Bundle) -> Void) {
        var network = row()
        var genuine = network.outgoing("mine", from: 0, to: 2).copy
        genuine.hops = 1
        var copy = genuine
        change(&copy.message)
        #expect(copy != genuine)
        network.inject(.copy(copy), from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.nodes[1].store.isEmpty)
        #expect(network.texts(1).isEmpty && network.texts(2).isEmpty)
        network.inject(.copy(genuine), from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["mine"])
    }

    @Test("M5: hop counts and tracklists that lie make nobody send more, and keep nothing from its receiver")
    func lyingHops() {
        var network = row()
        let receiver = network.address(2)
        network.tamper = { packet, from, _ in
            guard case .copy(var copy) = packet, from == 1 else { return packet }
            copy.hops = 1
            copy.carriers = Array(repeating: receiver.mark(in: copy.message.id), count: 50)
            return .copy(copy)
        }
        let direct = network.send("to two", from: 0, to: 2)
        let all = network.send("to all", from: 0, to: nil)
        network.run(.seconds(200))
        #expect(network.texts(2).sorted() == ["to all", "to two"])
        #expect(network.copies[direct]! <= 4 && network.copies[all]! <= 4)
    }

    @Test("M5: a copy that has used up its hops goes no further, one beyond is not taken")
    func hopLimit() throws {
        let profile = try PropagationProfile(
            hopLimit: 2, timeToLive: 1_000, sharingTime: 1_000, maximumPropagation: 10, tracklistLimit: 10)
        var network = CarryNetwork(5)
        for node in 0..<4 { network.connect(node, node + 1) }
        network.run(.seconds(130))
        network.send("two hops", from: 0, to: nil, profile: profile)
        network.run(.seconds(300))
        #expect((1...4).map { network.texts($0).count } == [1, 1, 0, 0])
        var copy = network.outgoing("from far", from: 0, to: nil, profile: profile).copy
        for hops in [0, 3, 65_535] {
            copy.hops = hops
            network.inject(.copy(copy), from: 0, to: 1)
        }
        #expect(network.texts(1).count == 1)
    }

    @Test("M2: one node forwards a message at most as often as its profile says")
    func maximumPropagation() throws {
        let profile = try PropagationProfile(
            hopLimit: 10, timeToLive: 10_000, sharingTime: 1_000, maximumPropagation: 3, tracklistLimit: 0)
        var network = CarryNetwork(9)
        let id = network.send("few", from: 0, to: nil, profile: profile)
        for node in 1..<9 {
            network.connect(0, node)
            network.run(.seconds(20))
            network.cut(0, node)
        }
        #expect(network.copies[id] == 3)
    }

    @Test("M7: a message that comes again, from anywhere and after a restart, is delivered once")
    func replayed() {
        var network = row()
        var seen: [BundleCopy] = []
        network.tamper = { packet, _, _ in
            if case .copy(let copy) = packet { seen.append(copy) }
            return packet
        }
        network.send("once", from: 0, to: 2)
        network.send("all once", from: 0, to: nil)
        network.run(.seconds(30))
        #expect(Set(seen.map(\.message)).count >= 2)
        for copy in seen { network.inject(.copy(copy), from: 1, to: 2) }
        network.kill(2)
        network.start(2)
        network.run(.seconds(5))
        for copy in seen { network.inject(.copy(copy), from: 1, to: 2) }
        network.run(.seconds(100))
        #expect(network.texts(2).sorted() == ["all once", "once"])
    }

    @Test("M6: a forged acknowledgement ends nothing, and is not passed on by who carries the message")
    func forgedAcknowledgement() {
        var network = row()
        network.kill(2)
        let id = network.send("waits", from: 0, to: 2)
        network.run(.seconds(5))
        #expect(network.nodes[1].store[id] != nil)
        var forger = OutgoingMessage(
            acknowledging: BundleAcknowledgement(id: id, secret: [UInt8](repeating: 9, count: 16)),
            from: network.nodes[1].keys, to: network.address(0), isPrivate: false, profile: .standard,
            created: network.moment(1).wall, random: &network.random
        ).copy
        forger.hops = 1
        for way in [BundleCopy.Way.routed, .spread] {
            forger.way = way
            network.inject(.copy(forger), from: 1, to: 0)
            network.inject(.copy(forger), from: 0, to: 1)
        }
        network.run(.seconds(60))
        #expect(!network.nodes[0].events.contains(.delivered(id)))
        network.start(2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["waits"])
        #expect(network.nodes[0].events.contains(.delivered(id)))
    }

    @Test("M6: who fills the store pushes out only what came from him")
    func quota() {
        var settings = BundleRouterSettings()
        settings.quota.messageCount = 40
        settings.quota.messageCountPerDepositor = 30
        var network = CarryNetwork(4, settings: settings)
        network.connect(0, 1)
        network.connect(2, 1)
        network.run(.seconds(5))
        let honest = (0..<8).map { network.send("\($0)", from: 0, to: 3) }
        network.run(.seconds(60))
        for number in 0..<300 {
            var copy = network.outgoing("flood \(number)", from: 2, to: 3).copy
            copy.hops = 1
            network.inject(.copy(copy), from: 2, to: 1)
        }
        // The eight, and as many as one may leave.
        #expect(network.nodes[1].store.count == 38)
        for id in honest { #expect(network.nodes[1].store[id] != nil) }
    }

    @Test("M6: in one neighbour's share no sender pushes out another's, who sends less")
    func fairShare() {
        var settings = BundleRouterSettings()
        settings.quota.messageCountPerDepositor = 20
        var network = CarryNetwork(4, settings: settings)
        network.connect(2, 1)
        network.run(.seconds(5))
        var modest = network.outgoing("modest", from: 0, to: 3).copy
        modest.hops = 2
        network.inject(.copy(modest), from: 2, to: 1)
        for number in 0..<100 {
            var copy = network.outgoing("flood \(number)", from: 2, to: 3).copy
            copy.hops = 1
            network.inject(.copy(copy), from: 2, to: 1)
        }
        #expect(network.nodes[1].store[modest.message.id] != nil)
        #expect(network.nodes[1].store.count == 20)
    }

    @Test("M6: what had to make room is taken again when it comes again")
    func comesAgain() {
        var settings = BundleRouterSettings()
        settings.quota.messageCountPerDepositor = 3
        var network = CarryNetwork(4, settings: settings)
        network.connect(2, 1)
        network.run(.seconds(5))
        let copies = (0..<4).map { number in
            var copy = network.outgoing("\(number)", from: 2, to: 3).copy
            copy.hops = 1
            // The oldest goes; all are of one moment otherwise.
            network.inject(.copy(copy), from: 2, to: 1)
            network.run(.seconds(1))
            return copy
        }
        let kept = copies.map { network.nodes[1].store[$0.message.id] != nil }
        #expect(kept == [false, true, true, true])
        network.inject(.copy(copies[0]), from: 2, to: 1)
        #expect(network.nodes[1].store[copies[0].message.id] != nil)
    }

    @Test("M7: a flood of ids from one neighbour makes nobody forget what another brought")
    func idFlood() {
        var known = KnownIDs(capacity: 100)
        var random = SeededRandom(seed: 3)
        let until = WallTime(milliseconds: 1_000_000)
        func id() -> BundleID { BundleID(bytes: random.bytes(16))! }
        let (honest, attacker) = (EndpointID(rawValue: 1), EndpointID(rawValue: 2))
        let kept = (0..<40).map { _ in id() }
        for id in kept { known.insert(id, until: until, from: honest) { _ in false } }
        for _ in 0..<5_000 { known.insert(id(), until: until, from: attacker) { _ in false } }
        #expect(known.count == 100)
        #expect(kept.allSatisfy { known.contains($0) })
    }

    @Test("R9: forged signatures are checked at a rate, and honest neighbours are heard all the same")
    func forgedSignatures() {
        var settings = BundleRouterSettings()
        settings.signatureBurst = 50
        settings.signaturesPerSecond = 10
        nonisolated(unsafe) var checks = 0
        settings.isSigned = { copy, _ in
            checks += 1
            return copy.message.isValid(copy.signature)
        }
        var network = CarryNetwork(3, settings: settings)
        network.connect(0, 1)
        network.connect(2, 1)
        for number in 0..<1_000 {
            var copy = network.outgoing("x \(number)", from: 2, to: nil).copy
            copy.hops = 1
            copy.signature[3] ^= 1
            network.inject(.copy(copy), from: 2, to: 1)
        }
        #expect((1...50).contains(checks))
        network.send("honest", from: 0, to: 1)
        network.run(.seconds(10))
        #expect(network.texts(1) == ["honest"])
    }

    @Test("D5: messages from the future are told of and not kept, old ones are over")
    func wrongClocks() {
        var network = row()
        network.clockOffsets[0] = .seconds(86_400)
        network.send("from tomorrow", from: 0, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2).isEmpty)
        #expect(network.nodes[1].store.isEmpty)
        func warningCount() -> Int {
            network.nodes[1].events.count { if case .clockDiffers = $0 { true } else { false } }
        }
        #expect(warningCount() == 1)
        // Told once in a while, not with each.
        network.send("from tomorrow, too", from: 0, to: 2)
        network.run(.seconds(60))
        #expect(warningCount() == 1)
        network.clockOffsets[0] = .seconds(300)
        network.send("a little early", from: 0, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["a little early"])
        network.clockOffsets[0] = .seconds(-100_000)
        network.send("of long ago", from: 0, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["a little early"])
    }

    @Test("M1: a neighbour that claims to be the root and to reach everybody holds messages up, but not for good")
    func blackHole() {
        var network = CarryNetwork(4)
        // 0 – 1 – 2, and the attacker 3 beside 1.
        network.connect(0, 1)
        network.connect(1, 2)
        network.connect(1, 3)
        let low = EndpointID(rawValue: 0)
        let marks = (0..<3).map { ReachabilityFilter.mark(of: network.address($0)) }
        network.tamper = { packet, from, _ in
            guard from == 3 else { return packet }
            switch packet {
            case .report(let report):
                return .report(
                    SpanningTreeReport(
                        place: .init(root: low, round: 7, distance: 0), isToParent: false, token: report.token,
                        summary: report.summary, reach: ReachabilityFilter(marks: marks)))
            case .copy: return nil
            case .receipt: return packet
            }
        }
        network.run(.seconds(130))
        let id = network.send("past the hole", from: 0, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["past the hole"])
        network.run(.seconds(60))
        #expect(network.nodes[0].events.contains(.delivered(id)))
    }
}
