import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshAnnouncementVectorTests {
    struct Fields: Decodable {
        var nickname: String
        var noisePublicHex: String
        var ed25519PublicHex: String
        var neighborsHex: [String]?
        var capabilities: String?
        var bridgeGeohash: String?

        func value() throws -> MeshAnnouncement {
            MeshAnnouncement(
                nickname: nickname, noiseKey: try hexBytes(noisePublicHex), signingKey: try hexBytes(ed25519PublicHex),
                neighbours: try neighborsHex?.map { try #require(PeerID(hex: $0)) },
                capabilities: try capabilities.map { MeshCapabilities(rawValue: try #require(UInt64($0))) },
                bridgeGeohash: bridgeGeohash)
        }
    }
    struct Announcements: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var fields: Fields
            var encodeFails: Bool?
            var encoded: Vectors.Blob?
            var decoded: Fields?
            var signedFrame: Vectors.Blob?
            var signingPreimageCompressed: Bool?
        }
        struct Case: Decodable {
            struct Android: Decodable {
                var decodeFails: Bool
                var nickname: String?
                var capabilities: String?
            }
            var id: String
            var note: String
            var inputHex: String
            var consensus: Consensus
            var decodeFails: Bool
            var decoded: Fields?
            var android: Android
        }
        var vectors: [Vector]
        var decodeCases: [Case]
        var identity: VectorIdentity
    }

    @Test(.enabled(if: Vectors.exists("announce.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `announcements of phones are decoded as by phones`() throws {
        let file = try Vectors.read(Announcements.self, from: "announce.json")
        for vector in file.vectors {
            let name: Comment = "\(vector.id): \(vector.note)"
            let value = try vector.fields.value()
            if vector.encodeFails == true {
                #expect(throws: MalformedInput.self, name) { try value.encoded() }
                continue
            }
            let encoded = try value.encoded()
            #expect(try #require(vector.encoded).matches(encoded), name)
            let decoded = try MeshAnnouncement(decoding: encoded[...])
            #expect(try decoded == #require(vector.decoded).value(), name)

            let frame = try MeshFrame(decoding: try #require(vector.signedFrame?.bytes)[...])
            #expect(frame.packet.type == .announce && Array(frame.packet.payload) == encoded, name)
            #expect(frame.packet.sender.hex == file.identity.peerIdHex, name)
            #expect(frame.isSigned(by: try SigningPublicKey(decoded.signingKey)), name)
            let preimage = try #require(frame.signingPreimages.first)
            #expect((preimage[11] & 0x04 != 0) == vector.signingPreimageCompressed, name)
        }
        for vector in file.decodeCases {
            let name: Comment = "\(vector.id): \(vector.note)"
            let decoded = try? MeshAnnouncement(decoding: try hexBytes(vector.inputHex)[...])
            let asIPhone = try decoded == vector.decoded?.value()
            let asAndroid =
                decoded.map {
                    $0.nickname == vector.android.nickname
                        && $0.capabilities.map { String($0.rawValue) } == vector.android.capabilities
                } ?? vector.android.decodeFails
            switch vector.consensus {
            case .mustReject: #expect(decoded == nil, name)
            case .mustAccept: #expect(decoded != nil && asIPhone && asAndroid, name)
            case .platformsDiffer: #expect(asIPhone || asAndroid, name)
            }
        }
        #expect(!file.vectors.isEmpty && !file.decodeCases.isEmpty)
        print("announce.json: \(file.vectors.count + file.decodeCases.count) items besides preflight")
    }
}
