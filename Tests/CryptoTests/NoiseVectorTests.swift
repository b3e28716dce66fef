import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

extension Vectors.Blob {
    /// Long plaintexts of the handshake file are made from this seed.
    fileprivate var plaintext: [UInt8]? {
        if let bytes { return bytes }
        let made = Vectors.bytes(seed: 61, count: length)
        return matches(made) ? made : nil
    }
}

@Suite struct NoiseVectorTests {
    struct Handshakes: Decodable {
        struct Party: Decodable {
            var noisePrivateHex: String
            var noisePublicHex: String
            var peerIdHex: String
        }
        struct Message: Decodable {
            var plaintext: Vectors.Blob
            var wire: Vectors.Blob
        }
        struct Vector: Decodable {
            var id: String
            var prologueHex: String
            var initiator: Party
            var responder: Party
            var initiatorEphemeralPrivateHex: String
            var responderEphemeralPrivateHex: String
            var message1Hex: String
            var message2Hex: String
            var message3Hex: String
            var handshakeHashHex: String
            var initiatorToResponder: [Message]
            var responderToInitiator: [Message]
        }
        struct Malformed: Decodable {
            var id: String
            var stage: String
            var note: String
            var inputHex: String
            var verdict: String
        }
        var vectors: [Vector]
        var malformed: [Malformed]
    }

    struct Transports: Decodable {
        struct Vector: Decodable {
            var id: String
            var keyHex: String
            var nonceOrder: [UInt64]
            var wiresHex: [String]
        }
        struct Malformed: Decodable {
            var id: String
            var keyHex: String
            var inputHex: String?
            var plaintextHex: String?
            var verdict: String
        }
        var vectors: [Vector]
        var malformed: [Malformed]
    }

    private func states(_ vector: Handshakes.Vector) throws -> (HandshakeState, HandshakeState) {
        func state(_ role: HandshakeRole, _ party: Handshakes.Party, _ ephemeral: String) throws -> HandshakeState {
            let key = try AgreementPrivateKey(seed: try #require(Hex.decode(party.noisePrivateHex)))
            #expect(Hex.encode(key.publicKey.bytes) == party.noisePublicHex)
            #expect(Fingerprint(of: key.publicKey).peerID.hex == party.peerIdHex)
            return HandshakeState(
                role: role, prologue: try #require(Hex.decode(vector.prologueHex)), staticKey: key,
                ephemeral: try #require(Hex.decode(ephemeral)))
        }
        return (
            try state(.initiator, vector.initiator, vector.initiatorEphemeralPrivateHex),
            try state(.responder, vector.responder, vector.responderEphemeralPrivateHex)
        )
    }

    @Test(.enabled(if: Vectors.exists("noise_handshake.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `handshakes of phones have the same messages`() throws {
        let file = try Vectors.read(Handshakes.self, from: "noise_handshake.json")
        var messages = 0
        for vector in file.vectors {
            var (initiator, responder) = try states(vector)
            let first = try initiator.writeMessage(payload: [])
            #expect(Hex.encode(first) == vector.message1Hex, "\(vector.id)")
            _ = try responder.readMessage(first)
            let second = try responder.writeMessage(payload: [])
            #expect(Hex.encode(second) == vector.message2Hex, "\(vector.id)")
            _ = try initiator.readMessage(second)
            let third = try initiator.writeMessage(payload: [])
            #expect(Hex.encode(third) == vector.message3Hex, "\(vector.id)")
            _ = try responder.readMessage(third)
            let (keys, keysThere) = (try initiator.split(), try responder.split())
            #expect(Hex.encode(keys.handshakeHash) == vector.handshakeHashHex)
            messages += try check(vector.initiatorToResponder, from: keys.send, to: keysThere.receive)
            messages += try check(vector.responderToInitiator, from: keysThere.send, to: keys.receive)
        }
        #expect(!file.vectors.isEmpty && messages > 0)
        print("checked \(file.vectors.count) handshakes and \(messages) transport messages of noise_handshake.json")
    }

    private func check(_ messages: [Handshakes.Message], from sender: CipherState, to receiver: CipherState) throws -> Int {
        var (sender, receiver) = (sender, receiver)
        for message in messages {
            let plaintext = try #require(message.plaintext.plaintext)
            let number = UInt32(sender.nonce)
            let sealed = try sender.encrypt(plaintext, authenticating: [])
            let prefix = withUnsafeBytes(of: number.bigEndian) { Array($0) }
            #expect(message.wire.matches(prefix + sealed))
            #expect(try receiver.decrypt(sealed, authenticating: []) == plaintext)
        }
        return messages.count
    }

    @Test(.enabled(if: Vectors.exists("noise_handshake.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `malformed handshakes are rejected as by phones`() throws {
        let file = try Vectors.read(Handshakes.self, from: "noise_handshake.json")
        let vector = try #require(file.vectors.first)
        for malformed in file.malformed {
            var (initiator, responder) = try states(vector)
            let input = try #require(Hex.decode(malformed.inputHex))
            let isAccepted: Bool
            do {
                switch malformed.stage {
                case "message1":
                    _ = try responder.readMessage(input)
                case "message2":
                    _ = try initiator.writeMessage(payload: [])
                    _ = try initiator.readMessage(input)
                default:
                    _ = try responder.readMessage(try #require(Hex.decode(vector.message1Hex)))
                    _ = try responder.writeMessage(payload: [])
                    _ = try responder.readMessage(input)
                }
                isAccepted = true
            } catch is NoiseError {
                isAccepted = false
            }
            #expect(isAccepted == (malformed.verdict == "accepted"), "\(malformed.id): \(malformed.note)")
        }
        #expect(!file.malformed.isEmpty)
        print("checked \(file.malformed.count) malformed messages of noise_handshake.json")
    }

    @Test(.enabled(if: Vectors.exists("noise_transport.json"), "needs the vectors in NEARSHARE_VECTORS"))
    func `transport messages of phones are opened and rejected in the same order`() throws {
        let file = try Vectors.read(Transports.self, from: "noise_transport.json")
        var messages = 0
        for vector in file.vectors {
            var state = CipherState(key: SecretBytes(try #require(Hex.decode(vector.keyHex))))
            for (number, wire) in zip(vector.nonceOrder, vector.wiresHex) {
                let bytes = try #require(Hex.decode(wire))
                // The window over numbers is another layer's part; here every number given opens its message.
                state.setNonce(number)
                let plaintext = try state.decrypt(Array(bytes[4...]), authenticating: [])
                state.setNonce(number)
                #expect(try state.encrypt(plaintext, authenticating: []) == Array(bytes[4...]), "\(vector.id), \(number)")
                messages += 1
            }
        }
        var refused = 0
        for malformed in file.malformed {
            guard let input = malformed.inputHex.flatMap(Hex.decode) else { continue }
            var state = CipherState(key: SecretBytes(try #require(Hex.decode(malformed.keyHex))))
            let number = input.prefix(4).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            state.setNonce(number)
            let plaintext = try? state.decrypt(Array(input.dropFirst(4)), authenticating: [])
            #expect((plaintext != nil) == (malformed.verdict == "accepted"), "\(malformed.id)")
            if let expected = malformed.plaintextHex { #expect(plaintext.map(Hex.encode) == expected) }
            refused += 1
        }
        #expect(messages > 0)
        print("checked \(messages) messages and \(refused) malformed ones of noise_transport.json")
    }
}
