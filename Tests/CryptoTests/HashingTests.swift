import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@Suite struct HashingTests {
    @Test("HMAC-SHA256 as RFC 4231 prints it: a short key, a long one, and one longer than a block") func rfc4231() {
        #expect(
            Hex.encode(HMAC.authenticationCode(for: Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8)))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(
            Hex.encode(HMAC.authenticationCode(for: Array("Hi There".utf8), key: [UInt8](repeating: 0x0b, count: 20)))
                == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        #expect(
            Hex.encode(
                HMAC.authenticationCode(
                    for: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                    key: [UInt8](repeating: 0xaa, count: 131)))
                == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }

    @Test("an empty HMAC key is a block of zero bytes") func emptyKey() {
        let zeroes = [UInt8](repeating: 0, count: 64)
        #expect(HMAC.authenticationCode(for: [1, 2], key: []) == HMAC.authenticationCode(for: [1, 2], key: zeroes))
        #expect(HMAC.authenticationCode(for: [], key: []) == HMAC.authenticationCode(for: [], key: zeroes))
    }

    @Test("HKDF over several blocks, as RFC 5869 prints it (test case 2)") func severalBlocks() {
        let output = HKDF.derive(
            from: (0x00...0x4f).map { UInt8($0) }, salt: (0x60...0xaf).map { UInt8($0) }, info: (0xb0...0xff).map { UInt8($0) },
            byteCount: 82)
        #expect(
            Hex.encode(output)
                == "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
                + "cc30c58179ec3e87c14c01d5c1f3434f1d87")
    }

    @Test("every shorter output begins the longer one") func prefixes() {
        let all = HKDF.derive(from: [1, 2, 3], salt: [4], info: [5], byteCount: 100)
        for count in 0...100 {
            #expect(HKDF.derive(from: [1, 2, 3], salt: [4], info: [5], byteCount: count) == Array(all[..<count]))
        }
    }

    @Test("Noise's derivation is HKDF with the chaining key as salt, no info, and two keys", arguments: [0, 32])
    func noise(inputByteCount: Int) {
        let chainingKey = (0..<32).map { UInt8($0) }
        let input = [UInt8](repeating: 7, count: inputByteCount)
        let (first, second) = HKDF.noise(
            chainingKey: SecretBytes(chainingKey), input: inputByteCount == 0 ? nil : SecretBytes(input))
        let whole = HKDF.derive(from: input, salt: chainingKey, info: [], byteCount: 64)
        #expect(first.withUnsafeBytes { Array($0) } + second.withUnsafeBytes { Array($0) } == whole)
    }

    @Test("SHA-256 is the same however the bytes are cut") func pieces() {
        let bytes = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let whole = SHA256Hasher.digest(bytes)
        for cut in 0...bytes.count {
            var hasher = SHA256Hasher()
            bytes[..<cut].withUnsafeBytes { hasher.update($0) }
            let fork = hasher
            bytes[cut...].withUnsafeBytes { hasher.update($0) }
            #expect(hasher.finalize() == whole)
            #expect(fork.finalize() == SHA256Hasher.digest(Array(bytes[..<cut])), "a copy goes its own way")
        }
    }

    @Test func `bytes are equal only to the same bytes of the same length`() {
        #expect(constantTimeEqual([], []))
        #expect(constantTimeEqual([1, 2], [1, 2]))
        #expect(!constantTimeEqual([1, 2], [1, 3]))
        #expect(!constantTimeEqual([1, 2], [1, 2, 0]))
    }

    @Test("K8: keys in either kind of memory hold what was put there", arguments: [SecretBytes.Memory.heap, .guarded])
    func memory(_ memory: SecretBytes.Memory) {
        for count in [1, 32, 64, 5000] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let secret = SecretBytes(bytes, in: memory)
            #expect(secret.count == count)
            #expect(secret.withUnsafeBytes { Array($0) } == bytes)
        }
    }
}
