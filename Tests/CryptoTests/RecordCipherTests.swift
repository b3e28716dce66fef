import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

/// Numbered records under one key, with the buffers that the data plane uses.
@Suite struct RecordCipherTests {
    private static let header: [UInt8] = [0, 0, 1, 2]

    private func sealed(
        _ plaintext: [UInt8], _ cipher: RecordCipher, counter: UInt64, header: [UInt8] = RecordCipherTests.header
    ) -> [UInt8] {
        var output = [UInt8](repeating: 0xee, count: plaintext.count + RecordCipher.tagByteCount)
        plaintext.withUnsafeBytes { plaintext in
            header.withUnsafeBytes { header in
                output.withUnsafeMutableBytes { cipher.seal(plaintext, counter: counter, authenticating: header, into: $0) }
            }
        }
        return output
    }

    private func opened(
        _ sealed: [UInt8], _ cipher: RecordCipher, counter: UInt64, header: [UInt8] = RecordCipherTests.header
    ) throws -> [UInt8] {
        var output = [UInt8](repeating: 0xee, count: sealed.count)
        do {
            let count = try sealed.withUnsafeBytes { sealed in
                try header.withUnsafeBytes { header in
                    try output.withUnsafeMutableBytes {
                        try cipher.open(sealed, counter: counter, authenticating: header, into: $0)
                    }
                }
            }
            return Array(output[..<count])
        } catch {
            #expect(output.allSatisfy { $0 == 0 || $0 == 0xee }, "what does not open leaves nothing of its text")
            throw error
        }
    }

