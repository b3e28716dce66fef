import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct PreambleTests {
    @Test func comesBackAsItWas() throws {
        for preamble in [Preamble.supported, Preamble(newest: 9, oldest: 3), Preamble(newest: 255, oldest: 0)] {
            #expect(try Preamble(decoding: preamble.encoded[...]) == preamble)
            #expect(preamble.encoded.count == Preamble.byteCount)
        }
    }

    @Test func everyOtherLengthThrows() {
        let bytes = Preamble.supported.encoded
        for length in 0..<8 {
            #expect(throws: MalformedInput.self) { try Preamble(decoding: bytes[..<length]) }
        }
        #expect(throws: MalformedInput.self) { try Preamble(decoding: (bytes + [0])[...]) }
    }

    @Test func `a preamble with other magic bytes is rejected`() {
        for index in 0..<4 {
            var bytes = Preamble.supported.encoded
            bytes[index] ^= 0x20
            #expect(throws: MalformedInput.self) { try Preamble(decoding: bytes[...]) }
        }
        #expect(throws: MalformedInput.self) { try Preamble(decoding: Preamble(newest: 1, oldest: 2).encoded[...]) }
    }

    @Test(
        "K12: the newest common version is used",
        arguments: [
            (1, 1, 1, 1, 1), (3, 1, 2, 1, 2), (2, 1, 3, 2, 2), (1, 1, 3, 2, nil), (3, 2, 1, 1, nil), (5, 3, 9, 5, 5),
        ] as [(UInt8, UInt8, UInt8, UInt8, UInt8?)])
    func versions(_ case: (UInt8, UInt8, UInt8, UInt8, UInt8?)) {
        let one = Preamble(newest: `case`.0, oldest: `case`.1)
        let other = Preamble(newest: `case`.2, oldest: `case`.3)
        #expect(one.newestInCommon(with: other) == `case`.4)
        #expect(other.newestInCommon(with: one) == `case`.4)
    }
}

@Suite struct HandshakeParameterTests {
    @Test func comeBackAsTheyWereAndSkipWhatLaterVersionsAdd() throws {
        let responder = ResponderParameters(version: 1, ciphers: 6)
        #expect(try ResponderParameters(decoding: responder.encoded + [9, 9]) == responder)
        let initiator = InitiatorParameters(cipher: 2)
        #expect(try InitiatorParameters(decoding: initiator.encoded + [9], version: 1) == initiator)
    }

    @Test("K15: version 2 needs a key from the responder and a ciphertext from the initiator, unless it refuses all ciphers")
    func hybridParameters() throws {
        let key = [UInt8](repeating: 7, count: 1184)
        let responder = ResponderParameters(version: 2, ciphers: 6, encapsulationKey: key)
        #expect(try ResponderParameters(decoding: responder.encoded + [9]) == responder)
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6]) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6, 0] + key) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [2, 6, 1] + key.dropLast()) }
        let initiator = InitiatorParameters(cipher: 2, ciphertext: [UInt8](repeating: 8, count: 1088))
        #expect(try InitiatorParameters(decoding: initiator.encoded + [9], version: 2) == initiator)
        #expect(throws: MalformedInput.self) { try InitiatorParameters(decoding: [2], version: 2) }
        #expect(try InitiatorParameters(decoding: [0], version: 2).ciphertext == nil)
    }

    @Test func truncationsThrow() {
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: []) }
        #expect(throws: MalformedInput.self) { try ResponderParameters(decoding: [1]) }
        #expect(throws: MalformedInput.self) { try InitiatorParameters(decoding: [], version: 1) }
    }
}

@Suite struct PeerTXTRecordTests {
    private let record = PeerTXTRecord(id: PeerID(hex: "0011223344556677")!, name: DisplayName(truncating: "Ada = 1")!)

    @Test func comesBackAsItWas() {
        #expect(PeerTXTRecord(strings: record.strings) == record)
    }

    @Test(
        "D3, D4: encodings that no peer writes are refused",
        arguments: [
            [], [""], ["="], ["id=0011223344556677"], ["n=Ada"], ["id=001122334455667", "n=Ada"],
            ["id=00112233445566770", "n=Ada"], ["id=../../../../../x", "n=Ada"], ["id=0011223344556677", "n="],
            ["id", "n=Ada"], ["id=0011223344556677", "n=\(String(repeating: "x", count: 64))"],
        ])
    func refused(_ strings: [String]) {
        #expect(PeerTXTRecord(strings: strings.map { Array($0.utf8) }) == nil)
    }

    @Test("P11: a name that is not UTF-8 is refused") func invalidUTF8() {
        #expect(PeerTXTRecord(strings: [record.strings[1], Array("n=".utf8) + [0xc0, 0xaf]]) == nil)
    }

    @Test func theFirstOfARepeatedKeyCounts() {
        let more = [Array("zz=1".utf8)] + record.strings + [Array("n=Eve".utf8), Array("ID=7766554433221100".utf8)]
        let read = PeerTXTRecord(strings: more)
        #expect(read?.id == record.id && read?.name == record.name)
        let capitals = record.strings.map { string in
            Array(String(decoding: string, as: UTF8.self).replacing("id=", with: "ID=").utf8)
        }
        #expect(PeerTXTRecord(strings: capitals) == record)
    }

    @Test("R1: a record with more strings than the limit is rejected") func bounded() {
        let noise = [[UInt8]](repeating: Array("x=1".utf8), count: 16)
        #expect(PeerTXTRecord(strings: noise + record.strings) == nil)
    }

    @Test(arguments: 0..<1000 as Range<UInt64>) func mutation(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        guard let claim = PeerTXTRecord(strings: record.strings.map { $0.mutated(using: &random) }) else { return }
        #expect(PeerTXTRecord(strings: claim.strings) == claim, "seed \(seed)")
    }
}
