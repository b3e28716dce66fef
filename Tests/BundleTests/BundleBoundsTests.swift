import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareBundles

@Suite("bounds of bundles, and what untrusted nodes learn")
struct CarryBoundsTests {
    private func row() -> BundleNetwork {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        return network
    }

    private func copies(_ network: inout BundleNetwork, _ body: (inout BundleNetwork) -> Void) -> [BundleCopy] {
        var copies: [BundleCopy] = []
        network.tamper = { packet, _, _ in
            if case .copy(let copy) = packet { copies.append(copy) }
            return packet
        }
        body(&network)
        network.tamper = nil
        return copies
    }

    // MARK: Amounts

    @Test("B9: any number of neighbours, sources, roots and receipts stays within the bounds of memory")
    func manyNames() {
        var settings = BundleRouterSettings()
        settings.signatureBurst = 1_000
        var network = BundleNetwork(2, settings: settings)
        network.connect(0, 1)
        var random = SeededRandom(seed: 5)
        let moment = network.moment(1)
        for _ in 0..<5_000 {
            network.nodes[1].router!.neighbourUp(
                EndpointID(rawValue: random.next()), link: BundleLink(isRadio: false), now: moment)
        }
        #expect(network.nodes[1].router!.neighbourCount == 64)
        // Twice as many as there are routes, the largest of the tables. With over 512 bundles each of the 64 neighbours would be
        // sent summary vectors of its own.
        for number in 0..<256 {
            let keys = RouterKeys(
                agreementKey: try! AgreementPrivateKey(seed: random.bytes(32)),
                signingKey: try! SigningPrivateKey(seed: random.bytes(32)))
            var copy = OutgoingBundle(
                [1, 0x61, 0x78], from: keys, to: nil, isSealed: false, isPrivate: false, profile: .shortReach,
                created: network.moment(0).wall, random: &random
            ).copy
            copy.hopCount = 1
            network.inject(.copy(copy), from: 0, to: 1)
            let position = TreePosition(root: EndpointID(rawValue: random.next()), epoch: UInt32(number), distance: 1)
            let report = SpanningTreeReport(position: position, isToParent: number % 2 == 0, token: random.next())
            network.inject(.report(report), from: 0, to: 1)
            for _ in 0..<3 { network.inject(.receipt((0..<64).map { _ in random.next() }), from: 0, to: 1) }
        }
        #expect(network.nodes[1].router!.forwarder.routeCount <= 128)
        #expect(network.nodes[1].router!.tree.silentRootCount <= 16)
        #expect(network.nodes[1].router!.byteCount < 1 << 20)
        // Everything expires.
        network.run(.seconds(4_000))
        #expect(network.nodes[1].router!.bundleCount == 0)
        #expect(network.nodes[1].router!.byteCount < 64 << 10)
    }

    @Test("B6: after a restart stored bundles are recognised, and of too many deliveries those that expire last")
    func manyDeliveries() {
        var network = BundleNetwork(2)
        network.connect(0, 1)
        let stored = network.send("for everyone", from: 0, to: nil)
        network.run(.seconds(5))
        network.kill(1)
        var random = SeededRandom(seed: 6)
        let ids = (0..<9_000).map { _ in BundleID(bytes: random.bytes(16))! }
        let start = network.moment(1).wall.milliseconds + 3_600_000
        network.nodes[1].delivered = ids.enumerated().map { number, id in
            (id: id, expiry: WallTime(milliseconds: start + Int64(number) * 1_000))
        }
        network.start(1)
        let seen = network.nodes[1].router!.index.seen
        #expect(seen.count == 8_192 && seen.contains(stored))
        #expect(ids.filter { seen.contains($0) } == Array(ids.suffix(8_191)))
    }

