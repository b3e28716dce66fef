import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct HandshakeParameterTests {
    @Test func `parameters are decoded as they were encoded, without what later versions add`() throws {
        let responder = ResponderParameters(version: 1, ciphers: CipherSet(rawValue: 6))
        #expect(try ResponderParameters(decoding: responder.encoded + [9, 9]) == responder)
        let initiator = InitiatorParameters(cipher: 2)
        #expect(try InitiatorParameters(decoding: initiator.encoded + [9], version: 1) == initiator)
    }

    @Test("K15: version 2 needs a key from the responder and a ciphertext from the initiator, unless it refuses all ciphers")
    func hybridParameters() throws {
        let key = [UInt8](repeating: 7, count: 1184)
        let responder = ResponderParameters(version: 2, ciphers: CipherSet(rawValue: 6), encapsulationKey: key)
        #expect(try ResponderParameters(decoding: responder.encoded + [9]) == responder)
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6]) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6, 0] + key) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6, 1] + key.dropLast()) }
        let initiator = InitiatorParameters(cipher: 2, ciphertext: [UInt8](repeating: 8, count: 1088))
        #expect(try InitiatorParameters(decoding: initiator.encoded + [9], version: 2) == initiator)
        #expect(throws: MalformedInput.self) { try InitiatorParameters(decoding: [2], version: 2) }
        #expect(try InitiatorParameters(decoding: [0], version: 2).ciphertext == nil)
    }

    @Test func `truncated parameters are rejected`() {
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: []) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [1]) }
        #expect(throws: MalformedInput.self) { try InitiatorParameters(decoding: [], version: 1) }
    }
}
