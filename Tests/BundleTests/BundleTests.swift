import NearshareBase
import NearshareBundles
import NearshareTesting
import Testing

@Suite("Wire: carried messages")
struct CarryWireTests {
    private func message(_ kind: Bundle.Kind, _ receiver: Bundle.Receiver, lock: Bool) -> Bundle {
        Bundle(
            kind: kind, receiver: receiver, profile: .sparse, created: WallTime(milliseconds: 1_800_000_000_123),
            senderKey: Array(0..<32), lock: lock ? [UInt8](repeating: 7, count: 16) : nil, body: [1, 2, 3])
    }

    private var all: [Bundle] {
        let address = EndpointID(rawValue: 0x0102_0304_0506_0708)
        return [
            message(.clear, .everybody, lock: false), message(.clear, .address(address), lock: false),
            message(.clear, .address(address), lock: true), message(.clear, .unnamed(address), lock: true),
            message(.sealed, .address(address), lock: true), message(.sealed, .unnamed(address), lock: true),
            message(.acknowledgement, .address(address), lock: false),
        ]
    }

    private var packets: [BundlePacket] {
        var packets = all.map {
            BundlePacket.copy(
                BundleCopy(
                    hops: 9, way: .spread, carriers: [1, .max], message: $0, signature: [UInt8](repeating: 5, count: 64)))
        }
        let place = SpanningTreeReport.Place(root: EndpointID(rawValue: 3), round: 4, distance: 5)
        let ids = (0..<40).map { BundleID(bytes: [UInt8](repeating: $0, count: 16))! }
        packets += [
            .report(SpanningTreeReport(place: place, isToParent: true)),
            .report(
                SpanningTreeReport(
                    place: place, isToParent: false, isAnswer: true, token: 77,
                    summary: SummaryVector(of: ids, turn: 1, salt: 9),
                    reach: ReachabilityFilter(marks: [5, 1, 1 << 26]))),
            .receipt([1, .max]),
        ]
        return packets
    }

    @Test("What is written is read back, and cut short anywhere it is refused or another report")
    func roundTrips() throws {
        for packet in packets {
            let bytes = packet.encoded
            #expect(try BundlePacket(decoding: bytes[...]) == packet)
            for length in 0..<bytes.count {
                // A report skips what later versions add, so its parts may be missing; nothing else may.
                guard let short = try? BundlePacket(decoding: bytes[..<length]) else { continue }
                guard case .report = short else {
                    Issue.record("\(length) of \(bytes.count) bytes were taken")
                    continue
                }
            }
        }
    }

    @Test("A message field by field, as PROTOCOL.md has it")
    func byHand() {
        let bytes = message(.sealed, .unnamed(EndpointID(rawValue: 2)), lock: true).encoded
        let expected: [UInt8] =
            [1, 0x0f, 0, 100, 0, 4, 0x9d, 0x40, 0x27, 0x10, 0, 250, 50] + [0, 0, 1, 0xa3, 0x18, 0x5c, 0x50, 0x7b]
            + Array(0..<32) + [0, 0, 0, 0, 0, 0, 0, 2] + [UInt8](repeating: 7, count: 16) + [0, 3, 1, 2, 3]
        #expect(bytes == expected)
    }

