internal import CSodium

/// ChaCha20-Poly1305 as RFC 8439 has it, for handshakes and messages; bulk content has ``RecordCipher``.
public enum MessageCipher {
    public static let keyByteCount = 32
    public static let nonceByteCount = 12
    public static let tagByteCount = 16

    /// - Returns: ciphertext and tag.
    public static func seal(
        _ plaintext: [UInt8], key: SecretBytes, nonce: [UInt8], authenticating associated: [UInt8]
    ) -> [UInt8] {
        precondition(key.count == keyByteCount && nonce.count == nonceByteCount)
        return [UInt8](unsafeUninitializedCapacity: plaintext.count + tagByteCount) { buffer, count in
            var written: UInt64 = 0
            _ = key.withPointer {
                crypto_aead_chacha20poly1305_ietf_encrypt(
                    buffer.baseAddress!, &written, plaintext, UInt64(plaintext.count), associated, UInt64(associated.count),
                    nil, nonce, $0)
            }
            count = Int(written)
        }
    }

    public static func open(
        _ sealed: [UInt8], key: SecretBytes, nonce: [UInt8], authenticating associated: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        precondition(key.count == keyByteCount && nonce.count == nonceByteCount)
        guard sealed.count >= tagByteCount else { throw .notAuthentic }
        var code: Int32 = -1
        let plaintext = [UInt8](unsafeUninitializedCapacity: sealed.count) { buffer, count in
            var written: UInt64 = 0
            code = key.withPointer {
                crypto_aead_chacha20poly1305_ietf_decrypt(
                    buffer.baseAddress!, &written, nil, sealed, UInt64(sealed.count), associated, UInt64(associated.count),
                    nonce, $0)
            }
            count = code == 0 ? Int(written) : 0
        }
        guard code == 0 else { throw .notAuthentic }
        return plaintext
    }
}
