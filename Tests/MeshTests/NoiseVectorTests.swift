import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

/// Encryption in the mesh, compared with the phone apps.
@Suite struct NoiseVectorTests {
    struct Transports: Decodable {
        struct Vector: Decodable {
            var id: String
            var note: String
            var keyHex: String
            var nonceOrder: [UInt64]
            var wiresHex: [String]
            var correctSlidingWindowVerdicts: [String]
        }
        struct Malformed: Decodable {
            var id: String
            var note: String
            var keyHex: String
            /// Missing where the sender, and not what it sends, is the case.
            var inputHex: String?
            var plaintextHex: String?
            var verdict: String
        }
        var vectors: [Vector]
        var malformed: [Malformed]
    }

    private func transport(_ keyHex: String) throws -> NoiseDatagrams {
        let key = SecretBytes(try #require(Hex.decode(keyHex)))
        return NoiseDatagrams(send: CipherState(key: key), receive: CipherState(key: key))
    }

    @Test(
        "K11: the window of the vectors",
        .enabled(if: Vectors.exists("noise_transport.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func transports() throws {
        let file = try Vectors.read(Transports.self, from: "noise_transport.json")
        var messages = 0
        for vector in file.vectors {
            var transport = try transport(vector.keyHex)
            for (index, wire) in vector.wiresHex.enumerated() {
                let bytes = try #require(Hex.decode(wire))
                let isAccepted = (try? transport.open(bytes[...])) != nil
                #expect(
                    isAccepted == (vector.correctSlidingWindowVerdicts[index] == "accept"),
                    "\(vector.id), \(vector.note): number \(vector.nonceOrder[index])")
                messages += 1
            }
            #expect(vector.wiresHex.count == vector.correctSlidingWindowVerdicts.count)
        }
        for malformed in file.malformed {
            var transport = try transport(malformed.keyHex)
            guard let input = malformed.inputHex else {
                var key = CipherState(key: SecretBytes(try #require(Hex.decode(malformed.keyHex))))
                key.setNonce(UInt64(NoiseDatagrams.maximumCounter) + 1)
                var sender = NoiseDatagrams(send: key, receive: key)
                #expect((try? sender.seal([1])) == nil, "\(malformed.id): \(malformed.note)")
                continue
            }
            let plaintext = try? transport.open(try #require(Hex.decode(input))[...])
            #expect((plaintext != nil) == (malformed.verdict == "accepted"), "\(malformed.id): \(malformed.note)")
            if let expected = malformed.plaintextHex { #expect(plaintext.map(Hex.encode) == expected, "\(malformed.id)") }
        }
        #expect(messages > 0 && !file.malformed.isEmpty)
        print(
            """
            checked \(file.vectors.count) orders of \(messages) messages and \(file.malformed.count) malformed ones of \
            noise_transport.json
            """)
    }

    struct Handshakes: Decodable {
        struct Party: Decodable {
            var peerIdHex: String
        }
        struct Message: Decodable {
            var wire: Vectors.Blob
        }
        struct Vector: Decodable {
            var id: String
            var initiator: Party
            var responder: Party
            var message1Hex: String
            var message2Hex: String
            var message3Hex: String
            var outerPacketM1Unpadded: Vectors.Blob
            var outerPacketM1Padded: Vectors.Blob
            var outerPacketM2Padded: Vectors.Blob
            var outerPacketM3Padded: Vectors.Blob
            var firstTransportOuterPadded: Vectors.Blob
            var initiatorToResponder: [Message]
        }
        var vectors: [Vector]
    }

    @Test(
        "the packets around handshakes and the first sealed message are those of the phone apps",
        .enabled(if: Vectors.exists("noise_handshake.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func outerPackets() throws {
        let file = try Vectors.read(Handshakes.self, from: "noise_handshake.json")
        for vector in file.vectors {
            let sealed = try hexBytes(try #require(vector.initiatorToResponder.first).wire.hex)
            let packets = [
                (vector.outerPacketM1Unpadded, try hexBytes(vector.message1Hex), false, true),
                (vector.outerPacketM1Padded, try hexBytes(vector.message1Hex), true, true),
                (vector.outerPacketM2Padded, try hexBytes(vector.message2Hex), true, false),
                (vector.outerPacketM3Padded, try hexBytes(vector.message3Hex), true, true),
                (vector.firstTransportOuterPadded, sealed, true, true),
            ]
            for (outer, payload, isPadded, isOfInitiator) in packets {
                let packet = try MeshFrame(decoding: try #require(outer.bytes)[...]).packet
                let parties = [vector.initiator.peerIdHex, vector.responder.peerIdHex]
                let ids = [packet.sender.hex, try #require(packet.recipient).hex]
                #expect(
                    Array(packet.payload) == payload && ids == (isOfInitiator ? parties : parties.reversed()), "\(vector.id)")
                #expect(packet.type == (payload == sealed ? .noiseEncrypted : .noiseHandshake), "\(vector.id)")
                #expect(outer.matches(try packet.encoded(isPadded: isPadded)), "\(vector.id)")
            }
        }
        #expect(!file.vectors.isEmpty)
        print("checked the packets of \(file.vectors.count) handshakes of noise_handshake.json")
    }

    struct Letters: Decodable {
        struct Party: Decodable {
            var noisePrivateHex: String
            var noisePublicHex: String
        }
        struct Vector: Decodable {
            var id: String
            var protocolName: String
            var prologueUtf8: String
            var sender: Party
            var recipient: Party
            var ephemeralPrivateHex: String
            var payloadHex: String
            var ciphertextHex: String
        }
        var vectors: [Vector]
    }

    @Test(.enabled(if: Vectors.exists("noise_courier.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `one-way messages of phones are opened`() throws {
        let file = try Vectors.read(Letters.self, from: "noise_courier.json")
        for vector in file.vectors {
            #expect(HandshakePattern.x.protocolName == vector.protocolName)
            let senderKey = try AgreementPrivateKey(seed: try #require(Hex.decode(vector.sender.noisePrivateHex)))
            let recipientKey = try AgreementPrivateKey(seed: try #require(Hex.decode(vector.recipient.noisePrivateHex)))
            let ephemeral = try #require(Hex.decode(vector.ephemeralPrivateHex))
            var sender = HandshakeState(
                pattern: .x, role: .initiator, prologue: Array(vector.prologueUtf8.utf8), staticKey: senderKey,
                ephemeral: ephemeral, responderKey: recipientKey.publicKey)
            let payload = try #require(Hex.decode(vector.payloadHex))
            let letter = try sender.writeMessage(payload: payload)
            #expect(Hex.encode(letter) == vector.ciphertextHex, "\(vector.id)")
            var recipient = HandshakeState(
                pattern: .x, role: .responder, prologue: Array(vector.prologueUtf8.utf8), staticKey: recipientKey,
                ephemeral: [UInt8](repeating: 9, count: 32))
            #expect(try recipient.readMessage(letter) == payload, "\(vector.id)")
            #expect(Hex.encode(try recipient.split().peer.key.bytes) == vector.sender.noisePublicHex, "\(vector.id)")
        }
        #expect(!file.vectors.isEmpty)
        print("checked \(file.vectors.count) letters of noise_courier.json")
    }
}