    @Test("M1: changed bytes are refused or read as something within bounds", arguments: 1...4)
    func mutated(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for (number, packet) in packets.enumerated() {
            var readCount = 0
            defer { #expect(readCount > 0, "seed \(seed): nothing of packet \(number) was read") }
            for _ in 0..<2_000 {
                let bytes = packet.encoded.mutated(using: &random)
                guard let read = try? BundlePacket(decoding: bytes[...]) else { continue }
                readCount += 1
                switch read {
                case .copy(let copy):
                    #expect(copy.carriers.count <= 50 && copy.message.body.count <= Bundle.maximumBodyByteCount)
                    #expect(copy.message.profile.timeToLive <= 604_800, "seed \(seed)")
                    #expect(read.encoded == bytes, "seed \(seed): two forms of one copy")
                case .report(let report):
                    if let reach = report.reach { #expect(reach.marks.count <= 8 * ReachabilityFilter.maximumByteCount) }
                    if let summary = report.summary { #expect(summary.share < summary.shareCount) }
                case .receipt(let ids): #expect((1...64).contains(ids.count))
                }
            }
        }
    }

    @Test("Flags that don't go together are refused")
    func flags() {
        for flags: UInt8 in [2, 4, 8, 12, 16, 18, 21, 24, 32, 64, 128, 0x19] {
            var bytes = message(.clear, .everybody, lock: false).encoded
            bytes[1] = flags
            // Room for whatever fields the flags ask for.
            for extra in [0, 8, 16, 24] {
                let longer = Array(bytes[..<53]) + [UInt8](repeating: 0, count: extra) + Array(bytes[53...])
                #expect(throws: MalformedInput.self, "\(flags)") { try Bundle(decoding: longer[...]) }
            }
        }
    }

    @Test("The five profiles are those of the table, and others keep within bounds")
    func profiles() throws {
        let table = [
            "standard": [100, 86_400, 15_000, 200, 50], "high-density": [50, 3_600, 10_000, 50, 50],
            "sparse": [100, 302_400, 10_000, 250, 50], "long-reach": [250, 604_800, 15_000, 1_000, 50],
            "short-reach": [50, 1_800, 10_000, 50, 50],
        ]
        #expect(PropagationProfile.named.count == 5)
        for (name, values) in table {
            let profile = try #require(PropagationProfile(name: name))
            #expect(
                [profile.hopLimit, profile.timeToLive, profile.sharingTime, profile.maximumPropagation, profile.tracklistLimit]
                    == values)
            #expect(profile.name == name)
        }
        let bad = [
            (0, 60, 1_000, 1, 0), (501, 60, 1_000, 1, 0), (1, 9, 1_000, 1, 0), (1, 604_801, 1_000, 1, 0), (1, 60, 999, 1, 0),
            (1, 60, 60_001, 1, 0), (1, 60, 1_000, 0, 0), (1, 60, 1_000, 1_001, 0), (1, 60, 1_000, 1, 51), (1, 60, 1_000, 1, -1),
        ]
        for (hops, time, sharing, most, track) in bad {
            #expect(throws: PropagationProfile.OutOfBounds.self) {
                try PropagationProfile(
                    hopLimit: hops, timeToLive: time, sharingTime: sharing, maximumPropagation: most, tracklistLimit: track)
            }
        }
    }

    @Test("Structured messages: what JSON can say, and bytes, in one form each")
    func structured() throws {
        let value = StructuredValue.object([
            "": .null, "é": .array([.bool(true), .bool(false), .integer(.min), .integer(.max), .number(-0.5)]),
            "b": .binary([0, 255]), "o": .object(["x": .string("y")]),
        ])
        let bytes = try value.encoded()
        #expect(try StructuredValue(decoding: bytes[...]) == value)
        for length in 0..<bytes.count {
            #expect(throws: MalformedInput.self) { try StructuredValue(decoding: bytes[..<length]) }
        }
        // RFC 8949, appendix A.
        #expect(try StructuredValue.integer(-500).encoded() == [0x39, 0x01, 0xf3])
        #expect(try StructuredValue.integer(1_000_000).encoded() == [0x1a, 0x00, 0x0f, 0x42, 0x40])
        #expect(try StructuredValue.object(["a": .integer(1)]).encoded() == [0xa1, 0x61, 0x61, 0x01])
        let refused: [[UInt8]] = [
            [], [0x18, 0x17], [0x19, 0, 0xff], [0x9f, 0xff], [0xc0, 0x60], [0xf7], [0xf9, 0, 0], [0x61, 0xff],
            [0xa1, 0x01, 0x01],
            [0xa2, 0x61, 0x61, 1, 0x61, 0x61, 2], [0x9b] + [UInt8](repeating: 255, count: 8),
            [0x5b] + [UInt8](repeating: 255, count: 8),
            [0xfb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], [0x1b] + [UInt8](repeating: 255, count: 8), [0, 0],
            [UInt8](repeating: 0x81, count: 17) + [0],
        ]
        for bytes in refused { #expect(throws: MalformedInput.self, "\(bytes)") { try StructuredValue(decoding: bytes[...]) } }
        #expect(throws: StructuredValue.Invalid.notFinite) { try StructuredValue.array([.number(.nan)]).encoded() }
        var deep = StructuredValue.null
        for _ in 0..<16 { deep = .array([deep]) }
        #expect(throws: StructuredValue.Invalid.tooDeep) { try deep.encoded() }
    }

    @Test("Who is reached comes back, merged or not, and nobody else with it")
    func reach() throws {
        var random = SeededRandom(seed: 4)
        for count in [0, 1, 2, 100, 3_000] {
            let addresses = (0..<count).map { _ in EndpointID(rawValue: random.next()) }
            let marks = addresses.map(ReachabilityFilter.mark(of:))
            let reach = try #require(ReachabilityFilter(marks: marks))
            #expect(reach.marks == Set(marks).sorted())
            #expect(addresses.allSatisfy { reach.contains(ReachabilityFilter.mark(of: $0)) })
            #expect(try ReachabilityFilter(decoding: reach.bytes[...]) == reach)
            let strangers = (0..<1_000).count { _ in
                reach.contains(ReachabilityFilter.mark(of: EndpointID(rawValue: random.next())))
            }
            #expect(strangers <= 3)
        }
        #expect(ReachabilityFilter(marks: (1...20_000).map { UInt32($0) &* 3_000 }) == nil)
    }

    @Test("X3: a summary misses nobody, takes few for members, and others each time")
    func summary() {
        var random = SeededRandom(seed: 5)
        func ids(_ count: Int) -> [BundleID] { (0..<count).map { _ in BundleID(bytes: random.bytes(16))! } }
        let (members, strangers) = (ids(400), ids(20_000))
        var taken: [Set<BundleID>] = []
        for salt: UInt32 in [1, 2] {
            let summary = SummaryVector(of: members, turn: 0, salt: salt).members
            #expect(members.allSatisfy { summary.place(of: summary.value(of: $0)!) != nil })
            taken.append(Set(strangers.filter { summary.place(of: summary.value(of: $0)!) != nil }))
            #expect(taken.last!.count < 60)
        }
        #expect(taken[0].isDisjoint(with: taken[1]) || taken[0].intersection(taken[1]).count < 3)
        // Too many for one: each is in one of the shares.
        let many = ids(2_000)
        let shares = (0..<4).map { SummaryVector(of: many, turn: $0, salt: 3).members }
        #expect(many.allSatisfy { id in shares.count { $0.value(of: id) != nil } == 1 })
        #expect(many.allSatisfy { id in shares.contains { share in share.value(of: id).flatMap(share.place) != nil } })
    }
}
