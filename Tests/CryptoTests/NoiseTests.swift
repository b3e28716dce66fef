import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@Suite struct NoiseTests {
    @Test func `a handshake gives both sides the same keys and each the identity of the other`() throws {
        var pair = HandshakePair()
        let (initiator, responder) = try pair.complete(payload: [1, 2, 3])
        #expect(initiator.handshakeHash == responder.handshakeHash)
        #expect(initiator.peer.fingerprint == HandshakePair.identities.1.fingerprint)
        #expect(responder.peer.fingerprint == HandshakePair.identities.0.fingerprint)
        var (send, receive) = (initiator.send, responder.receive)
        for number in 0..<5 as Range<UInt8> {
            let sealed = try send.encrypt([number], authenticating: [7])
            #expect(try receive.decrypt(sealed, authenticating: [7]) == [number])
        }
        var (sendBack, receiveBack) = (responder.send, initiator.receive)
        #expect(try receiveBack.decrypt(try sendBack.encrypt([9], authenticating: []), authenticating: []) == [9])
    }

    @Test func `each message of a handshake carries a payload`() throws {
        var pair = HandshakePair()
        #expect(try pair.responder.readMessage(try pair.initiator.writeMessage(payload: [1])) == [1])
        #expect(try pair.initiator.readMessage(try pair.responder.writeMessage(payload: [2])) == [2])
        #expect(try pair.responder.readMessage(try pair.initiator.writeMessage(payload: [3])) == [3])
        #expect(pair.initiator.isFinished && pair.responder.isFinished)
    }

    @Test func `messages of a handshake out of turn are refused`() throws {
        var pair = HandshakePair()
        #expect(throws: NoiseError.malformed) { try pair.responder.writeMessage(payload: []) }
        #expect(throws: NoiseError.malformed) { try pair.initiator.readMessage([UInt8](repeating: 1, count: 32)) }
        #expect(throws: NoiseError.malformed) { try pair.initiator.split() }
        let first = try pair.initiator.writeMessage(payload: [])
        #expect(throws: NoiseError.malformed) { try pair.initiator.writeMessage(payload: []) }
        _ = try pair.responder.readMessage(first)
        #expect(throws: NoiseError.malformed, "K11: the first message again") { try pair.responder.readMessage(first) }
    }

    @Test("K13: a changed first message is noticed by the initiator, which can still go on with a genuine answer")
    func firstMessageChanged() throws {
        var pair = HandshakePair()
        let first = try pair.initiator.writeMessage(payload: [])
        var genuine = pair.responder
        _ = try genuine.readMessage(first)
        let second = try genuine.writeMessage(payload: [])
        for index in first.indices {
            var changed = first
            changed[index] ^= 1
            var misled = pair.responder
            _ = try misled.readMessage(changed)
            // A point that gives the secret away is refused even earlier.
            guard let answer = try? misled.writeMessage(payload: []) else { continue }
            #expect(throws: NoiseError.notAuthentic, "byte \(index)") { try pair.initiator.readMessage(answer) }
        }
        _ = try pair.initiator.readMessage(second)
        _ = try genuine.readMessage(try pair.initiator.writeMessage(payload: []))
        #expect(try genuine.split().handshakeHash == pair.initiator.split().handshakeHash)
    }

    @Test(
        "K13: a bit changed or a byte missing anywhere is rejected and changes nothing",
        arguments: [[], [1, 2, 3]] as [[UInt8]])
    func laterMessagesChanged(payload: [UInt8]) throws {
        var pair = HandshakePair()
        _ = try pair.responder.readMessage(try pair.initiator.writeMessage(payload: payload))
        let second = try pair.responder.writeMessage(payload: payload)
        try refuseAllChanges(of: second, by: &pair.initiator)
        #expect(try pair.initiator.readMessage(second) == payload)
        let third = try pair.initiator.writeMessage(payload: payload)
        try refuseAllChanges(of: third, by: &pair.responder)
        #expect(try pair.responder.readMessage(third) == payload)
        #expect(try pair.initiator.split().handshakeHash == pair.responder.split().handshakeHash)
    }

    private func refuseAllChanges(of message: [UInt8], by state: inout HandshakeState) throws {
        for index in message.indices {
            for bit in [0, 7] as [UInt8] {
                var changed = message
                changed[index] ^= 1 << bit
                #expect(throws: NoiseError.self, "byte \(index), bit \(bit)") { try state.readMessage(changed) }
            }
            #expect(throws: NoiseError.self, "cut to \(index)") { try state.readMessage(Array(message[..<index])) }
        }
        #expect(throws: NoiseError.self) { try state.readMessage(message + [0]) }
    }

    @Test("K12: another prologue, such as an older version, fails") func prologue() throws {
        var one = HandshakePair(prologue: [1])
        var other = HandshakePair(prologue: [2])
        _ = try other.responder.readMessage(try one.initiator.writeMessage(payload: []))
        let answer = try other.responder.writeMessage(payload: [])
        #expect(throws: NoiseError.notAuthentic) { try one.initiator.readMessage(answer) }
    }

    @Test("K11: a recorded handshake replayed gets nowhere") func replay() throws {
        var recorded = HandshakePair(seed: 1)
        let first = try recorded.initiator.writeMessage(payload: [])
        _ = try recorded.responder.readMessage(first)
        _ = try recorded.initiator.readMessage(try recorded.responder.writeMessage(payload: []))
        let third = try recorded.initiator.writeMessage(payload: [])
        var again = HandshakePair(seed: 2)
        _ = try again.responder.readMessage(first)
        _ = try again.responder.writeMessage(payload: [])
        #expect(throws: NoiseError.notAuthentic) { try again.responder.readMessage(third) }
    }

    @Test("K9: a point of low order is rejected", arguments: LowOrderPoints.hex) func lowOrder(_ hex: String) throws {
        let point = try #require(Hex.decode(hex))
        #expect(throws: CryptoError.lowOrderPoint) { try AgreementPublicKey(point) }
        var pair = HandshakePair()
        let first = try pair.initiator.writeMessage(payload: [])
        #expect(throws: NoiseError.lowOrderPoint) { try pair.responder.readMessage(point) }
        #expect(throws: NoiseError.lowOrderPoint) { try pair.initiator.readMessage(point + [UInt8](repeating: 0, count: 64)) }
        // Neither has been led astray.
        _ = try pair.responder.readMessage(first)
        _ = try pair.initiator.readMessage(try pair.responder.writeMessage(payload: []))
    }

    @Test(
        "K9: a second form of a key is rejected, so that no key has two names",
        arguments: [
            // The prime plus 2 and plus 18, then a genuine key with the bit set that X25519 ignores.
            "efffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882bcf",
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        ])
    func notCanonical(_ hex: String) throws {
        let bytes = try #require(Hex.decode(hex))
        #expect(throws: CryptoError.notCanonical) { try AgreementPublicKey(bytes) }
        var pair = HandshakePair()
        #expect(throws: NoiseError.malformed) { try pair.responder.readMessage(bytes) }
    }

    @Test("K9: the largest key of the one form is taken") func largestCanonical() throws {
        // The prime minus 2: minus 1 is of low order.
        #expect(try AgreementPublicKey([0xeb] + [UInt8](repeating: 0xff, count: 30) + [0x7f]).bytes[0] == 0xeb)
    }

    @Test("K9: our own ephemeral key reflected is rejected") func reflectedEphemeral() throws {
        var pair = HandshakePair()
        let first = try pair.initiator.writeMessage(payload: [])
        let reflected = first + [UInt8](repeating: 0, count: 64)
        #expect(throws: NoiseError.ownKey) { try pair.initiator.readMessage(reflected) }
    }

    @Test("K9: a link to the node itself is refused") func ourselves() throws {
        let own = HandshakePair.identities.0
        var pair = HandshakePair(initiator: own, responder: own)
        _ = try pair.responder.readMessage(try pair.initiator.writeMessage(payload: []))
        let second = try pair.responder.writeMessage(payload: [])
        #expect(throws: NoiseError.ownKey) { try pair.initiator.readMessage(second) }
    }

    @Test("datagrams that do not arrive are counted as lost until the replay window has passed them") func packetLoss() throws {
        let key = SecretBytes([UInt8](repeating: 7, count: 32))
        var (sender, receiver) = (
            NoiseDatagrams(send: CipherState(key: key), receive: CipherState(key: key)),
            NoiseDatagrams(send: CipherState(key: key), receive: CipherState(key: key))
        )
        #expect(receiver.packetLoss == nil)
        let sent = try (0..<8).map { try sender.seal([$0]) }
        for number in [1, 3, 7] { _ = try receiver.open(sent[number][...]) }
        #expect(receiver.packetLoss == 5.0 / 8)
        _ = try receiver.open(sent[2][...])
        #expect(receiver.packetLoss == 4.0 / 8, "a late one is not lost")
        #expect(throws: NoiseError.notAuthentic) { try receiver.open(sent[2][...]) }
        #expect(receiver.packetLoss == 4.0 / 8, "a repeated one is not counted")
        for _ in 0..<1020 { _ = try receiver.open(try sender.seal([])[...]) }
        #expect(receiver.packetLoss == 3.0 / 1024, "those of the latest 1024")
        for _ in 0..<4 { _ = try receiver.open(try sender.seal([])[...]) }
        #expect(receiver.packetLoss == 0)
    }

    @Test func `a message of a handshake has at most 65,535 bytes`() throws {
        var pair = HandshakePair()
        #expect(throws: NoiseError.malformed) { try pair.initiator.writeMessage(payload: [UInt8](repeating: 0, count: 65_504)) }
        let largest = try pair.initiator.writeMessage(payload: [UInt8](repeating: 0, count: 65_503))
        #expect(throws: NoiseError.malformed) { try pair.responder.readMessage(largest + [0]) }
        #expect(try pair.responder.readMessage(largest).count == 65_503)
    }

    @Test func `a message that fails to decrypt does not advance the nonce`() throws {
        let key = SecretBytes([UInt8](repeating: 3, count: 32))
        var (send, receive) = (CipherState(key: key), CipherState(key: key))
        let (first, second) = (try send.encrypt([1], authenticating: []), try send.encrypt([2], authenticating: []))
        #expect(throws: NoiseError.notAuthentic) { try receive.decrypt(second, authenticating: []) }
        #expect(try receive.decrypt(first, authenticating: []) == [1])
        #expect(throws: NoiseError.notAuthentic) { try receive.decrypt(first, authenticating: []) }
        #expect(throws: NoiseError.notAuthentic) { try receive.decrypt(second, authenticating: [1]) }
        #expect(try receive.decrypt(second, authenticating: []) == [2])
    }

    @Test func `the last nonce is never used`() throws {
        var state = CipherState(key: SecretBytes([UInt8](repeating: 3, count: 32)))
        state.setNonce(.max)
        #expect(throws: NoiseError.nonceExhausted) { try state.encrypt([], authenticating: []) }
        #expect(throws: NoiseError.nonceExhausted) { try state.decrypt([UInt8](repeating: 0, count: 16), authenticating: []) }
    }
}

