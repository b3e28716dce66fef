import NearshareBase
import NearshareDirect
import NearshareTesting
import Testing

@Suite struct PreambleTests {
    @Test func `a preamble is decoded as it was encoded`() throws {
        for preamble in [Preamble.supported, Preamble(newest: 9, oldest: 3), Preamble(newest: 255, oldest: 0)] {
            #expect(try Preamble(decoding: preamble.encoded[...]) == preamble)
            #expect(preamble.encoded.count == Preamble.byteCount)
        }
    }

    @Test func `a preamble of another length is rejected`() {
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
