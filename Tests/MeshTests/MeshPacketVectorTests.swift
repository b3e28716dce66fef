import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshPacketVectorTests {
    struct Packets: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var packet: VectorPacket
            var encodeFails: Bool?
            var encodedUnpadded: Vectors.Blob?
            var encodedPadded: Vectors.Blob?
            var signingPreimage: Vectors.Blob?
            var flagsByte: UInt8?
            var compressed: Bool
            var bleFrameIsPadded: Bool
            var decodeEqualsPacket: Bool?
            var decoded: VectorPacket?
            var decodeFails: Bool?
        }
        var vectors: [Vector]
        var maxPayloadLengthAcceptedByIos: Int
    }

    @Test(.enabled(if: Vectors.exists("packets.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `packets of phones are decoded and encoded as by phones`() throws {
        let file = try Vectors.read(Packets.self, from: "packets.json")
        #expect(file.maxPayloadLengthAcceptedByIos == MeshPacket.phonePayloadByteCount)
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            guard let packet = try vector.packet.value() else {
                #expect(vector.encodeFails == true, name)
                continue
            }
            #expect(packet.isPaddedOnWire == vector.bleFrameIsPadded, name)
            if vector.encodeFails == true {
                #expect(throws: MalformedInput.self, name) { try packet.encoded() }
                #expect(throws: MalformedInput.self, name) { try packet.encoded(isPadded: true) }
                #expect(throws: MalformedInput.self, name) { try packet.signingPreimage() }
                continue
            }
            let unpadded = try #require(vector.encodedUnpadded)
            let preimage = try packet.signingPreimage()
            if vector.compressed {
                #expect(preimage[11] & 0x04 != 0, name)
                let inner = try MeshFrame(decoding: preimage[...]).packet
                #expect(inner.payload == packet.payload && inner.ttl == 0 && inner.signature == nil, name)
            } else {
                #expect(try #require(vector.signingPreimage).matches(preimage), name)
            }
            guard vector.decodeFails != true else {
                #expect(!vector.packet.hasWholeSignature, name)
                let bytes = try #require(unpadded.bytes)
                #expect(throws: MalformedInput.self, name) { try MeshFrame(decoding: bytes[...]) }
                continue
            }
            let ours = try packet.encoded()
            let oursPadded = try packet.encoded(isPadded: true)
            #expect(ours[11] == vector.flagsByte, name)
            if !vector.compressed {
                #expect(unpadded.matches(ours), name)
                #expect(try #require(vector.encodedPadded).matches(oursPadded), name)
            }
            for bytes in [ours, oursPadded, unpadded.bytes, vector.encodedPadded?.bytes].compactMap({ $0 }) {
                let decoded = try MeshFrame(decoding: bytes[...], payloadLimit: MeshPacket.phonePayloadByteCount)
                let expected = vector.decodeEqualsPacket == true ? vector.packet : try #require(vector.decoded)
                #expect(try expected.isEqual(to: decoded.packet), name)
                #expect(decoded.bytes == bytes.prefix(ours.count) || vector.compressed, name)
            }
        }
        #expect(!file.vectors.isEmpty)
        print("packets.json: \(file.vectors.count) items")
    }

    struct Paddings: Decodable {
        struct Vector: Decodable {
            var id: String
            var input: VectorBytes
            var padByte: UInt8?
            var paddedLength: Int
            var paddedSha256: String
            var targetBlock: Int
            var unpadRestores: Bool
        }
        struct Removal: Decodable {
            var id: String
            var note: String
            var inputHex: String
            var outputHex: String
        }
        var vectors: [Vector]
        var unpadCases: [Removal]
    }

    @Test(.enabled(if: Vectors.exists("padding.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `padding is that of phones`() throws {
        let file = try Vectors.read(Paddings.self, from: "padding.json")
        for vector in file.vectors {
            let input = try vector.input.make()
            let padded = MeshPadding.padded(input)
            #expect(MeshPadding.target(for: input.count) == vector.targetBlock, "\(vector.id)")
            #expect(padded.count == vector.paddedLength, "\(vector.id)")
            #expect(Hex.encode(SHA256Hasher.digest(padded)) == vector.paddedSha256, "\(vector.id)")
            #expect((padded.count > input.count ? padded.last : nil) == vector.padByte, "\(vector.id)")
            #expect((MeshPadding.unpadded(padded[...]) == input[...]) == vector.unpadRestores, "\(vector.id)")
        }
        for removal in file.unpadCases {
            let output = MeshPadding.unpadded(try hexBytes(removal.inputHex)[...])
            #expect(Hex.encode(output) == removal.outputHex, "\(removal.id): \(removal.note)")
        }
        #expect(!file.vectors.isEmpty && !file.unpadCases.isEmpty)
        print("padding.json: \(file.vectors.count + file.unpadCases.count) items")
    }

    struct Compressions: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var payload: VectorBytes
            var shouldAttemptCompression: Bool
            var oracleCompresses: Bool
        }
        struct Packet: Decodable {
            struct Encoding: Decodable {
                var deflateLevel: Int
                var encodedUnpadded: Vectors.Blob
            }
            var id: String
            var note: String
            var packet: VectorPacket
            var acceptedEncodings: [Encoding]
        }
        /// Described in words only: this number of compressible bytes in version 1.
        struct Other: Decodable {
            var id: String
            var note: String
            var encodeFails: Bool
        }
        var vectors: [Vector]
        var compressedPackets: [Packet]
        var other: [Other]
    }

    @Test(.enabled(if: Vectors.exists("compression.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `payloads are compressed where phones do so`() throws {
        let file = try Vectors.read(Compressions.self, from: "compression.json")
        func packet(_ payload: [UInt8], _ version: MeshPacket.Version) -> MeshPacket {
            MeshPacket(version: version, type: .message, timestamp: 1, sender: .broadcast, payload: payload[...])
        }
        for vector in file.vectors {
            let payload = try vector.payload.make()
            #expect(Deflate.isCompressible(payload[...]) == vector.shouldAttemptCompression, "\(vector.id): \(vector.note)")
            let frame = try MeshFrame(packet(payload, .v2))
            #expect(frame.isCompressed == vector.oracleCompresses, "\(vector.id): \(vector.note)")
            #expect(try MeshFrame(decoding: frame.bytes).packet == frame.packet, "\(vector.id): \(vector.note)")
        }
        for vector in file.compressedPackets {
            #expect(!vector.acceptedEncodings.isEmpty)
            let ours = try #require(try vector.packet.value())
            for encoding in vector.acceptedEncodings {
                let name: Comment = "\(vector.id), level \(encoding.deflateLevel): \(vector.note)"
                let bytes = try #require(encoding.encodedUnpadded.bytes)
                #expect(encoding.encodedUnpadded.matches(bytes), name)
                let frame = try MeshFrame(decoding: bytes[...])
                #expect(frame.isCompressed && frame.packet == ours, name)
                #expect(try vector.packet.isEqual(to: frame.packet), name)
                let again = try ours.encoded(compression: .level(encoding.deflateLevel))
                #expect(try MeshFrame(decoding: again[...]).packet == ours, name)
            }
        }
        for other in file.other {
            let count = try #require(
                other.note.split { !$0.isNumber }.compactMap { Int($0) }.max(), "\(other.id): \(other.note)")
            try #require(other.encodeFails && count > 65_535, "\(other.id): \(other.note)")
            #expect(throws: MalformedInput.self) { try packet([UInt8](repeating: 0x61, count: count), .v1).encoded() }
        }
        #expect(!file.vectors.isEmpty && !file.compressedPackets.isEmpty)
        print("compression.json: \(file.vectors.count + file.compressedPackets.count + file.other.count) items")
    }

    struct Signings: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var packet: VectorPacket
            var signer: VectorIdentity
            var preimage: Vectors.Blob
            var preimageContainsDeflate: Bool
            var preimageIsPadded: Bool
            var signatureHex: String
            var signedFrameUnpadded: Vectors.Blob
            /// The change → whether the signature is still valid.
            var verification: [String: Bool]
        }
        var vectors: [Vector]
    }

    @Test(.enabled(if: Vectors.exists("signing.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `signatures of phones are verified`() throws {
        let file = try Vectors.read(Signings.self, from: "signing.json")
        var changes = 0
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let key = try vector.signer.signingKey
            var packet = try #require(try vector.packet.value())
            let preimage = try packet.signingPreimage()
            packet.signature = try hexBytes(vector.signatureHex)
            let signed = try MeshFrame(packet)
            #expect(signed.isCompressed == vector.preimageContainsDeflate, name)
            #expect(packet.sender.hex == vector.signer.peerIdHex, name)
            if !vector.preimageContainsDeflate {
                #expect(vector.preimage.matches(preimage), name)
                #expect(vector.signedFrameUnpadded.matches(signed.bytes), name)
            }
            // The length of the signed bytes, before padding.
            let bare = signed.bytes.count - MeshPacket.signatureByteCount
            #expect(vector.preimageContainsDeflate || (MeshPadding.fill(for: bare) > 0) == vector.preimageIsPadded, name)

            let frame = try MeshFrame(decoding: vector.signedFrameUnpadded.bytes?[...] ?? signed.bytes)
            #expect(frame.packet == packet && frame.isSigned(by: key), name)
            let own = try SigningPrivateKey(seed: try hexBytes(vector.signer.ed25519SeedHex))
            #expect(key.isValid(own.signature(for: preimage), for: preimage), name)

            for (change, isGood) in vector.verification {
                let other = try SigningPrivateKey(seed: [UInt8](repeating: 9, count: 32)).publicKey
                let changed = try MeshFrame(try Self.changed(frame.packet, change))
                #expect(changed.isSigned(by: change == "wrong_key" ? other : key) == isGood, "\(vector.id), \(change)")
                changes += 1
            }
        }
        #expect(!file.vectors.isEmpty && changes > 0)
        print("signing.json: \(file.vectors.count) items with \(changes) changes")
    }

    private static func changed(_ packet: MeshPacket, _ change: String) throws -> MeshPacket {
        var packet = packet
        var other = PeerID.broadcast.bytes
        other[0] = 1
        let otherPeer = try #require(PeerID(bytes: other))
        switch change {
        case "unchanged", "wrong_key": break
        case "ttl_changed_to_0": packet.ttl = 0
        case "ttl_changed_to_255": packet.ttl = 255
        case "rsr_flag_toggled": packet.isSyncResponse.toggle()
        case "payload_bit_flipped":
            var payload = Array(packet.payload)
            payload[0] ^= 1
            packet.payload = payload[...]
        case "recipient_removed_or_added": packet.recipient = packet.recipient == nil ? otherPeer : nil
        case "route_changed": packet.route += [otherPeer]
        case "sender_changed": packet.sender = otherPeer
        case "signature_bit_flipped": packet.signature?[0] ^= 1
        case "timestamp_plus_1": packet.timestamp &+= 1
        case "type_changed": packet.type = MeshPacketType(rawValue: packet.type.rawValue ^ 1)
        case "version_switched": packet.version = packet.version == .v1 ? .v2 : .v1
        default: Issue.record("an unknown change: \(change)")
        }
        return packet
    }

    struct Malformed: Decodable {
        struct Android: Decodable {
            struct Packet: Decodable {
                var version: UInt8
                var type: UInt8
                var ttl: UInt8
                var timestampMs: String
                var senderIdHex: String
                var recipientIdHex: String?
                var routeCount: Int
                var signatureHex: String?
                var payloadLength: Int
                var payloadSha256: String

                func isEqual(to packet: MeshPacket) -> Bool {
                    version == packet.version.rawValue && type == packet.type.rawValue && ttl == packet.ttl
                        && timestampMs == String(packet.timestamp) && senderIdHex == packet.sender.hex
                        && recipientIdHex == packet.recipient?.hex && routeCount == packet.route.count
                        && signatureHex == packet.signature.map { Hex.encode($0) } && payloadLength == packet.payload.count
                        && payloadSha256 == Hex.encode(SHA256Hasher.digest(Array(packet.payload)))
                }
            }
            var decodeFails: Bool
            var decoded: Packet?
        }
        struct Vector: Decodable {
            var id: String
            var note: String
            var input: VectorBytes
            var consensus: Consensus
            var decodeFails: Bool
            var decoded: VectorPacket?
            var android: Android
        }
        var vectors: [Vector]
    }

    @Test(
        "M1, R2: input that both phone apps reject is rejected",
        .enabled(if: Vectors.exists("malformed.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func malformed() throws {
        let file = try Vectors.read(Malformed.self, from: "malformed.json")
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let input = try vector.input.make()[...]
            let packet = try? MeshFrame(decoding: input, payloadLimit: MeshPacket.phonePayloadByteCount).packet
            let asIPhone = try packet.map { try vector.decoded?.isEqual(to: $0) ?? false } ?? vector.decodeFails
            let asAndroid = packet.map { vector.android.decoded?.isEqual(to: $0) ?? false } ?? vector.android.decodeFails
            switch vector.consensus {
            case .mustReject: #expect(packet == nil, name)
            case .mustAccept: #expect(packet != nil && asIPhone && asAndroid, name)
            case .platformsDiffer: #expect(asIPhone || asAndroid, name)
            }
        }
        #expect(!file.vectors.isEmpty)
        print("malformed.json: \(file.vectors.count) items")
    }

    struct Streams: Decodable {
        struct Vector: Decodable {
            struct Step: Decodable {
                var chunkHex: String
                var framesHex: [String]
                var droppedPrefixBytes: [UInt8]
                var reset: Bool
            }
            var id: String
            var note: String
            var steps: [Step]
        }
        var vectors: [Vector]
    }

    @Test(.enabled(if: Vectors.exists("stream.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `frames are found in a stream as by phones`() throws {
        let file = try Vectors.read(Streams.self, from: "stream.json")
        for vector in file.vectors {
            var accumulator = MeshFrameAccumulator(payloadLimit: MeshPacket.phonePayloadByteCount)
            for (number, step) in vector.steps.enumerated() {
                let name: Comment = "\(vector.id), step \(number): \(vector.note)"
                accumulator.append(try hexBytes(step.chunkHex))
                var frames: [String] = []
                var isReset = false
                while let found = accumulator.next() {
                    switch found {
                    case .frame(let frame): frames.append(Hex.encode(frame))
                    case .reset: isReset = true
                    }
                }
                #expect(frames == step.framesHex, name)
                #expect(isReset == step.reset, name)
                #expect(accumulator.skippedBytes == step.droppedPrefixBytes, name)
            }
        }
        #expect(!file.vectors.isEmpty)
        print("stream.json: \(file.vectors.count) items")
    }
}