    @Test("B10: filters that claim more than their bytes hold cost no more than their bytes")
    func inflation() throws {
        var network = row()
        let position = TreePosition(root: network.address(0), epoch: 9, distance: 0)
        for parameter in [0, 1, 26] as [UInt8] {
            for fill in [0, 0x55, 0xff] as [UInt8] {
                let reach = try ReachabilityFilter(
                    decoding: ([parameter] + [UInt8](repeating: fill, count: ReachabilityFilter.maximumByteCount - 1))[...])
                #expect(reach.tags.count <= 8 * ReachabilityFilter.maximumByteCount)
                network.inject(
                    .report(SpanningTreeReport(position: position, isToParent: true, reachability: reach)), from: 0, to: 1)
                network.run(.seconds(3))
            }
        }
        #expect(network.nodes[1].router!.byteCount < 128 << 10)
        #expect(throws: MalformedInput.self) {
            try ReachabilityFilter(decoding: [UInt8](repeating: 0, count: ReachabilityFilter.maximumByteCount + 1)[...])
        }
        // Bundles are still delivered.
        network.send("past the giant", from: 1, to: 2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["past the giant"])
    }

    @Test("B10: structured content that claims more elements than it has, or is nested too deeply, is rejected and harmless")
    func deepContent() throws {
        var network = row()
        let bodies: [[UInt8]] = [
            [1] + [UInt8](repeating: 0x81, count: 2_000), [1, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [1, 0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1, 0x5b, 0, 0, 0, 1, 0, 0, 0, 0], [],
        ]
        for body in bodies {
            var copy = OutgoingBundle(
                body, from: network.nodes[0].keys, to: nil, isSealed: false, isPrivate: false, profile: .standard,
                created: network.moment(0).wall, random: &network.random
            ).copy
            copy.hopCount = 1
            network.inject(.copy(copy), from: 0, to: 1)
            #expect(throws: MalformedInput.self) { try BundleContent(decoding: body[...]) }
        }
        network.run(.seconds(10))
        #expect(network.texts(2).isEmpty)
        network.send("still there", from: 0, to: 2)
        network.run(.seconds(10))
        #expect(network.texts(2) == ["still there"])
    }

    @Test("B9: extreme numbers do not overflow")
    func extremes() throws {
        var network = row()
        let ends = [0, 1, 1 << 31 - 1, 1 << 31, .max] as [UInt32]
        for round in ends {
            for distance in [0, 999, 1_000, 65_534, 65_535] as [UInt16] {
                for root in [0, 1, .max] as [UInt64] {
                    let position = TreePosition(root: EndpointID(rawValue: root), epoch: round, distance: distance)
                    for isToParent in [true, false] {
                        network.inject(.report(SpanningTreeReport(position: position, isToParent: isToParent)), from: 0, to: 1)
                        network.run(.milliseconds(500))
                    }
                }
            }
        }
        let widest = try PropagationProfile(
            hopLimit: 500, timeToLiveSeconds: 604_800, sharingTimeMilliseconds: 60_000, maximumPropagation: 1_000,
            tracklistLimit: 50)
        for created in [0, 1, 1 << 47, 1 << 48 - 1] as [Int64] {
            var copy = OutgoingBundle(
                [1, 0x61, 0x78], from: network.nodes[0].keys, to: nil, isSealed: false, isPrivate: false, profile: widest,
                created: WallTime(milliseconds: created), random: &network.random
            ).copy
            for hops in [1, 500, 65_535] {
                copy.hopCount = hops
                copy.visitedTags = Array(repeating: .max, count: 50)
                network.inject(.copy(copy), from: 0, to: 1)
            }
        }
        #expect(network.texts(1).isEmpty && network.nodes[1].store.isEmpty)
        network.run(.seconds(400))
        network.send("after all that", from: 0, to: 2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["after all that"])
    }

    @Test("B9, M14: the longest time to live, from a sender whose clock is ahead, is acknowledged within its bounds")
    func longestLifetime() {
        var network = row()
        network.clockOffsets[0] = .seconds(300)
        let id = network.send("from the near future", from: 0, to: 2, profile: .longReach)
        network.run(.seconds(60))
        #expect(network.texts(2) == ["from the near future"])
        #expect(network.nodes[0].events.contains(.delivered(id)))
    }

    @Test("B3: replayed reports and receipts lose no bundle")
    func replayedReports() {
        var network = row()
        var seen: [(packet: BundlePacket, from: Int, to: Int)] = []
        network.tamper = { packet, from, to in
            if case .copy = packet {} else { seen.append((packet, from, to)) }
            return packet
        }
        network.run(.seconds(200))
        network.tamper = nil
        #expect(seen.count > 10)
        for (packet, from, to) in seen { network.inject(packet, from: from, to: to) }
        let id = network.send("all the same", from: 0, to: 2)
        for (packet, from, to) in seen.reversed() { network.inject(packet, from: from, to: to) }
        network.run(.seconds(120))
        #expect(network.texts(2) == ["all the same"])
        #expect(network.nodes[0].events.contains(.delivered(id)))
    }

    @Test("B5: expired and delivered bundles are deleted from every store")
    func nothingStays() {
        var network = row()
        for number in 0..<20 {
            network.send("\(number)", from: 0, to: number % 2 == 0 ? 2 : nil, profile: .shortReach)
            network.run(.seconds(1))
        }
        network.run(.seconds(2_000))
        #expect(network.texts(2).count == 20)
        for node in 0..<3 {
            #expect(network.nodes[node].store.isEmpty, "node \(node)")
            #expect(network.nodes[node].router!.index.seen.count == 0, "node \(node)")
        }
    }

    // MARK: Names and keys

    @Test("B7: a sealed body cannot be moved under another signature")
    func takenOver() {
        var network = row()
        let anna = network.outgoing("from anna", from: 0, to: 2)
        var stolen = anna.copy
        let mallory = network.nodes[1].keys
        stolen.hopCount = 1
        stolen.bundle.senderKey = mallory.publicKeys.signingKey.bytes
        stolen.signature = stolen.bundle.signature(by: mallory.signingKey)
        network.inject(.copy(stolen), from: 1, to: 2)
        // Nor to another destination.
        var redirected = anna.copy
        redirected.hopCount = 1
        redirected.bundle.destination = .unnamed(EndpointID(rawValue: 1))
        redirected.bundle.senderKey = mallory.publicKeys.signingKey.bytes
        redirected.signature = redirected.bundle.signature(by: mallory.signingKey)
        network.inject(.copy(redirected), from: 1, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2).isEmpty)
        var genuine = anna.copy
        genuine.hopCount = 1
        network.inject(.copy(genuine), from: 1, to: 2)
        network.run(.seconds(1))
        #expect(network.texts(2) == ["from anna"])
    }

    @Test("B7: a node that claims a known name is told apart by its key and its ID")
    func impersonation() throws {
        var network = row()
        let name = try DisplayName("anna")
        let exported = (0..<2).map { ExportedKeys.export(network.nodes[$0].keys, name: name) }
        let contacts = try exported.map { try ExportedKeys(decoding: $0).publicKeys }
        #expect(contacts[0].address != contacts[1].address && contacts[0].fingerprint != contacts[1].fingerprint)
        // The signature does not cover the victim's agreement key beside another signing key.
        let lines = exported.map { $0.split(separator: "\n", omittingEmptySubsequences: false) }
        var mixed = lines[1]
        mixed[2] = lines[0][2]
        #expect(throws: ExportedKeys.Invalid.self) { try ExportedKeys(decoding: mixed.joined(separator: "\n")) }
        network.send("I am anna", from: 1, to: 2)
        network.run(.seconds(60))
        let received = network.nodes[2].events.compactMap { event -> DeliveredBundle? in
            if case .received(let message) = event { message } else { nil }
        }
        #expect(received.map { EndpointID(of: $0.signingKey) } == [network.address(1)])
        #expect(received.first?.sealedBy?.key == network.nodes[1].keys.publicKeys.agreementKey)
    }

    // MARK: What broke Bridgefy (2020, 2022)

    @Test("Bridgefy 2020, B10: nothing is compressed before it is sealed, so a size depends on the length alone")
    func noCompression() {
        var network = row()
        var random = SeededRandom(seed: 8)
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        let monotonous = String(repeating: "a", count: 900)
        let various = String((0..<900).map { _ in letters[Int.random(in: 0..<26, using: &random)] })
        let sizes = [monotonous, various].map { network.outgoing($0, from: 0, to: 2).copy.bundle.body.count }
        #expect(sizes[0] == sizes[1])
    }

    @Test("Bridgefy 2020, K13: a sealed body does not open with any bit changed, and is not answered then")
    func noOracle() {
        var network = BundleNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        var spoilt: Set<UInt64> = []
        var answers = 0
        network.tamper = { packet, from, _ in
            guard from == 2 else { return packet }
            switch packet {
            case .copy: answers += 1
            case .receipt(let ids): answers += ids.count { spoilt.contains($0) }
            case .report: break
            }
            return packet
        }
        let sent = network.outgoing("authentic", from: 0, to: 2, profile: .shortReach)
        for place in stride(from: 0, to: sent.copy.bundle.body.count, by: 7) {
            // Signed again, as its sender could; so only the sealing is left to tell.
            var copy = sent.copy
            copy.hopCount = 1
            copy.bundle.body[place] ^= 1 << (place % 8)
            copy.signature = copy.bundle.signature(by: network.nodes[0].keys.signingKey)
            spoilt.insert(copy.bundle.id.short)
            network.inject(.copy(copy), from: 1, to: 2)
        }
        network.run(.seconds(20))
        #expect(network.texts(2).isEmpty && answers == 0 && network.nodes[2].store.isEmpty)
        #expect(spoilt.count > 5)
        var genuine = sent.copy
        genuine.hopCount = 1
        network.inject(.copy(genuine), from: 1, to: 2)
        network.run(.seconds(20))
        #expect(network.texts(2) == ["authentic"] && answers > 0)
    }

    @Test("Bridgefy 2022, B12: a private broadcast contains nothing of its sender, and two have nothing in common")
    func privateBroadcast() {
        var network = row()
        let copies = copies(&network) { network in
            network.send("to any receiver", from: 0, to: nil, isPrivate: true)
            network.send("to any receiver", from: 0, to: nil, isPrivate: true)
            network.run(.seconds(60))
        }
        #expect(network.texts(1).count == 2 && network.texts(2).count == 2)
        let own = network.nodes[0].keys.publicKeys
        for copy in copies {
            let bytes = copy.encoded
            for secret in [own.signingKey.bytes, own.agreementKey.bytes, own.address.bytes] {
                #expect(!bytes.indices.contains { bytes[$0...].starts(with: secret) })
            }
        }
        let messages = Set(copies.map(\.bundle))
        #expect(messages.count == 2 && Set(messages.map(\.senderKey)).count == 2)
        // Nor have the tags of the nodes that forwarded them.
        let marks = Dictionary(grouping: copies, by: \.bundle).values.map { Set($0.flatMap(\.visitedTags)) }
        #expect(marks.count == 2 && marks[0].isDisjoint(with: marks[1]))
    }

    // MARK: Direct mode

    @Test("B12: a readable bundle for a neighbour alone is forwarded to no other node, also after a restart")
    func forOneAlone() throws {
        let profile = try PropagationProfile(
            hopLimit: 1, timeToLiveSeconds: 600, sharingTimeMilliseconds: 15_000, maximumPropagation: 10, tracklistLimit: 0)
        var network = BundleNetwork(4)
        network.connect(0, 1)
        network.connect(0, 2)
        network.connect(1, 3)
        network.run(.seconds(130))
        let message = network.outgoing("for one", from: 0, to: 1, isSealed: false, profile: profile)
        #expect(message.copy.bundle.requiresSession)
        network.tamper = { packet, _, to in
            if case .copy = packet, to == 1 { return nil }
            return packet
        }
        try network.sendDirect(message, from: 0, to: 1)
        network.kill(0)
        network.cut(0, 1)
        network.start(0)
        network.run(.seconds(200))
        #expect(network.nodes[2].store.isEmpty && network.nodes[3].store.isEmpty)
        network.tamper = nil
        network.connect(0, 1)
        network.run(.seconds(60))
        #expect(network.texts(1) == ["for one"])
        #expect((network.copies[message.id] ?? 0) <= 10)
    }
}
