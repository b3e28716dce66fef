import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareBundles

@Suite("Bounds of what is carried, and what strangers learn of it")
struct CarryBoundsTests {
    private func row() -> CarryNetwork {
        var network = CarryNetwork(3)
        network.connect(0, 1)
        network.connect(1, 2)
        network.run(.seconds(130))
        return network
    }

    private func copies(_ network: inout CarryNetwork, _ body: (inout CarryNetwork) -> Void) -> [BundleCopy] {
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

    @Test("R1, R6: any number of neighbours, senders, roots and receipts leaves memory within its bounds")
    func manyNames() {
        var network = CarryNetwork(2)
        network.connect(0, 1)
        var random = SeededRandom(seed: 5)
        let moment = network.moment(1)
        for _ in 0..<5_000 {
            network.nodes[1].carrier!.neighbourUp(
                EndpointID(rawValue: random.next()), BundleLink(isRadio: false, isReliable: false), now: moment)
        }
        #expect(network.nodes[1].carrier!.neighbourCount == 64)
        for number in 0..<600 {
            let keys = RouterKeys(
                agreementKey: try! AgreementPrivateKey(seed: random.bytes(32)),
                signingKey: try! SigningPrivateKey(seed: random.bytes(32)))
            var copy = OutgoingMessage(
                [1, 0x61, 0x78], from: keys, to: nil, isSealed: false, isPrivate: false, profile: .shortReach,
                created: network.moment(0).wall, random: &random
            ).copy
            copy.hops = 1
            network.inject(.copy(copy), from: 0, to: 1)
            let place = SpanningTreeReport.Place(root: EndpointID(rawValue: random.next()), round: UInt32(number), distance: 1)
            let report = SpanningTreeReport(place: place, isToParent: number % 2 == 0, token: random.next())
            network.inject(.report(report), from: 0, to: 1)
            network.inject(.receipt((0..<64).map { _ in random.next() }), from: 0, to: 1)
        }
        #expect(network.nodes[1].carrier!.trails.count <= 128)
        #expect(network.nodes[1].carrier!.silentRoots.count <= 16)
        #expect(network.nodes[1].carrier!.byteCount < 1 << 20)
        // All of it passes.
        network.run(.seconds(4_000))
        #expect(network.nodes[1].carrier!.carriedCount == 0)
        #expect(network.nodes[1].carrier!.byteCount < 64 << 10)
    }

    @Test("R2: filters and reaches that claim more than their bytes hold cost no more than their bytes")
    func inflation() throws {
        var network = row()
        let place = SpanningTreeReport.Place(root: network.address(0), round: 9, distance: 0)
        for parameter in [0, 1, 26] as [UInt8] {
            for fill in [0, 0x55, 0xff] as [UInt8] {
                let reach = try ReachabilityFilter(
                    decoding: ([parameter] + [UInt8](repeating: fill, count: ReachabilityFilter.maximumByteCount - 1))[...])
                #expect(reach.marks.count <= 8 * ReachabilityFilter.maximumByteCount)
                network.inject(.report(SpanningTreeReport(place: place, isToParent: true, reach: reach)), from: 0, to: 1)
                network.run(.seconds(3))
            }
        }
        #expect(network.nodes[1].carrier!.byteCount < 128 << 10)
        #expect(throws: MalformedInput.self) {
            try ReachabilityFilter(decoding: [UInt8](repeating: 0, count: ReachabilityFilter.maximumByteCount + 1)[...])
        }
        // And no message is held up for good by it.
        network.send("past the giant", from: 1, to: 2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["past the giant"])
    }

