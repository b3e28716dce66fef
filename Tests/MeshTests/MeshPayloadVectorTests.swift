import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshFileVectorTests {
    struct File: Decodable {
        var content: VectorBytes
        var fileName: String?
        var fileSize: UInt64?
        var mimeType: String?

        func isEqual(to file: MeshFile) -> Bool {
            fileName == file.name && mimeType == file.mediaType && fileSize == file.declaredSize ?? UInt64(file.content.count)
                && content.matches(file.content)
        }
    }
    struct Android: Decodable {
        var decodeFails: Bool?
        var encodeFails: Bool?
        var contentHex: String?
        var fileName: String?
        var fileSize: UInt64?
        var mimeType: String?

        /// A missing type is filled in there, and text that is not valid is mended.
        func isEqual(to file: MeshFile) -> Bool {
            fileName == file.name && mimeType == file.mediaType ?? "application/octet-stream"
                && fileSize == file.declaredSize ?? UInt64(file.content.count) && contentHex == Hex.encode(file.content)
        }
    }
    struct Files: Decodable {
        struct Vector: Decodable {
            enum CodingKeys: String, CodingKey {
                case id, note, fileName, fileSizeOverride, mimeType, content, encoded, encodeFails, transferId, decodeFails,
                    decoded, consensus, android
                // The result of the key decoding strategy.
                case inNoisePayload = "inNoisePayload0X20"
            }
            var id: String
            var note: String
            var fileName: String?
            var fileSizeOverride: UInt64?
            var mimeType: String?
            var content: VectorBytes
            var encoded: Vectors.Blob?
            var encodeFails: Bool?
            var transferId: String?
            var inNoisePayload: Vectors.Blob?
            var decodeFails: Bool?
            var decoded: File?
            var consensus: Consensus?
            var android: Android
        }
        struct Case: Decodable {
            var id: String
            var note: String
            var input: VectorBytes
            var consensus: Consensus
            var decodeFails: Bool
            var decoded: File?
            var android: Android
        }
        var vectors: [Vector]
        var decodeCases: [Case]
    }

    // The names and types that an iPhone chooses when it stores a file are not part of the value.
    @Test(.enabled(if: Vectors.exists("file_packets.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `files of phones are decoded as by phones`() throws {
        let file = try Vectors.read(Files.self, from: "file_packets.json")
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let value = MeshFile(
                name: vector.fileName, mediaType: vector.mimeType, declaredSize: vector.fileSizeOverride,
                content: try vector.content.make()[...])
            if vector.encodeFails == true {
                // 1 MiB is an iPhone's limit; ours is larger, as Android's is.
                let isTooLarge = value.content.count > MeshFile.maximumContentByteCount
                #expect(isTooLarge || vector.android.encodeFails == false, name)
                #expect((try? value.encoded()) == nil || !isTooLarge, name)
                continue
            }
            let encoded = try value.encoded()
            #expect(try #require(vector.encoded).matches(encoded), name)
            #expect(Hex.encode(SHA256Hasher.digest(encoded)) == vector.transferId, name)
            let inNoise = try MeshNoisePayload.file(encoded[...]).encoded()
            #expect(try #require(vector.inNoisePayload).matches(inNoise), name)
            #expect(try MeshNoisePayload(decoding: inNoise[...]) == .file(encoded[...]), name)
            let decoded = try? MeshFile(decoding: encoded[...])
            if let decoded, let expected = vector.decoded { #expect(expected.isEqual(to: decoded), name) }
            switch try #require(vector.consensus) {
            case .mustReject: #expect(decoded == nil, name)
            case .mustAccept: #expect(decoded != nil && vector.decoded != nil, name)
            // Both results are acceptable; the decoded value was compared above.
            case .platformsDiffer: #expect(decoded?.content == value.content || decoded == nil, name)
            }
        }
        for vector in file.decodeCases {
            let name: Comment = "\(vector.id): \(vector.note)"
            let decoded = try? MeshFile(decoding: try vector.input.make()[...])
            let asIPhone = decoded.map { vector.decoded?.isEqual(to: $0) ?? false } ?? vector.decodeFails
            let asAndroid = decoded.map { vector.android.isEqual(to: $0) } ?? (vector.android.decodeFails == true)
            switch vector.consensus {
            case .mustReject: #expect(decoded == nil, name)
            case .mustAccept: #expect(decoded != nil && asIPhone && asAndroid, name)
            case .platformsDiffer: #expect(asIPhone || asAndroid, name)
            }
        }
        #expect(!file.vectors.isEmpty && !file.decodeCases.isEmpty)
        print("file_packets.json: \(file.vectors.count + file.decodeCases.count) items")
    }
}

@Suite struct MeshFragmentVectorTests {
    struct Fragments: Decodable {
        struct Content: Decodable {
            var fileName: String
            var mimeType: String
            var seed: UInt32
            var length: Int
        }
        struct Vector: Decodable {
            struct Fragment: Decodable {
                var index: Int
                var frameHex: String
            }
            var id: String
            var note: String
            var packet: VectorPacket
            var content: Content?
            var frame: Vectors.Blob
            var framePadded: Bool
            var chunkSize: Int
            var total: Int
            var fragmentIdHex: String
            var fragmentVersion: UInt8
            var fragmentFrameLengths: [Int]
            var fragments: [Fragment]
            var fragmentsLe256: Bool
            var concatOfFragmentFramesSha256: String
            var reassembledDecodesToPacket: Bool
            var transferId: String?

            /// The packet with its payload, which may have to be built from the file.
            func value() throws -> MeshPacket {
                guard packet.payload.kind == "file_tlv" else { return try #require(try packet.value()) }
                let content = try #require(content)
                let file = MeshFile(
                    name: content.fileName, mediaType: content.mimeType,
                    content: Vectors.bytes(seed: content.seed, count: content.length)[...])
                let encoded = try file.encoded()
                try #require(packet.payload.matches(encoded))
                return try #require(try packet.value(payload: encoded))
            }
        }
        struct AndroidPlan: Decodable {
            var id: String
            var note: String
            var sourceVector: String
            var chunkSize: Int
            var count: Int
            var fragmentVersion: UInt8
            var frameLengths: [Int]
            var framesHex: [String]?
            var joinedEqualsFullFrame: Bool
            var joinedLength: Int
            var joinedSha256: String
            var randomFragmentIdHex: String?
        }
        struct Truncation: Decodable {
            var id: String
            var note: String
            var fullFrame: Tail
            var signatureHex: String
            var strippedLength: Int

            struct Tail: Decodable {
                enum CodingKeys: String, CodingKey {
                    case length
                    case tail = "tail64Hex"
                }
                var length: Int
                var tail: String
            }
        }
        var vectors: [Vector]
        var androidPlans: [AndroidPlan]
        var androidTailTruncation: [Truncation]
    }

    @Test(.enabled(if: Vectors.exists("fragments.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `packets are cut into the fragments of phones`() throws {
        let file = try Vectors.read(Fragments.self, from: "fragments.json")
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let packet = try vector.value()
            if vector.content != nil {
                #expect(vector.transferId == Hex.encode(SHA256Hasher.digest(Array(packet.payload))), name)
            }
            #expect(packet.isPaddedOnWire == vector.framePadded, name)
            let frame = try packet.encoded(isPadded: packet.isPaddedOnWire)
            #expect(vector.frame.matches(frame), name)
            let plan = try MeshFragmentation(
                packet, frame: frame, id: try #require(MeshFragment.ID(bytes: try hexBytes(vector.fragmentIdHex))),
                chunkByteCount: vector.chunkSize)
            #expect(plan.count == vector.total && (plan.count <= 256) == vector.fragmentsLe256, name)

            let fragments = try (0..<plan.count).map { try MeshFrame(plan[$0]) }
            let encoded = fragments.map(\.bytes)
            // Slices do not shrink, or what deflate has made of them is not the only right answer.
            if !fragments.contains(where: \.isCompressed) {
                #expect(Set(encoded.map(\.count)) == Set(vector.fragmentFrameLengths), name)
                let digest = Hex.encode(SHA256Hasher.digest(Array(encoded.joined())))
                #expect(digest == vector.concatOfFragmentFramesSha256, name)
            }
            #expect(plan[0].version.rawValue == vector.fragmentVersion, name)
            for given in vector.fragments {
                #expect(try MeshFrame(decoding: try hexBytes(given.frameHex)[...]).packet == plan[given.index], name)
            }

            let joined = try Self.joined(try encoded.map { try MeshFrame(decoding: $0).packet }, of: packet)
            #expect(joined == frame, name)
            #expect((try MeshFrame(decoding: joined[...]).packet == packet) == vector.reassembledDecodesToPacket, name)
        }
        for plan in file.androidPlans {
            let name: Comment = "\(plan.id): \(plan.note)"
            let source = try #require(file.vectors.first { $0.id == plan.sourceVector })
            let packet = try source.value()
            if let frames = plan.framesHex {
                let fragments = try frames.map { try MeshFrame(decoding: try hexBytes($0)[...]) }
                #expect(fragments.count == plan.count, name)
                let ids = try fragments.map { try MeshFragment(decoding: $0.packet.payload).id.hex }
                #expect(Set(ids) == Set([plan.randomFragmentIdHex]), name)
                #expect(Set(fragments.map(\.bytes.count)) == Set(plan.frameLengths), name)
                let joined = try Self.joined(fragments.map(\.packet), of: packet)
                try Self.expectJoined(joined, of: plan, packet)
            } else if plan.chunkSize == 0 {
                // Sent unfragmented, with padding.
                #expect(plan.count == 1 && !plan.joinedEqualsFullFrame, name)
                try Self.expectJoined(try packet.encoded(isPadded: true), of: plan, packet)
            } else {
                let whole = try packet.encoded(isPadded: packet.isPaddedOnWire)
                let id = try #require(MeshFragment.ID(bytes: try hexBytes(plan.randomFragmentIdHex)))
                let ours = try MeshFragmentation(packet, frame: whole, id: id, chunkByteCount: plan.chunkSize)
                #expect(ours.count == plan.count && ours[0].version.rawValue == plan.fragmentVersion, name)
                let lengths = try (0..<ours.count).map { try ours[$0].encoded().count }
                #expect(Set(lengths) == Set(plan.frameLengths), name)
                try Self.expectJoined(whole, of: plan, packet)
            }
        }
        for truncation in file.androidTailTruncation {
            // The frame itself is not given, but its end, which is the signature, is what was taken for padding.
            let tail = try hexBytes(truncation.fullFrame.tail)
            #expect(truncation.fullFrame.tail == truncation.signatureHex, "\(truncation.id)")
            let lost = tail.count - MeshPadding.unpadded(tail[...]).count
            #expect(lost == truncation.fullFrame.length - truncation.strippedLength, "\(truncation.id): \(truncation.note)")
        }
        #expect(!file.vectors.isEmpty && !file.androidPlans.isEmpty)
        let count = file.vectors.count + file.androidPlans.count + file.androidTailTruncation.count
        print("fragments.json: \(count) items besides reassembly")
    }

    /// The slices in order, after what they must have in common with their packet.
    private static func joined(_ fragments: [MeshPacket], of packet: MeshPacket) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, outer) in fragments.enumerated() {
            let fragment = try MeshFragment(decoding: outer.payload)
            #expect(outer.type == .fragment && outer.signature == nil)
            #expect(outer.sender == packet.sender && outer.recipient == packet.recipient && outer.route == packet.route)
            #expect(outer.timestamp == packet.timestamp && outer.ttl == packet.ttl)
            #expect(fragment.index == index && fragment.total == fragments.count && fragment.originalType == packet.type)
            bytes += fragment.slice
        }
        return bytes
    }

    private static func expectJoined(_ joined: [UInt8], of plan: Fragments.AndroidPlan, _ packet: MeshPacket) throws {
        let name: Comment = "\(plan.id): \(plan.note)"
        #expect(joined.count == plan.joinedLength, name)
        #expect(Hex.encode(SHA256Hasher.digest(joined)) == plan.joinedSha256, name)
        // Android forgets the flag for an answer.
        var expected = packet
        var decoded = try MeshFrame(decoding: joined[...]).packet
        (expected.isSyncResponse, decoded.isSyncResponse) = (false, false)
        #expect(decoded == expected, name)
    }
}