    @Test("the zero key's examples of the GCM proposal (McGrew and Viega, test cases 13 and 14)") func gcmVectors() throws {
        let cipher = RecordCipher(.aes256GCM, key: [UInt8](repeating: 0, count: 32))
        #expect(Hex.encode(sealed([], cipher, counter: 0, header: [])) == "530f8afbc74536b9a963b4f1c4cb738b")
        #expect(
            Hex.encode(sealed([UInt8](repeating: 0, count: 16), cipher, counter: 0, header: []))
                == "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919")
    }

    @Test("ChaCha20-Poly1305 is the same in both libraries, which pins the form of the nonce") func chaChaAgrees() {
        var random = SeededRandom(seed: 7)
        let key = random.bytes(32)
        let cipher = RecordCipher(.chaCha20Poly1305, key: key)
        for counter in [0, 1, 0x0102_0304_0506_0708, .max] as [UInt64] {
            let plaintext = random.bytes(100)
            let nonce = [0, 0, 0, 0] + withUnsafeBytes(of: counter.bigEndian) { Array($0) }
            #expect(
                sealed(plaintext, cipher, counter: counter)
                    == ChaCha20Poly1305.seal(plaintext, key: SecretBytes(key), nonce: nonce, authenticating: Self.header))
        }
    }

    @Test("records of every size come back, also in place", arguments: RecordCipher.Kind.allCases)
    func roundTrip(_ kind: RecordCipher.Kind) throws {
        let seed: UInt64 = 11
        var random = SeededRandom(seed: seed)
        let cipher = RecordCipher(kind, key: random.bytes(32))
        for size in [0, 1, 15, 16, 17, 255, 4096, 65_536, 262_144] {
            let plaintext = random.bytes(size)
            let record = sealed(plaintext, cipher, counter: 3)
            #expect(try opened(record, cipher, counter: 3) == plaintext, "\(size) bytes, seed \(seed)")
            var inPlace = plaintext + [UInt8](repeating: 0, count: RecordCipher.tagByteCount)
            let count = try inPlace.withUnsafeMutableBytes { buffer in
                try Self.header.withUnsafeBytes { header in
                    cipher.seal(
                        UnsafeRawBufferPointer(rebasing: buffer[..<size]), counter: 3, authenticating: header, into: buffer)
                    #expect(buffer.elementsEqual(record))
                    return try cipher.open(UnsafeRawBufferPointer(buffer), counter: 3, authenticating: header, into: buffer)
                }
            }
            #expect(Array(inPlace[..<count]) == plaintext, "\(size) bytes in place, seed \(seed)")
        }
    }

    @Test("K12, K13: an open record shows what it says, its tag covers all of it, and it opens as nothing else") func open()
        throws
    {
        let key = [UInt8](repeating: 9, count: 32)
        let cipher = RecordCipher(.authenticatedOnly, key: key)
        let plaintext = (0..<50).map { UInt8($0) }
        let record = sealed(plaintext, cipher, counter: 1)
        #expect(Array(record.prefix(50)) == plaintext)
        // The tag is what AES-256-GCM makes of an empty text that stands beside the header and the plaintext.
        let tag = sealed([], RecordCipher(.aes256GCM, key: key), counter: 1, header: Self.header + plaintext)
        #expect(Array(record.suffix(RecordCipher.tagByteCount)) == tag)
        for kind in RecordCipher.Kind.allCases where kind != .authenticatedOnly {
            let hiding = RecordCipher(kind, key: key)
            #expect(hiding.kind.hidesContent && !cipher.kind.hidesContent)
            #expect(throws: CryptoError.notAuthentic) { try opened(record, hiding, counter: 1) }
            #expect(throws: CryptoError.notAuthentic) { try opened(sealed(plaintext, hiding, counter: 1), cipher, counter: 1) }
        }
        #expect(try opened(sealed([], cipher, counter: 2), cipher, counter: 2) == [])
    }

    @Test("K13: a changed, cut, moved or relabelled record does not open", arguments: RecordCipher.Kind.allCases)
    func changes(_ kind: RecordCipher.Kind) throws {
        let cipher = RecordCipher(kind, key: [UInt8](repeating: 9, count: 32))
        let plaintext = (0..<50).map { UInt8($0) }
        let record = sealed(plaintext, cipher, counter: 1)
        func refuses(_ record: [UInt8], counter: UInt64 = 1, header: [UInt8] = Self.header) -> Bool {
            do {
                _ = try opened(record, cipher, counter: counter, header: header)
                return false
            } catch {
                return error as? CryptoError == .notAuthentic
            }
        }
        for index in record.indices {
            for bit in 0..<8 as Range<UInt8> {
                var changed = record
                changed[index] ^= 1 << bit
                #expect(refuses(changed), "byte \(index), bit \(bit)")
            }
            #expect(refuses(Array(record[..<index])), "cut to \(index)")
        }
        #expect(refuses(record + [0]))
        for counter in [0, 2, 1 << 32, .max] as [UInt64] { #expect(refuses(record, counter: counter), "at number \(counter)") }
        for index in Self.header.indices {
            var changed = Self.header
            changed[index] ^= 1
            #expect(refuses(record, header: changed))
        }
        #expect(refuses(record, header: []))
        let other = kind == .aes256GCM ? RecordCipher.Kind.chaCha20Poly1305 : .aes256GCM
        let relabelled = RecordCipher(other, key: [UInt8](repeating: 9, count: 32))
        #expect(throws: CryptoError.notAuthentic) { try opened(record, relabelled, counter: 1) }
    }

    @Test("both ends ratchet to the same key, and records of the old one do not open", arguments: RecordCipher.Kind.allCases)
    func ratchet(_ kind: RecordCipher.Kind) throws {
        var sender = RecordCipher(kind, key: [UInt8](repeating: 9, count: 32))
        var receiver = sender
        let old = sealed([1, 2, 3], sender, counter: 0)
        var seen: Set<[UInt8]> = [old]
        for _ in 0..<3 {
            sender.ratchet()
            let record = sealed([1, 2, 3], sender, counter: 0)
            #expect(throws: CryptoError.notAuthentic) { try opened(record, receiver, counter: 0) }
            receiver.ratchet()
            #expect(try opened(record, receiver, counter: 0) == [1, 2, 3])
            #expect(seen.insert(record).inserted)
            #expect(throws: CryptoError.notAuthentic) { try opened(old, receiver, counter: 0) }
        }
    }
}