    @Test("R2: structured content that claims more parts than it has, or is too deep, is no content, and harms nobody")
    func deepContent() throws {
        var network = row()
        let bodies: [[UInt8]] = [
            [1] + [UInt8](repeating: 0x81, count: 2_000), [1, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [1, 0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [1, 0x5b, 0, 0, 0, 1, 0, 0, 0, 0], [],
        ]
        for body in bodies {
            var copy = OutgoingMessage(
                body, from: network.nodes[0].keys, to: nil, isSealed: false, isPrivate: false, profile: .standard,
                created: network.moment(0).wall, random: &network.random
            ).copy
            copy.hops = 1
            network.inject(.copy(copy), from: 0, to: 1)
            #expect(throws: MalformedInput.self) { try BundleContent(decoding: body[...]) }
        }
        network.run(.seconds(10))
        #expect(network.texts(2).isEmpty)
        network.send("still there", from: 0, to: 2)
        network.run(.seconds(10))
        #expect(network.texts(2) == ["still there"])
    }

    @Test("R7: numbers at their ends overflow nowhere")
    func extremes() throws {
        var network = row()
        let ends = [0, 1, 1 << 31 - 1, 1 << 31, .max] as [UInt32]
        for round in ends {
            for distance in [0, 999, 1_000, 65_534, 65_535] as [UInt16] {
                for root in [0, 1, .max] as [UInt64] {
                    let place = SpanningTreeReport.Place(root: EndpointID(rawValue: root), round: round, distance: distance)
                    for isToParent in [true, false] {
                        network.inject(.report(SpanningTreeReport(place: place, isToParent: isToParent)), from: 0, to: 1)
                        network.run(.milliseconds(500))
                    }
                }
            }
        }
        let widest = try PropagationProfile(
            hopLimit: 500, timeToLive: 604_800, sharingTime: 60_000, maximumPropagation: 1_000, tracklistLimit: 50)
        for created in [0, 1, 1 << 47, 1 << 48 - 1] as [Int64] {
            var copy = OutgoingMessage(
                [1, 0x61, 0x78], from: network.nodes[0].keys, to: nil, isSealed: false, isPrivate: false, profile: widest,
                created: WallTime(milliseconds: created), random: &network.random
            ).copy
            for hops in [1, 500, 65_535] {
                copy.hops = hops
                copy.carriers = Array(repeating: .max, count: 50)
                network.inject(.copy(copy), from: 0, to: 1)
            }
        }
        #expect(network.texts(1).isEmpty && network.nodes[1].store.isEmpty)
        network.run(.seconds(400))
        network.send("after all that", from: 0, to: 2)
        network.run(.seconds(100))
        #expect(network.texts(2) == ["after all that"])
    }

    @Test("M3: a neighbour's old reports and receipts, played again, lose no message")
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

    @Test("M6, R8: what has expired or arrived leaves every store")
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
            #expect(network.nodes[node].carrier!.known.count == 0, "node \(node)")
        }
    }

    // MARK: Names and keys

    @Test("D1, K2: what somebody sealed can't be taken over under another's signature")
    func takenOver() {
        var network = row()
        let anna = network.outgoing("from anna", from: 0, to: 2)
        var stolen = anna.copy
        let mallory = network.nodes[1].keys
        stolen.hops = 1
        stolen.message.senderKey = mallory.contact.signingKey.bytes
        stolen.signature = stolen.message.signature(by: mallory.signingKey)
        network.inject(.copy(stolen), from: 1, to: 2)
        // Under a receiver of Mallory's choice neither.
        var redirected = anna.copy
        redirected.hops = 1
        redirected.message.receiver = .unnamed(EndpointID(rawValue: 1))
        redirected.message.senderKey = mallory.contact.signingKey.bytes
        redirected.signature = redirected.message.signature(by: mallory.signingKey)
        network.inject(.copy(redirected), from: 1, to: 2)
        network.run(.seconds(60))
        #expect(network.texts(2).isEmpty)
        var genuine = anna.copy
        genuine.hops = 1
        network.inject(.copy(genuine), from: 1, to: 2)
        network.run(.seconds(1))
        #expect(network.texts(2) == ["from anna"])
    }

