import NearshareBase
import NearshareCrypto
import Testing

/// The examples that the RFCs print.
@Suite struct PrimitiveTests {
    private func bytes(_ hex: String) throws -> [UInt8] { try #require(Hex.decode(hex)) }

    @Test func `ChaCha20-Poly1305 gives the values of RFC 8439`() throws {
        let key = SecretBytes((0x80...0x9f).map { UInt8($0) })
        let nonce = try bytes("070000004041424344454647")
        let associated = try bytes("50515253c0c1c2c3c4c5c6c7")
        let text =
            "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
        let expected = try bytes(
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
                + "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
                + "3ff4def08e4b7a9de576d26586cec64b6116" + "1ae10b594f09e26a7e902ecbd0600691")
        #expect(ChaCha20Poly1305.seal(Array(text.utf8), key: key, nonce: nonce, authenticating: associated) == expected)
        #expect(try ChaCha20Poly1305.open(expected, key: key, nonce: nonce, authenticating: associated) == Array(text.utf8))
        for index in expected.indices {
            var changed = expected
            changed[index] ^= 0x80
            #expect(throws: CryptoError.notAuthentic) {
                try ChaCha20Poly1305.open(changed, key: key, nonce: nonce, authenticating: associated)
            }
        }
        for length in 0..<16 {
            #expect(throws: CryptoError.notAuthentic) {
                try ChaCha20Poly1305.open(Array(expected[..<length]), key: key, nonce: nonce, authenticating: associated)
            }
        }
    }

    @Test func `X25519 agrees on the secret of RFC 7748`() throws {
        let alice = try AgreementPrivateKey(seed: try bytes("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
        let bob = try AgreementPrivateKey(seed: try bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
        #expect(Hex.encode(alice.publicKey.bytes) == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
        #expect(Hex.encode(bob.publicKey.bytes) == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
        for (one, other) in [(alice, bob), (bob, alice)] {
            let shared = try one.sharedSecret(with: other.publicKey).withUnsafeBytes { Hex.encode($0) }
            #expect(shared == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
        }
    }

    @Test func `X25519 multiplies as in RFC 7748`() throws {
        let key = try AgreementPrivateKey(seed: try bytes("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"))
        let point = try AgreementPublicKey(try bytes("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"))
        let shared = try key.sharedSecret(with: point).withUnsafeBytes { Hex.encode($0) }
        #expect(shared == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    }

    @Test func `HKDF gives the values of RFC 5869`() throws {
        let input = [UInt8](repeating: 0x0b, count: 22)
        let first = HKDF.derive(
            from: input, salt: try bytes("000102030405060708090a0b0c"), info: try bytes("f0f1f2f3f4f5f6f7f8f9"), byteCount: 42)
        #expect(
            Hex.encode(first) == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
        let third = HKDF.derive(from: input, salt: [], info: [], byteCount: 42)
        #expect(
            Hex.encode(third) == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8")
    }

    @Test(arguments: [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ])
    func `Ed25519 gives the signatures of RFC 8032`(
        _ example: (key: String, publicKey: String, message: String, signature: String)
    ) throws {
        let key = try SigningPrivateKey(seed: try bytes(example.key))
        let message = try bytes(example.message)
        #expect(Hex.encode(key.publicKey.bytes) == example.publicKey)
        #expect(Hex.encode(key.signature(for: message)) == example.signature)
        let signature = try bytes(example.signature)
        #expect(key.publicKey.isValid(signature, for: message))
        #expect(!key.publicKey.isValid(signature, for: message + [0]))
        #expect(!key.publicKey.isValid(Array(signature.dropLast()), for: message))
        for index in signature.indices {
            var changed = signature
            changed[index] ^= 1
            #expect(!key.publicKey.isValid(changed, for: message))
        }
    }

    @Test func `SHA-256 gives the same digest at once and in parts`() {
        #expect(
            Hex.encode(SHA256Hasher.digest(Array("abc".utf8)))
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        var hasher = SHA256Hasher()
        for byte in "abc".utf8 { withUnsafeBytes(of: byte) { hasher.update($0) } }
        #expect(hasher.finalize() == SHA256Hasher.digest(Array("abc".utf8)))
    }

    @Test func `keys of another length are rejected`() {
        for count in [0, 31, 33, 64] {
            let bytes = [UInt8](repeating: 1, count: count)
            #expect(throws: CryptoError.wrongLength(expected: 32, actual: count)) { try AgreementPrivateKey(seed: bytes) }
            #expect(throws: CryptoError.wrongLength(expected: 32, actual: count)) { try AgreementPublicKey(bytes) }
            #expect(throws: CryptoError.wrongLength(expected: 32, actual: count)) { try SigningPrivateKey(seed: bytes) }
            #expect(throws: CryptoError.wrongLength(expected: 32, actual: count)) { try SigningPublicKey(bytes) }
        }
    }
}
