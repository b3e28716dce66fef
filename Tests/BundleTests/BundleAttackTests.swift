import NearshareBase
import NearshareCrypto
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareBundles

@Suite("attacks on bundles")
struct CarryAttackTests {
    /// Three nodes in a row that have selected their parents.
    private func row() -> BundleNetwork {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        return network
    }

    @Test("B1: no change of any field of a copy crashes a router or delivers an altered bundle")
    func tampered() {
        var network = row()
        var random = SeededRandom(seed: 7)
        let message = network.outgoing("as I wrote it", from: 0, to: nil)
        var readableCount = 0
        for round in 0..<2_000 {
            let copy = BundleCopy(
                hopCount: 1, forwarding: .routed, visitedTags: [1, 2, 3], bundle: message.copy.bundle,
                signature: message.copy.signature)
            let bytes = BundlePacket.copy(copy).encoded.mutated(using: &random)
            guard let packet = try? BundlePacket(decoding: bytes[...]) else { continue }
            readableCount += 1
            network.inject(packet, from: 0, to: 1)
            network.run(.milliseconds(20))
            #expect(network.texts(1).allSatisfy { $0 == "as I wrote it" }, "round \(round)")
        }
        #expect(readableCount > 200)
        // The original is accepted, whatever came before it under its ID.
        var genuine = message.copy
        genuine.hopCount = 1
        network.inject(.copy(genuine), from: 0, to: 1)
        network.run(.seconds(1))
        #expect(network.texts(1) == ["as I wrote it"])
    }

    @Test("a message of a blocked peer is not delivered, and its repetition is once the peer is unblocked")
    func blocked() {
        let isBlocked = Mutex(true)
        var settings = BundleRouterSettings()
        settings.isBlocked = { _ in isBlocked.withLock { $0 } }
        var network = BundleNetwork(2, settings: settings)
        network.connect(0, 1)
        network.run(.seconds(130))
        var copy = network.outgoing("please", from: 0, to: 1).copy
        copy.hopCount = 1
        network.inject(.copy(copy), from: 0, to: 1)
        network.run(.seconds(5))
        #expect(network.texts(1).isEmpty)
        isBlocked.withLock { $0 = false }
        for _ in 0..<2 { network.inject(.copy(copy), from: 0, to: 1) }
        network.run(.seconds(5))
        #expect(network.texts(1) == ["please"])
    }

    @Test("B7: a bundle signed with another key than the one it names is not accepted")
    func forgedSender() throws {
        var network = row()
        var forged = network.outgoing("I am zero", from: 2, to: nil).copy
        forged.hopCount = 1
        forged.bundle.senderKey = network.nodes[0].keys.publicKeys.signingKey.bytes
        network.inject(.copy(forged), from: 0, to: 1)
        // The signature of the attacker's own bundle, under the victim's key.
        let own = network.outgoing("I am zero", from: 2, to: nil).copy
        forged.bundle = own.bundle
        forged.bundle.senderKey = network.nodes[0].keys.publicKeys.signingKey.bytes
        forged.signature = own.signature
        network.inject(.copy(forged), from: 0, to: 1)
        network.run(.seconds(5))
        #expect(network.texts(1).isEmpty && network.nodes[1].store.isEmpty)
        var genuine = own
        genuine.hopCount = 1
        network.inject(.copy(genuine), from: 0, to: 1)
        #expect(network.texts(1) == ["I am zero"])
    }