/// All that curve25519 has (RFC 7748, section 6.1, and the twist), little-endian.
enum LowOrderPoints {
    static let hex = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
}

@Suite struct OneWayTests {
    private let sender = HandshakePair.identities.0
    private let recipient = HandshakePair.identities.1

    private func states(prologue: [UInt8] = [1], to key: AgreementPublicKey? = nil) -> (HandshakeState, HandshakeState) {
        (
            HandshakeState(
                pattern: .x, role: .initiator, prologue: [1], staticKey: sender.agreementKey,
                ephemeral: [UInt8](repeating: 3, count: 32), responderKey: key ?? recipient.agreementKey.publicKey),
            HandshakeState(
                pattern: .x, role: .responder, prologue: prologue, staticKey: recipient.agreementKey,
                ephemeral: [UInt8](repeating: 4, count: 32))
        )
    }

    @Test func `a one-way message proves its sender`() throws {
        var (writer, reader) = states()
        #expect(try reader.readMessage(try writer.writeMessage(payload: [1, 2, 3])) == [1, 2, 3])
        #expect(writer.isFinished && reader.isFinished)
        #expect(try reader.split().peer.fingerprint == sender.fingerprint)
        #expect(throws: NoiseError.malformed) { try reader.writeMessage(payload: []) }
        var (send, receive) = (try writer.split().send, try reader.split().receive)
        #expect(try receive.decrypt(try send.encrypt([7], authenticating: []), authenticating: []) == [7])
    }

    @Test("K12: a message for another recipient, or with another prologue, is rejected") func others() throws {
        var (writer, _) = states(to: sender.agreementKey.publicKey)
        var (genuine, reader) = states()
        let foreign = try writer.writeMessage(payload: [])
        #expect(throws: NoiseError.notAuthentic) { try reader.readMessage(foreign) }
        let letter = try genuine.writeMessage(payload: [])
        var (_, other) = states(prologue: [2])
        #expect(throws: NoiseError.notAuthentic) { try other.readMessage(letter) }
        #expect(try reader.readMessage(letter) == [])
    }

    @Test("K13: a bit changed or a byte missing anywhere in a letter is rejected") func changed() throws {
        var (writer, reader) = states()
        let letter = try writer.writeMessage(payload: [1, 2, 3])
        for index in letter.indices {
            var changed = letter
            changed[index] ^= 1
            #expect(throws: NoiseError.self, "byte \(index)") { try reader.readMessage(changed) }
            #expect(throws: NoiseError.self, "cut to \(index)") { try reader.readMessage(Array(letter[..<index])) }
        }
        #expect(throws: NoiseError.self) { try reader.readMessage(letter + [0]) }
        #expect(try reader.readMessage(letter) == [1, 2, 3])
    }
}
