import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@Suite struct MeshNoisePayloadVectorTests {
    struct Payloads: Decodable {
        /// Each kind has its own size.
        struct Fields: Decodable {
            var messageId: String?
            var content: Content?
            var noiseKeyHex: String?
            var nonceHex: String?
            var signatureHex: String?
            var signedMessageHex: String?
            var signerPublicHex: String?
            var verifies: Bool?
            var capabilities: String?
            var ed25519PublicHex: String?
            var fileName: String?
            var burstIdHex: String?
            var seq: UInt16?
            var originTtl: UInt8?

            /// A text, or a file's content.
            enum Content: Decodable {
                case text(String)
                case bytes(VectorBytes)

                init(from decoder: any Decoder) throws {
                    if let text = try? decoder.singleValueContainer().decode(String.self) {
                        self = .text(text)
                    } else {
                        self = .bytes(try VectorBytes(from: decoder))
                    }
                }
            }

            func text() throws -> String {
                guard case .text(let text) = try #require(content) else { throw MalformedInput("not a text") }
                return text
            }

            func bytes() throws -> [UInt8] {
                guard case .bytes(let bytes) = try #require(content) else { throw MalformedInput("not a file") }
                return try bytes.make()
            }

            func challenge() throws -> MeshVerification.Challenge {
                MeshVerification.Challenge(
                    noiseKeyHex: try #require(noiseKeyHex), nonce: try hexBytes(nonceHex))
            }

            func state() throws -> MeshPeerState {
                MeshPeerState(
                    capabilities: MeshCapabilities(rawValue: try #require(capabilities.flatMap { UInt64($0) })),
                    signingKey: try hexBytes(ed25519PublicHex))
            }
        }
        struct Vector: Decodable {
            var id: String
            var note: String
            var kind: String
            var fields: Fields
            var encodeFails: Bool
            var encoded: Vectors.Blob?
        }
        struct Case: Decodable {
            struct Decoded: Decodable {
                var messageId: String?
                var content: String?
                var capabilities: String?
                var ed25519PublicHex: String?
                var type: UInt8?
                var dataHex: String?
            }
            var id: String
            var note: String
            var kind: String
            var inputHex: String
            var consensus: Consensus
            var decodeFails: Bool
            var decoded: Decoded?
        }
        struct Code: Decodable {
            struct Fields: Decodable {
                var v: Int
                var noise: String
                var sign: String
                var nick: String
                var ts: Int64
                var nonce: String
                var npub: String?
            }
            var fields: Fields
            var canonicalBytesHex: String
            var signatureHex: String
            var signerPublicHex: String
            var url: String
        }
        var vectors: [Vector]
        var decodeCases: [Case]
        var verificationQr: Code
    }

    @Test(.enabled(if: Vectors.exists("noise_payloads.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `payloads of phones are decoded as by phones`() throws {
        let file = try Vectors.read(Payloads.self, from: "noise_payloads.json")
        for vector in file.vectors { try check(vector) }
        for vector in file.decodeCases { try check(vector) }
        try check(file.verificationQr)
        #expect(!file.vectors.isEmpty && !file.decodeCases.isEmpty)
        print("noise_payloads.json: \(file.vectors.count + file.decodeCases.count + 1) items")
    }

    private func check(_ vector: Payloads.Vector) throws {
        let name: Comment = "\(vector.id): \(vector.kind), \(vector.note)"
        let fields = vector.fields
        let payload: MeshNoisePayload
        switch vector.kind {
        case "privateMessage 0x01":
            payload = .privateMessage(MeshPrivateMessage(id: try #require(fields.messageId), text: try fields.text()))
        case "readReceipt 0x02": payload = .readReceipt(messageID: try #require(fields.messageId))
        case "delivered 0x03": payload = .delivered(messageID: try #require(fields.messageId))
        case "verifyChallenge 0x10": payload = .verifyChallenge(try fields.challenge())
        case "verifyResponse 0x11":
            let response = MeshVerification.Response(
                challenge: try fields.challenge(), signature: try hexBytes(fields.signatureHex))
            let signed = MeshVerification.signedBytes(response.challenge)
            #expect(Hex.encode(signed) == fields.signedMessageHex, name)
            let key = try SigningPublicKey(try hexBytes(fields.signerPublicHex))
            #expect(key.isValid(response.signature, for: signed) == fields.verifies, name)
            payload = .verifyResponse(response)
        case "authenticatedPeerState 0x21": payload = .peerState(try fields.state())
        case "privateFile 0x20":
            let file = MeshFile(
                name: fields.fileName, mediaType: "application/octet-stream", content: try fields.bytes()[...])
            payload = .file(try file.encoded()[...])
        case "voiceFrame 0x08 body":
            // The frames themselves are not among the fields.
            let body = try #require(vector.encoded?.bytes)
            let burst = try MeshVoiceBurst(decoding: body[...])
            #expect(Hex.encode(burst.burst) == fields.burstIdHex && burst.sequence == fields.seq, name)
            #expect(burst.encoded == body, name)
            #expect(try MeshNoisePayload(decoding: [0x08] + body) == .voiceFrame(burst), name)
            return
        case "ping 0x26 body":
            let ping = MeshPing(nonce: try hexBytes(fields.nonceHex), originTTL: try #require(fields.originTtl))
            let body = try #require(vector.encoded?.bytes)
            #expect(ping.encoded == body, name)
            #expect(try MeshPing(decoding: body[...]) == ping, name)
            return
        case "vouch attestation (inside 0x12 batch)":
            // Vouching is optional and not spoken here: its payloads are of a kind that is ignored.
            let body = try #require(vector.encoded?.bytes)
            #expect(throws: MalformedInput.self, name) { try MeshNoisePayload(decoding: [0x12] + body) }
            return
        default:
            Issue.record("an unknown kind: \(vector.kind)")
            return
        }
        if vector.encodeFails {
            #expect(throws: MalformedInput.self, name) { try payload.encoded() }
        } else {
            let encoded = try payload.encoded()
            #expect(try #require(vector.encoded).matches(encoded), name)
            #expect(try MeshNoisePayload(decoding: encoded[...]) == payload, name)
        }
    }

    private func check(_ vector: Payloads.Case) throws {
        let name: Comment = "\(vector.id): \(vector.kind), \(vector.note)"
        let input = try hexBytes(vector.inputHex)[...]
        let isRefused: Bool
        switch vector.kind {
        case "privateMessage TLV":
            let message = try? MeshPrivateMessage(decoding: input)
            isRefused = message == nil
            if let message, let decoded = vector.decoded {
                #expect(message.id == decoded.messageId && message.text == decoded.content, name)
            }
        case "authenticatedPeerState":
            let state = try? MeshPeerState(decoding: input)
            isRefused = state == nil
            if let state, let decoded = vector.decoded {
                #expect(String(state.capabilities.rawValue) == decoded.capabilities, name)
                #expect(Hex.encode(state.signingKey) == decoded.ed25519PublicHex, name)
            }
        case "voice burst": isRefused = (try? MeshVoiceBurst(decoding: input)) == nil
        case "noise payload type byte":
            let payload = try? MeshNoisePayload(decoding: input)
            let data = vector.decoded?.dataHex
            switch (vector.decoded?.type, payload) {
            case (nil, _): break
            case (0x20, .file(let bytes)): #expect(Hex.encode(bytes) == data, name)
            case (0x02, .readReceipt(let id)), (0x03, .delivered(let id)): #expect(Hex.encode(id.utf8) == data, name)
            // A body is judged along with its kind here, and by its own cases above; optional kinds are ignored.
            case (0x01, _), (0x06, _), (0x07, _), (0x08, _), (0x10, _), (0x11, _), (0x12, _), (0x21, _): return
            default: Issue.record(name)
            }
            isRefused = payload == nil
        default:
            Issue.record("an unknown kind: \(vector.kind)")
            return
        }
        switch vector.consensus {
        case .mustReject: #expect(isRefused, name)
        case .mustAccept: #expect(!isRefused, name)
        case .platformsDiffer: break  // Either is tolerable.
        }
    }

    private func check(_ vector: Payloads.Code) throws {
        let fields = vector.fields
        try #require(fields.v == 1)
        let code = MeshVerificationCode(
            noiseKeyHex: fields.noise, signingKeyHex: fields.sign, nickname: fields.nick, time: fields.ts, nonce: fields.nonce,
            nostrKey: fields.npub)
        let signature = try hexBytes(vector.signatureHex)
        let signed = try code.signedBytes()
        #expect(Hex.encode(signed) == vector.canonicalBytesHex)
        #expect(try SigningPublicKey(try hexBytes(vector.signerPublicHex)).isValid(signature, for: signed))
        #expect(code.address(signature: signature) == vector.url)
        let decoded = try MeshVerificationCode.decode(address: vector.url)
        #expect(decoded.code == code && decoded.signature == signature)
    }
}
