import NearshareBase
import NearshareBundles
import NearshareTesting
import Testing

@Suite("wire format of bundles")
struct BundleWireTests {
    private func bundle(_ kind: Bundle.Kind, _ destination: Bundle.Destination, hasLock: Bool) -> Bundle {
        Bundle(
            kind: kind, destination: destination, profile: .sparse, creationTime: WallTime(milliseconds: 1_800_000_000_123),
            senderKey: Array(0..<32), hashLock: hasLock ? [UInt8](repeating: 7, count: 16) : nil, body: [1, 2, 3])
    }

    private var all: [Bundle] {
        let endpoint = EndpointID(rawValue: 0x0102_0304_0506_0708)
        return [
            bundle(.clear, .everyone, hasLock: false), bundle(.clear, .endpoint(endpoint), hasLock: false),
            bundle(.clear, .endpoint(endpoint), hasLock: true), bundle(.clear, .unnamed(endpoint), hasLock: true),
            bundle(.sealed, .endpoint(endpoint), hasLock: true), bundle(.sealed, .unnamed(endpoint), hasLock: true),
            bundle(.acknowledgement, .endpoint(endpoint), hasLock: false),
        ]
    }

    private var packets: [BundlePacket] {
        var packets = all.map {
            BundlePacket.copy(
                BundleCopy(
                    hopCount: 9, forwarding: .epidemic, visitedTags: [1, .max], bundle: $0,
                    signature: [UInt8](repeating: 5, count: 64)))
        }
        let position = TreePosition(root: EndpointID(rawValue: 3), epoch: 4, distance: 5)
        let ids = (0..<40).map { BundleID(bytes: [UInt8](repeating: $0, count: 16))! }
        packets += [
            .report(SpanningTreeReport(position: position, isToParent: true)),
            .report(
                SpanningTreeReport(
                    position: position, isToParent: false, isAnswer: true, token: 77,
                    summary: SummaryVector(of: ids, turn: 1, salt: 9),
                    reachability: ReachabilityFilter(tags: [5, 1, 1 << 26]))),
            .receipt([1, .max]),
        ]
        return packets
    }

    @Test("a packet that is encoded and decoded is the same; cut short it is rejected, or a shorter report")
    func roundTrips() throws {
        for packet in packets {
            let bytes = packet.encoded
            #expect(try BundlePacket(decoding: bytes[...]) == packet)
            for length in 0..<bytes.count {
                // Fields that later versions append to a report may be missing; nothing else may.
                guard let short = try? BundlePacket(decoding: bytes[..<length]) else { continue }
                guard case .report = short else {
                    Issue.record("\(length) of \(bytes.count) bytes were accepted")
                    continue
                }
            }
        }
    }

    @Test("a bundle field by field, as PROTOCOL.md defines it")
    func byHand() {
        let bytes = bundle(.sealed, .unnamed(EndpointID(rawValue: 2)), hasLock: true).encoded
        let expected: [UInt8] =
            [1, 0x0f, 0, 100, 0, 4, 0x9d, 0x40, 0x27, 0x10, 0, 250, 50] + [0, 0, 1, 0xa3, 0x18, 0x5c, 0x50, 0x7b]
            + Array(0..<32) + [0, 0, 0, 0, 0, 0, 0, 2] + [UInt8](repeating: 7, count: 16) + [0, 3, 1, 2, 3]
        #expect(bytes == expected)
    }

