import NearshareBase
import NearshareCrypto
import Testing

@Suite struct LocalIdentityTests {
    private let identity = LocalIdentity(seed: (0..<64).map { UInt8($0) })

    @Test func `a key file is decoded as it was encoded`() throws {
        let decoded = try LocalIdentity(decoding: identity.encoded)
        #expect(decoded.fingerprint == identity.fingerprint)
        #expect(decoded.signingKey.publicKey == identity.signingKey.publicKey)
        #expect(decoded.encoded == identity.encoded)
        #expect(identity.encoded.count == LocalIdentity.encodedByteCount)
    }

    @Test func `other files than key files are refused with the reason`() {
        let file = identity.encoded
        func refusal(_ bytes: [UInt8]) -> LocalIdentity.Invalid? {
            do {
                _ = try LocalIdentity(decoding: bytes)
                return nil
            } catch {
                return error
            }
        }
        for count in 0...4 { #expect(refusal(Array(file[..<count])) == .notAKeyFile) }
        for count in 5..<file.count { #expect(refusal(Array(file[..<count])) == .wrongLength(count)) }
        #expect(refusal(file + [0]) == .wrongLength(file.count + 1))
        var changed = file
        changed[0] ^= 1
        #expect(refusal(changed) == .notAKeyFile)
        changed = file
        changed[4] = 2
        #expect(refusal(changed) == .laterVersion(2))
        changed[4] = 0
        #expect(refusal(changed) == .notAKeyFile)
        for index in 5..<file.count {
            changed = file
            changed[index] ^= 0x10
            #expect(refusal(changed) == .damaged, "byte \(index)")
        }
    }

    @Test("K8: no description shows a key") func nothingIsShown() throws {
        let secrets = [0..<32, 32..<64].map { $0.map { UInt8($0) } }
        let secret = SecretBytes(secrets[0])
        var dumped = ""
        dump(identity, to: &dumped)
        dump(identity.agreementKey, to: &dumped)
        dump(identity.signingKey, to: &dumped)
        dump(secret, to: &dumped)
        dump(CipherState(key: secret), to: &dumped)
        let shown = [
            "\(identity)", String(reflecting: identity), "\(identity.agreementKey)", "\(identity.signingKey)", "\(secret)",
            String(reflecting: secret), "\(CipherState(key: secret))", dumped,
        ].joined(separator: "\n")
        for bytes in secrets {
            #expect(!shown.contains(Hex.encode(bytes)))
            #expect(!shown.contains(bytes.map(String.init).joined(separator: ", ")))
            #expect(!shown.contains(bytes.prefix(4).map { "- \($0)" }.joined(separator: "\n")))
        }
        #expect(shown.contains(identity.peerID.hex))
    }
}
