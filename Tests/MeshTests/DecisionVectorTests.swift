import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

/// The decisions of bitchat on iOS: relaying and its delay, reassembly, and which announcements are accepted.
@Suite struct DecisionVectorTests {
    // MARK: relay.json

    struct Relays: Decodable {
        struct Vector: Decodable {
            var id: String
            var type: UInt8
            var ttlIn: UInt8
            var degree: Int
            var recipientHex: String?
            var shouldRelay: Bool
            var newTtl: UInt8
            var observedDelayMsMin: Int
            var observedDelayMsMax: Int
        }
        var vectors: [Vector]
    }

    @Test(.enabled(if: Vectors.exists("relay.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `packets are relayed as by phones`() throws {
        let file = try Vectors.read(Relays.self, from: "relay.json")
        for vector in file.vectors {
            let rule = RelayDecision(
                RelayContext(
                    type: MeshPacketType(rawValue: vector.type), ttl: vector.ttlIn, hasRecipient: vector.recipientHex != nil,
                    degree: vector.degree))
            #expect((rule != nil) == vector.shouldRelay, "\(vector.id)")
            guard let rule, vector.shouldRelay else { continue }
            #expect(rule.ttl == vector.newTtl, "\(vector.id)")
            // Some hundreds of random values come close to both limits, and stay within them.
            let observed =
                Duration.milliseconds(vector.observedDelayMsMin)...Duration.milliseconds(vector.observedDelayMsMax)
            #expect(rule.delay.contains(observed.lowerBound) && rule.delay.contains(observed.upperBound), "\(vector.id)")
            #expect(observed.lowerBound - rule.delay.lowerBound <= .milliseconds(5), "\(vector.id)")
            #expect(rule.delay.upperBound - observed.upperBound <= .milliseconds(5), "\(vector.id)")
        }
        #expect(!file.vectors.isEmpty)
        print("checked \(file.vectors.count) decisions of relay.json")
    }

    // MARK: fragments.json

    struct Fragments: Decodable {
        struct Reassembly: Decodable {
            var id: String
            var note: String
            var maxInFlight: Int
            var fragmentPayloadsHex: [String]
            var senderIdsHex: [String]
            var results: [String]
            var reassembledHex: [String]
        }
        struct AssemblyLimit: Decodable {
            var originalType: UInt8
            var assemblyLimitBytes: Int
            var observed: String
        }
        struct Frame: Decodable {
            var length: Int
            var head64Hex: String
            var tail64Hex: String
        }
        struct Truncation: Decodable {
            var id: String
            var fullFrame: Frame
            var signatureHex: String
            var strippedLength: Int
            var timestampMs: String
            var decodeOfStrippedFails: Bool
            var decodeAfterReappendingOk: Bool
        }
        var reassembly: [Reassembly]
        var assemblyLimits: [AssemblyLimit]
        var androidTailTruncation: [Truncation]
    }

    /// The limits of iOS: one for the number of sets, one for the size of each.
    private func limitsOfPhones(sets: Int = 128) -> FragmentAssembler.Limits {
        var limits = FragmentAssembler.Limits()
        limits.sets = sets
        limits.setsPerSender = sets
        limits.bytes = .max
        limits.bytesPerSender = .max
        limits.bytesPerSet = 1_048_576
        limits.bytesPerFileSet = MeshPacket.phonePayloadByteCount
        limits.lifetime = .seconds(30)
        return limits
    }

    @Test(.enabled(if: Vectors.exists("fragments.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `fragments are assembled as by phones`() throws {
        let file = try Vectors.read(Fragments.self, from: "fragments.json")
        var steps = 0
        // A set whose headers or pieces contradict each other is put together by phones, so that any peer can spoil it; not here (M4).
        let contradictory: Set = ["reasm-public-3", "reasm-public-9", "reasm-public-10"]
        for vector in file.reassembly where !contradictory.contains(vector.id) {
            var assembler = FragmentAssembler(limits: limitsOfPhones(sets: vector.maxInFlight))
            var results: [String] = []
            var whole: [String] = []
            for (number, (payload, sender)) in zip(vector.fragmentPayloadsHex, vector.senderIdsHex).enumerated() {
                steps += 1
                let payload = try #require(Hex.decode(payload))
                guard let fragment = try? MeshFragment(decoding: payload[...]) else {
                    results.append("invalid_header")
                    continue
                }
                let outcome = assembler.add(
                    fragment, from: PeerID(fitting: try #require(Hex.decode(sender))),
                    now: MonotonicInstant(nanoseconds: Int64(number)))
                switch outcome {
                case .started: results.append("started")
                case .stored, .conflicting: results.append("stored")
                case .oversized: results.append("oversized")
                case .complete(let frame):
                    results.append("complete")
                    whole.append(Hex.encode(frame))
                }
            }
            #expect(results == vector.results, "\(vector.id): \(vector.note)")
            #expect(whole == vector.reassembledHex, "\(vector.id): \(vector.note)")
        }
        #expect(steps > 0)
        print("checked \(file.reassembly.count) reassemblies, \(steps) fragments, of fragments.json")
    }

    @Test(.enabled(if: Vectors.exists("fragments.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `sets of fragments have the size limits of phones`() throws {
        let file = try Vectors.read(Fragments.self, from: "fragments.json")
        for limit in file.assemblyLimits {
            let type = MeshPacketType(rawValue: limit.originalType)
            /// - Returns: the sum of the slices with which the set became too large, if it did.
            func feed(_ slices: [Int]) throws -> Int? {
                var assembler = FragmentAssembler(limits: limitsOfPhones())
                var sum = 0
                for (index, count) in slices.enumerated() {
                    let fragment = try fragment(index, of: slices.count + 1, type, count)
                    sum += count
                    let outcome = assembler.add(fragment, from: .broadcast, now: MonotonicInstant(nanoseconds: 0))
                    if outcome == .oversized { return sum }
                }
                return nil
            }
            let half = limit.assemblyLimitBytes / 2
            #expect(try feed([half, limit.assemblyLimitBytes - half]) == nil, "type \(type.rawValue)")
            #expect(
                try feed([half, limit.assemblyLimitBytes - half, 1]) == limit.assemblyLimitBytes + 1, "type \(type.rawValue)")
            // "oversized at projected n", where n is a multiple of what was added in each step.
            let step = 65_000
            if let projected = Int(limit.observed.split(separator: " ").last ?? ""), projected.isMultiple(of: step) {
                #expect(try feed(Array(repeating: step, count: projected / step + 3)) == projected)
            }
        }
        #expect(!file.assemblyLimits.isEmpty)
        print("checked \(file.assemblyLimits.count) assembly limits of fragments.json")
    }

    private func fragment(_ index: Int, of total: Int, _ type: MeshPacketType, _ count: Int) throws -> MeshFragment {
        var writer = ByteWriter()
        writer.write([UInt8](repeating: 5, count: 8))
        writer.write(UInt16(index))
        writer.write(UInt16(total))
        writer.write(type.rawValue)
        writer.write([UInt8](repeating: 1, count: count))
        return try MeshFragment(decoding: writer.bytes[...])
    }

    @Test(.enabled(if: Vectors.exists("fragments.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `frames whose end Android cuts off are fragmented`() throws {
        let file = try Vectors.read(Fragments.self, from: "fragments.json")
        for vector in file.androidTailTruncation {
            // The vectors give the part between header and signature only as a hash; it does not matter here.
            let (head, tail) = (
                try #require(Hex.decode(vector.fullFrame.head64Hex)), try #require(Hex.decode(vector.fullFrame.tail64Hex))
            )
            let between = [UInt8](repeating: 0, count: vector.fullFrame.length - head.count - tail.count)
            let full = head + between + tail
            let stripped = Array(full.prefix(vector.strippedLength))
            #expect(Array(MeshPadding.unpadded(full[...])) == stripped, "\(vector.id)")
            #expect(((try? MeshFrame(decoding: stripped[...])) == nil) == vector.decodeOfStrippedFails, "\(vector.id)")
            let mended = try? MeshFrame(decodingReassembled: stripped)
            #expect((mended != nil) == vector.decodeAfterReappendingOk, "\(vector.id)")
            let isWhole = mended.map { Array($0.bytes) == full } ?? false
            #expect(isWhole, "\(vector.id)")
            #expect(mended?.packet.signature.map(Hex.encode) == vector.signatureHex, "\(vector.id)")
            #expect(mended.map { String($0.packet.timestamp) } == vector.timestampMs, "\(vector.id)")
        }
        #expect(!file.androidTailTruncation.isEmpty)
        print("checked \(file.androidTailTruncation.count) lost tails of fragments.json")
    }

    // MARK: announce.json

    struct Announcements: Decodable {
        struct Preflight: Decodable {
            var note: String
            var senderHex: String
            var timestampMs: String
            var nowMs: String
            var payloadHex: String
            var verdict: String
        }
        var preflight: [Preflight]
    }

    @Test(.enabled(if: Vectors.exists("announce.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `announcements are accepted and rejected as by phones`() throws {
        let file = try Vectors.read(Announcements.self, from: "announce.json")
        for vector in file.preflight {
            let payload = try #require(Hex.decode(vector.payloadHex))
            let sender = try #require(PeerID(hex: vector.senderHex))
            // Only the verdict contains the local identity.
            let own = vector.verdict == "reject selfAnnounce" ? sender : PeerID(fitting: [])
            let verdict = AnnouncementVerdict(
                try MeshAnnouncement(decoding: payload[...]), sender: sender,
                timestamp: try #require(UInt64(vector.timestampMs)),
                now: WallTime(milliseconds: try #require(Int64(vector.nowMs))), own: own)
            let expected: AnnouncementVerdict? =
                switch vector.verdict {
                case "accept": .accept
                case "reject senderMismatch": .senderMismatch
                case "reject stale": .stale
                case "reject selfAnnounce": .ownAnnouncement
                default: nil
                }
            #expect(verdict == expected, "\(vector.note)")
        }
        #expect(!file.preflight.isEmpty)
        print("checked \(file.preflight.count) announcements of announce.json's preflight")
    }

    // MARK: identity.json

    struct Identities: Decodable {
        struct Vector: Decodable {
            var id: String
            var noisePrivateHex: String
            var noisePublicHex: String
            var ed25519SeedHex: String
            var ed25519PublicHex: String
            var fingerprintHex: String
            var peerIdHex: String
        }
        struct Duplicate: Decodable {
            var note: String
            var packet: VectorPacket
            var iosDedupId: String
            var gossipPacketIdHex: String
        }
        struct PublicMessage: Decodable {
            var content: String
            var senderIdHex: String
            var timestampMs: String
            var stableId: String
        }
        struct PrivateMedia: Decodable {
            var fileName: String
            var senderIdHex: String
            var recipientIdHex: String
            var stableId: String?
        }
        var vectors: [Vector]
        var dedup: [Duplicate]
        var publicMessageIds: [PublicMessage]
        var privateMediaIds: [PrivateMedia]
    }

    @Test(.enabled(if: Vectors.exists("identity.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `ids and fingerprints are derived from keys as by phones`() throws {
        let file = try Vectors.read(Identities.self, from: "identity.json")
        for vector in file.vectors {
            let key = try AgreementPrivateKey(seed: try #require(Hex.decode(vector.noisePrivateHex))).publicKey
            let signing = try SigningPrivateKey(seed: try #require(Hex.decode(vector.ed25519SeedHex))).publicKey
            #expect(Hex.encode(key.bytes) == vector.noisePublicHex, "\(vector.id)")
            #expect(Hex.encode(signing.bytes) == vector.ed25519PublicHex, "\(vector.id)")
            #expect(Fingerprint(of: key).hex == vector.fingerprintHex, "\(vector.id)")
            #expect(Fingerprint(of: key).peerID.hex == vector.peerIdHex, "\(vector.id)")
        }
        var names: [String: MeshPacketID] = [:]
        for duplicate in file.dedup {
            let id = MeshPacketID(of: try #require(try duplicate.packet.value()))
            #expect(Hex.encode(id.bytes) == duplicate.gossipPacketIdHex, "\(duplicate.note)")
            // The other app's capability has fewer bits, but the same meaning.
            #expect(names[duplicate.iosDedupId, default: id] == id, "\(duplicate.note)")
            #expect(names.allSatisfy { $0.key == duplicate.iosDedupId || $0.value != id }, "\(duplicate.note)")
            names[duplicate.iosDedupId] = id
        }
        for message in file.publicMessageIds {
            let id = DerivedMessageID.idOfPublicMessage(
                sender: PeerID(fitting: try #require(Hex.decode(message.senderIdHex))),
                timestamp: try #require(UInt64(message.timestampMs)), text: message.content)
            #expect(id == message.stableId, "\(message.content)")
        }
        for media in file.privateMediaIds {
            let id = DerivedMessageID.idOfPrivateFile(
                sender: PeerID(fitting: try #require(Hex.decode(media.senderIdHex))),
                recipient: PeerID(fitting: try #require(Hex.decode(media.recipientIdHex))), fileName: media.fileName)
            #expect(id == media.stableId, "\(media.fileName)")
        }
        #expect(!file.vectors.isEmpty && !file.dedup.isEmpty)
        print(
            """
            checked \(file.vectors.count) identities, \(file.dedup.count) packet ids, \(file.publicMessageIds.count) message ids \
            and \(file.privateMediaIds.count) media ids of identity.json
            """)
    }
}