    @Test("B1: mutated bytes are rejected or decoded within bounds", arguments: seeds(1...4))
    func mutated(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for (number, packet) in packets.enumerated() {
            var readCount = 0
            defer { #expect(readCount > 0, "seed \(seed): nothing of packet \(number) was decoded") }
            for _ in 0..<2_000 {
                let bytes = packet.encoded.mutated(using: &random)
                guard let read = try? BundlePacket(decoding: bytes[...]) else { continue }
                readCount += 1
                switch read {
                case .copy(let copy):
                    #expect(copy.visitedTags.count <= 50 && copy.bundle.body.count <= Bundle.maximumBodyByteCount)
                    #expect(copy.bundle.profile.timeToLiveSeconds <= 604_800, "seed \(seed)")
                    #expect(read.encoded == bytes, "seed \(seed): two forms of one copy")
                case .report(let report):
                    if let filter = report.reachability {
                        #expect(filter.tags.count <= 8 * ReachabilityFilter.maximumByteCount)
                    }
                    if let summary = report.summary { #expect(summary.share < summary.shareCount) }
                case .receipt(let ids): #expect((1...64).contains(ids.count))
                }
            }
        }
    }

    @Test("contradictory flags are rejected")
    func flags() {
        for flags: UInt8 in [2, 4, 8, 12, 16, 18, 21, 24, 32, 64, 128, 0x19] {
            var bytes = bundle(.clear, .everyone, hasLock: false).encoded
            bytes[1] = flags
            // Room for the fields that the flags announce.
            for extra in [0, 8, 16, 24] {
                let longer = Array(bytes[..<53]) + [UInt8](repeating: 0, count: extra) + Array(bytes[53...])
                #expect(throws: MalformedInput.self, "\(flags)") { try Bundle(decoding: longer[...]) }
            }
        }
    }

    @Test("the five named profiles have the values of the table; others are checked against the bounds")
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
                [
                    profile.hopLimit, profile.timeToLiveSeconds, profile.sharingTimeMilliseconds, profile.maximumPropagation,
                    profile.tracklistLimit,
                ]
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
                    hopLimit: hops, timeToLiveSeconds: time, sharingTimeMilliseconds: sharing, maximumPropagation: most,
                    tracklistLimit: track)
            }
        }
    }

    @Test("structured messages: JSON values and bytes, each with one encoding")
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

    @Test("a reachability filter contains its endpoints, and few others")
    func reachability() throws {
        var random = SeededRandom(seed: 4)
        for count in [0, 1, 2, 100, 3_000] {
            let addresses = (0..<count).map { _ in EndpointID(rawValue: random.next()) }
            let tags = addresses.map(ReachabilityFilter.tag(of:))
            let filter = try #require(ReachabilityFilter(tags: tags))
            #expect(filter.tags == Set(tags).sorted())
            // Each look-up decodes the filter up to the tag.
            #expect(tags.prefix(100).allSatisfy(filter.contains))
            #expect(try ReachabilityFilter(decoding: filter.bytes[...]) == filter)
            let falsePositiveCount = (0..<200).count { _ in
                filter.contains(ReachabilityFilter.tag(of: EndpointID(rawValue: random.next())))
            }
            #expect(falsePositiveCount <= 1)
        }
        #expect(ReachabilityFilter(tags: (1...20_000).map { UInt32($0) &* 3_000 }) == nil)
    }

    @Test("a summary vector has no false negatives, few false positives, and others with each salt")
    func summary() {
        var random = SeededRandom(seed: 5)
        func ids(_ count: Int) -> [BundleID] { (0..<count).map { _ in BundleID(bytes: random.bytes(16))! } }
        let (members, others) = (ids(400), ids(20_000))
        var taken: [Set<BundleID>] = []
        for salt: UInt32 in [1, 2] {
            let summary = SummaryVector(of: members, turn: 0, salt: salt).members
            #expect(members.allSatisfy { summary.position(of: summary.value(of: $0)!) != nil })
            taken.append(Set(others.filter { summary.position(of: summary.value(of: $0)!) != nil }))
            #expect(taken.last!.count < 60)
        }
        #expect(taken[0].isDisjoint(with: taken[1]) || taken[0].intersection(taken[1]).count < 3)
        // Too many for one vector: each ID is in one of the shares.
        let many = ids(2_000)
        let shares = (0..<4).map { SummaryVector(of: many, turn: $0, salt: 3).members }
        #expect(many.allSatisfy { id in shares.count { $0.value(of: id) != nil } == 1 })
        #expect(many.allSatisfy { id in shares.contains { share in share.value(of: id).flatMap(share.position) != nil } })
    }
}