    @Test("K2: whoever writes a known name has another key and another address, and is told by them")
    func impersonation() throws {
        var network = row()
        let name = try DisplayName("anna")
        let exported = (0..<2).map { ExportedKeys.export(network.nodes[$0].keys, name: name) }
        let contacts = try exported.map { try ExportedKeys(decoding: $0).contact }
        #expect(contacts[0].address != contacts[1].address && contacts[0].fingerprint != contacts[1].fingerprint)
        // The victim's agreement key beside one's own signing key is not what its owner signed.
        let lines = exported.map { $0.split(separator: "\n", omittingEmptySubsequences: false) }
        var mixed = lines[1]
        mixed[2] = lines[0][2]
        #expect(throws: ExportedKeys.Invalid.self) { try ExportedKeys(decoding: mixed.joined(separator: "\n")) }
        network.send("I am anna", from: 1, to: 2)
        network.run(.seconds(60))
        let received = network.nodes[2].events.compactMap { event -> IncomingMessage? in
            if case .received(let message) = event { message } else { nil }
        }
        #expect(received.map { EndpointID(of: $0.signingKey) } == [network.address(1)])
        #expect(received.first?.sealedBy?.key == network.nodes[1].keys.contact.agreementKey)
    }

    // MARK: What broke Bridgefy (2020, 2022)

    @Test("Bridgefy 2020, R2: a secret's size depends on its length alone, so nothing is compressed before it is sealed")
    func noCompression() {
        var network = row()
        var random = SeededRandom(seed: 8)
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        let monotonous = String(repeating: "a", count: 900)
        let various = String((0..<900).map { _ in letters[Int.random(in: 0..<26, using: &random)] })
        let sizes = [monotonous, various].map { network.outgoing($0, from: 0, to: 2).copy.message.body.count }
        #expect(sizes[0] == sizes[1])
    }

    @Test("Bridgefy 2020, K13: nothing sealed opens with any bit changed, and what can't be opened is not answered")
    func noOracle() {
        var network = CarryNetwork(3)
        // Over links where what has come is confirmed.
        network.lossOneIn = .max
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
        for place in stride(from: 0, to: sent.copy.message.body.count, by: 7) {
            // Signed again, as its sender could; so only the sealing is left to tell.
            var copy = sent.copy
            copy.hops = 1
            copy.message.body[place] ^= 1 << (place % 8)
            copy.signature = copy.message.signature(by: network.nodes[0].keys.signingKey)
            spoilt.insert(copy.message.id.short)
            network.inject(.copy(copy), from: 1, to: 2)
        }
        network.run(.seconds(20))
        #expect(network.texts(2).isEmpty && answers == 0 && network.nodes[2].store.isEmpty)
        #expect(spoilt.count > 5)
        var genuine = sent.copy
        genuine.hops = 1
        network.inject(.copy(genuine), from: 1, to: 2)
        network.run(.seconds(20))
        #expect(network.texts(2) == ["authentic"] && answers > 0)
    }

    @Test("Bridgefy 2022, X1: a private broadcast has nothing of its sender in it, and two have nothing in common")
    func privateBroadcast() {
        var network = row()
        let copies = copies(&network) { network in
            network.send("to whoever hears", from: 0, to: nil, isPrivate: true)
            network.send("to whoever hears", from: 0, to: nil, isPrivate: true)
            network.run(.seconds(60))
        }
        #expect(network.texts(1).count == 2 && network.texts(2).count == 2)
        let own = network.nodes[0].keys.contact
        for copy in copies {
            let bytes = copy.encoded
            for secret in [own.signingKey.bytes, own.agreementKey.bytes, own.address.bytes] {
                #expect(!bytes.indices.contains { bytes[$0...].starts(with: secret) })
            }
        }
        let messages = Set(copies.map(\.message))
        #expect(messages.count == 2 && Set(messages.map(\.senderKey)).count == 2)
        // Nor do the marks of those who passed them on tell that they are the same.
        let marks = Dictionary(grouping: copies, by: \.message).values.map { Set($0.flatMap(\.carriers)) }
        #expect(marks.count == 2 && marks[0].isDisjoint(with: marks[1]))
    }

    // MARK: Direct mode

    @Test("X1, K7: a readable message for a neighbour alone is handed to nobody else, also after a restart")
    func forOneAlone() throws {
        let profile = try PropagationProfile(
            hopLimit: 1, timeToLive: 600, sharingTime: 15_000, maximumPropagation: 10, tracklistLimit: 0)
        var network = CarryNetwork(4)
        network.connect(0, 1)
        network.connect(0, 2)
        network.connect(1, 3)
        network.run(.seconds(130))
        let message = network.outgoing("for one", from: 0, to: 1, isSealed: false, profile: profile)
        #expect(message.copy.message.goesInSession)
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