    @Test(
        "B5: an altered profile, time, destination, hash lock or kind is detected",
        arguments: [
            { $0.profile = .longReach }, { $0.creationTime.milliseconds += 1 },
            {
                $0.destination = .everyone
                $0.kind = .clear
                $0.hashLock = nil
            },
            { $0.hashLock = [UInt8](repeating: 1, count: 16) }, { $0.body[40] ^= 1 }, { $0.kind = .clear },
        ] as [@Sendable (inout Bundle) -> Void])
    func altered(change: @Sendable (inout Bundle) -> Void) {
        var network = row()
        var genuine = network.outgoing("mine", from: 0, to: 2).copy
        genuine.hopCount = 1
        var copy = genuine
        change(&copy.bundle)
        #expect(copy != genuine)
        network.inject(.copy(copy), from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.nodes[1].store.isEmpty)
        #expect(network.texts(1).isEmpty && network.texts(2).isEmpty)
        network.inject(.copy(genuine), from: 0, to: 1)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["mine"])
    }

    @Test("B4: false hop counts and lists of visited nodes cause no more copies, and withhold nothing from its destination")
    func lyingHops() {
        var network = row()
        let receiver = network.address(2)
        network.tamper = { packet, from, _ in
            guard case .copy(var copy) = packet, from == 1 else { return packet }
            copy.hopCount = 1
            copy.visitedTags = Array(repeating: receiver.visitTag(in: copy.bundle.id), count: 50)
            return .copy(copy)
        }
        let direct = network.send("to two", from: 0, to: 2)
        let all = network.send("to all", from: 0, to: nil)
        network.run(.seconds(200))
        #expect(network.texts(2).sorted() == ["to all", "to two"])
        #expect(network.copies[direct]! <= 4 && network.copies[all]! <= 4)
    }

    @Test("B2: a neighbour whose summary vectors list nothing does not draw every bundle again and again")
    func emptySummaries() {
        var network = row()
        for number in 0..<40 { network.send(String(repeating: "\(number) ", count: 50), from: 0, to: nil) }
        network.run(.seconds(1))
        #expect(network.texts(2).count == 40)
        let before = network.copies.values.reduce(0, +)
        for round in 0..<20 as Range<UInt32> {
            network.run(.seconds(25))
            let report = SpanningTreeReport(
                position: network.nodes[2].router!.tree.position, isToParent: false,
                summary: SummaryVector(of: [], turn: 1, salt: round))
            network.inject(.report(report), from: 2, to: 1)
        }
        let drawn = network.copies.values.reduce(0, +) - before
        #expect(drawn > 20 && drawn < 250, "\(drawn)")
    }

    @Test("B4: a copy that a neighbour has ended before its path goes on, as soon as it arrives over fewer hops")
    func endedPath() {
        var network = row()
        var copy = network.outgoing("to all", from: 0, to: nil).copy
        copy.hopCount = copy.bundle.profile.hopLimit
        copy.forwarding = .epidemic
        network.inject(.copy(copy), from: 0, to: 1)
        network.run(.seconds(100))
        #expect(network.texts(1) == ["to all"] && network.texts(2).isEmpty)
        copy.hopCount = 1
        network.inject(.copy(copy), from: 0, to: 1)
        network.run(.seconds(1))
        #expect(network.texts(1) == ["to all"] && network.texts(2) == ["to all"])
    }

    @Test("B4: a copy at its hop limit is not forwarded, one beyond it is not accepted")
    func hopLimit() throws {
        let profile = try PropagationProfile(
            hopLimit: 2, timeToLiveSeconds: 1_000, sharingTimeMilliseconds: 1_000, maximumPropagation: 10, tracklistLimit: 10)
        var network = BundleNetwork(5)
        for node in 0..<4 { network.connect(node, node + 1) }
        network.run(.seconds(130))
        network.send("two hops", from: 0, to: nil, profile: profile)
        network.run(.seconds(300))
        #expect((1...4).map { network.texts($0).count } == [1, 1, 0, 0])
        var copy = network.outgoing("from far", from: 0, to: nil, profile: profile).copy
        for hops in [0, 3, 65_535] {
            copy.hopCount = hops
            network.inject(.copy(copy), from: 0, to: 1)
        }
        #expect(network.texts(1).count == 1)
    }

    @Test("B2: one node forwards a bundle at most as often as its profile allows")
    func maximumPropagation() throws {
        let profile = try PropagationProfile(
            hopLimit: 10, timeToLiveSeconds: 10_000, sharingTimeMilliseconds: 1_000, maximumPropagation: 3, tracklistLimit: 0)
        var network = BundleNetwork(9)
        let id = network.send("few", from: 0, to: nil, profile: profile)
        for node in 1..<9 {
            network.connect(0, node)
            network.run(.seconds(20))
            network.cut(0, node)
        }
        #expect(network.copies[id] == 3)
    }

    @Test("B6: a bundle that is replayed, from any node and after a restart, is delivered once")
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
        #expect(Set(seen.map(\.bundle)).count >= 2)
        for copy in seen { network.inject(.copy(copy), from: 1, to: 2) }
        network.kill(2)
        network.start(2)
        network.run(.seconds(5))
        for copy in seen { network.inject(.copy(copy), from: 1, to: 2) }
        network.run(.seconds(100))
        #expect(network.texts(2).sorted() == ["all once", "once"])
    }

    @Test("B5: a forged acknowledgement deletes nothing, and is not forwarded by nodes that store the bundle")
    func forgedAcknowledgement() throws {
        var network = row()
        network.kill(2)
        let id = network.send("waits", from: 0, to: 2)
        network.run(.seconds(5))
        let stored = try #require(network.nodes[1].store[id])
        var forged = OutgoingBundle(
            acknowledging: BundleAcknowledgement(id: id, secret: [UInt8](repeating: 9, count: 16)),
            of: stored.copy.bundle,
            from: network.nodes[1].keys, created: network.moment(1).wall, random: &network.random
        ).copy
        forged.hopCount = 1
        for mode in [BundleCopy.ForwardingMode.routed, .epidemic] {
            forged.forwarding = mode
            network.inject(.copy(forged), from: 1, to: 0)
            network.inject(.copy(forged), from: 0, to: 1)
        }
        network.run(.seconds(60))
        #expect(!network.nodes[0].events.contains(.delivered(id)))
        network.start(2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["waits"])
        #expect(network.nodes[0].events.contains(.delivered(id)))
    }

    @Test("B5: a neighbour that fills the store displaces only bundles that it has handed over itself")
    func quota() {
        var settings = BundleRouterSettings()
        settings.quota.bundleCount = 40
        settings.quota.bundleCountPerHost = 30
        var network = BundleNetwork(4, settings: settings)
        network.connect(0, 1)
        network.connect(2, 1)
        network.run(.seconds(5))
        let honest = (0..<8).map { network.send("\($0)", from: 0, to: 3) }
        network.run(.seconds(60))
        for number in 0..<300 {
            var copy = network.outgoing("flood \(number)", from: 2, to: 3).copy
            copy.hopCount = 1
            network.inject(.copy(copy), from: 2, to: 1)
        }
        // The eight, and the share of one neighbour.
        #expect(network.nodes[1].store.count == 38)
        for id in honest { #expect(network.nodes[1].store[id] != nil) }
    }

    @Test("B5, M6: keys that one host changes displace no bundle of an honest neighbour, also after a restart")
    func changingKeys() {
        var settings = BundleRouterSettings()
        settings.quota.bundleCount = 60
        var network = BundleNetwork(3, settings: settings)
        network.connect(0, 1, host: BundleHost(address: "10.0.0.1"))
        network.run(.seconds(5))
        let honest = (0..<20).map { network.send("\($0)", from: 0, to: 2) }
        network.run(.seconds(60))
        #expect(network.nodes[1].store.count == 20)
        for round in 0..<2 {
            if round == 1 {
                network.kill(1)
                network.start(1)
            }
            for _ in 0..<30 {
                network.addNode()
                let attacker = network.nodes.count - 1
                network.connect(attacker, 1, host: BundleHost(address: "10.0.0.9"))
                for number in 0..<3 {
                    var copy = network.outgoing("made up \(number)", from: attacker, to: 2).copy
                    copy.hopCount = 1
                    network.inject(.copy(copy), from: attacker, to: 1)
                }
                network.cut(attacker, 1)
            }
            #expect(network.nodes[1].store.count == 60)
            #expect(honest.allSatisfy { network.nodes[1].store[$0] != nil }, "round \(round)")
        }
    }

    @Test("B5: within the share of one neighbour a source displaces none that sends less")
    func fairShare() {
        var settings = BundleRouterSettings()
        settings.quota.bundleCountPerHost = 20
        var network = BundleNetwork(4, settings: settings)
        network.connect(2, 1)
        network.run(.seconds(5))
        var modest = network.outgoing("modest", from: 0, to: 3).copy
        modest.hopCount = 2
        network.inject(.copy(modest), from: 2, to: 1)
        for number in 0..<100 {
            var copy = network.outgoing("flood \(number)", from: 2, to: 3).copy
            copy.hopCount = 1
            network.inject(.copy(copy), from: 2, to: 1)
        }
        #expect(network.nodes[1].store[modest.bundle.id] != nil)
        #expect(network.nodes[1].store.count == 20)
    }

    /// Hands node 1, which has room for three, four copies of which it evicts the first.
    private func evicted(to destination: Int?) -> (network: BundleNetwork, first: BundleCopy) {
        var settings = BundleRouterSettings()
        settings.quota.bundleCountPerHost = 3
        var network = BundleNetwork(4, settings: settings)
        network.connect(2, 1)
        network.run(.seconds(5))
        let copies = (0..<4).map { number in
            var copy = network.outgoing("\(number)", from: 2, to: destination).copy
            copy.hopCount = 1
            // The oldest is evicted: creation times have to differ.
            network.inject(.copy(copy), from: 2, to: 1)
            network.run(.seconds(1))
            return copy
        }
        let kept = copies.map { network.nodes[1].store[$0.bundle.id] != nil }
        #expect(kept == [false, true, true, true])
        return (network, copies[0])
    }

    @Test("B5: an evicted bundle is accepted when it comes again")
    func comesAgain() {
        var (network, first) = evicted(to: 3)
        network.inject(.copy(first), from: 2, to: 1)
        #expect(network.nodes[1].store[first.bundle.id] != nil)
    }

    @Test("B5, B6: one for everyone that was evicted is not delivered a second time")
    func comesAgainForEveryone() {
        var (network, first) = evicted(to: nil)
        network.run(.seconds(1_200))
        network.inject(.copy(first), from: 2, to: 1)
        #expect(network.texts(1) == ["0", "1", "2", "3"])
    }

    @Test("B6: a flood of IDs from one host does not displace those of another")
    func idFlood() {
        var seen = SeenBundles(capacity: 100)
        var random = SeededRandom(seed: 3)
        let expiry = WallTime(milliseconds: 1_000_000)
        func id() -> BundleID { BundleID(bytes: random.bytes(16))! }
        let (honest, attacker) = (BundleHost(address: "10.0.0.1"), BundleHost(link: 1))
        let kept = (0..<40).map { _ in id() }
        for id in kept { seen.insert(id, expiry: expiry, from: honest) { _ in false } }
        for _ in 0..<5_000 { seen.insert(id(), expiry: expiry, from: attacker) { _ in false } }
        #expect(seen.count == 100)
        #expect(kept.allSatisfy { seen.contains($0) })
    }

    @Test("B11: new keys on eight links of one host, and later ones, have one rate of checks; other hosts have theirs")
    func forgedSignatures() {
        var settings = BundleRouterSettings()
        settings.signatureBurst = 50
        settings.signaturesPerSecond = 10
        nonisolated(unsafe) var checks = 0
        settings.isSigned = { copy, _ in
            checks += 1
            return copy.bundle.isValid(copy.signature)
        }
        var network = BundleNetwork(2, settings: settings)
        network.connect(0, 1)
        for round in 0..<2 {
            for _ in 0..<8 {
                network.addNode()
                let attacker = network.nodes.count - 1
                network.connect(attacker, 1, host: BundleHost(address: "10.0.0.9"))
                for number in 0..<100 {
                    var copy = network.outgoing("x \(number)", from: attacker, to: nil).copy
                    copy.hopCount = 1
                    copy.signature[3] ^= 1
                    network.inject(.copy(copy), from: attacker, to: 1)
                }
            }
            // The burst, and the share of the host.
            #expect((50...51).contains(checks), "round \(round)")
            for attacker in 2..<network.nodes.count { network.cut(attacker, 1) }
        }
        network.send("honest", from: 0, to: 1)
        network.run(.seconds(10))
        #expect(network.texts(1) == ["honest"])
    }

    @Test("B5, B11: bundles by new keys of one host are stored at one rate, and a contact there hands over all of its own")
    func storageRate() {
        let contact = BundleNetwork(1).address(0)
        var settings = BundleRouterSettings()
        settings.isContact = { $0 == contact }
        (settings.storedByteBurst, settings.storedBytesPerSecond) = (100_000, 10_000)
        var network = BundleNetwork(3, settings: settings)
        let host = BundleHost(address: "10.0.0.9")
        network.connect(0, 1, host: host)
        func handOver(_ count: Int, byteCount: Int, from sender: Int) -> [BundleID] {
            (0..<count).map { number in
                let text = "\(number) " + String(repeating: "x", count: byteCount)
                var copy = network.outgoing(text, from: sender, to: 2).copy
                copy.hopCount = 1
                network.inject(.copy(copy), from: sender, to: 1)
                return copy.bundle.id
            }
        }
        for _ in 0..<8 {
            network.addNode()
            let attacker = network.nodes.count - 1
            network.connect(attacker, 1, host: host)
            _ = handOver(40, byteCount: 1_500, from: attacker)
            network.run(.seconds(1))
            network.cut(attacker, 1)
        }
        let stored = network.nodes[1].store.values.reduce(0) { $0 + $1.copy.bundle.quotaByteCount }
        // The burst, what was refilled within eight seconds, and the share.
        #expect((150_000...100_000 + 8 * 10_000 + 2 * Bundle.maximumQuotaByteCount).contains(stored))
        let theirs = handOver(60, byteCount: 100, from: 0)
        #expect(theirs.allSatisfy { network.nodes[1].store[$0] != nil })
        // Another node forwards one of the contact, while its host has nothing left.
        network.addNode()
        let relay = network.nodes.count - 1
        network.connect(relay, 1, host: host)
        _ = handOver(40, byteCount: 1_500, from: relay)
        var copy = network.outgoing("over a relay", from: 0, to: 2).copy
        copy.hopCount = 2
        network.inject(.copy(copy), from: relay, to: 1)
        #expect(network.nodes[1].store[copy.bundle.id] != nil)
    }

    @Test("B5: acknowledgements that others cause have a limit of their own, and leave this node's messages their room")
    func acknowledgements() {
        var settings = BundleRouterSettings()
        (settings.quota.acknowledgementCount, settings.quota.ownBundleCount) = (10, 5)
        var network = BundleNetwork(2, settings: settings)
        network.connect(0, 1)
        for number in 0..<30 {
            var copy = network.outgoing("\(number)", from: 0, to: 1).copy
            copy.hopCount = 1
            network.inject(.copy(copy), from: 0, to: 1)
        }
        #expect(network.texts(1).count == 30 && network.nodes[1].store.count == 10)
        network.send("mine", from: 1, to: 0)
        network.run(.seconds(5))
        #expect(network.texts(0) == ["mine"])
    }

    @Test(
        "B5: a host that has any number of bundles acknowledged displaces its own acknowledgements alone",
        arguments: [true, false])
    func acknowledgementsOfHosts(isPrivate: Bool) {
        var settings = BundleRouterSettings()
        settings.quota.acknowledgementCount = 10
        var network = BundleNetwork(3, settings: settings)
        network.connect(0, 1, host: BundleHost(address: "10.0.0.1"))
        network.connect(2, 1, host: BundleHost(address: "10.0.0.9"))
        func handOver(_ count: Int, from sender: Int) {
            for number in 0..<count {
                var copy = network.outgoing("\(number)", from: sender, to: 1, isPrivate: isPrivate).copy
                copy.hopCount = 1
                network.inject(.copy(copy), from: sender, to: 1)
            }
        }
        handOver(3, from: 0)
        let honest = Set(network.nodes[1].store.keys)
        handOver(30, from: 2)
        let stored = Set(network.nodes[1].store.keys)
        #expect(honest.count == 3 && stored.count == 10 && honest.isSubset(of: stored))
    }

    @Test("B8: bundles from the future are reported and not stored, old ones have expired")
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
        // One warning for each sender.
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

    @Test("B8: a warning about a clock names the key that has signed, once, and made-up keys cause few")
    func clockWarnings() {
        var network = row()
        network.clockOffsets[0] = .seconds(86_400)
        func warned() -> [EndpointID] {
            network.nodes[1].events.compactMap { if case .clockDiffers(of: let sender, by: _) = $0 { sender } else { nil } }
        }
        var forged = network.outgoing("not signed", from: 0, to: nil).copy
        forged.hopCount = 1
        forged.signature[3] ^= 1
        network.inject(.copy(forged), from: 0, to: 1)
        #expect(warned().isEmpty)
        for number in 0..<3 { network.send("\(number)", from: 0, to: 2) }
        network.run(.seconds(60))
        #expect(warned() == [network.address(0)])
        // Each private message is signed by another key.
        for number in 0..<20 { network.send("\(number)", from: 0, to: 2, isPrivate: true) }
        network.run(.seconds(60))
        #expect(warned().count == 4)
    }

    @Test("B1: a neighbour that claims to be the root and to reach every node delays bundles, but does not stop them")
    func blackHole() {
        var network = BundleNetwork(4)
        // 0 – 1 – 2, and the attacker 3 linked to 1.
        network.connect(0, 1)
        network.connect(1, 2)
        network.connect(1, 3)
        let low = EndpointID(rawValue: 0)
        let marks = (0..<3).map { ReachabilityFilter.tag(of: network.address($0)) }
        network.tamper = { packet, from, _ in
            guard from == 3 else { return packet }
            switch packet {
            case .report(let report):
                return .report(
                    SpanningTreeReport(
                        position: .init(root: low, epoch: 7, distance: 0), isToParent: false, token: report.token,
                        summary: report.summary, reachability: ReachabilityFilter(tags: marks)))
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
