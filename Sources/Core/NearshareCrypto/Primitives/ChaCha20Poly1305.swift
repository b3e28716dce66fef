internal import CSodium

/// The AEAD ChaCha20-Poly1305 (RFC 8439), for handshakes and messages. Bulk content uses ``RecordCipher``.
package enum ChaCha20Poly1305 {
    /// The size of a key.
    package static let keyByteCount = 32
    /// The size of a nonce.
    package static let nonceByteCount = 12
    /// The size of the authentication tag.
    package static let tagByteCount = 16

    /// Encrypts and authenticates a message.
    /// - Returns: Ciphertext and tag.
    package static func seal(
        _ plaintext: [UInt8], key: SecretBytes, nonce: [UInt8], authenticating associated: [UInt8]
    ) -> [UInt8] {
        // Safe: the lengths are constants of the callers.
        precondition(key.count == keyByteCount && nonce.count == nonceByteCount)
        return [UInt8](unsafeUninitializedCapacity: plaintext.count + tagByteCount) { buffer, count in
            var written: UInt64 = 0
            _ = key.withPointer {
                crypto_aead_chacha20poly1305_ietf_encrypt(
                    // Safe: the buffer holds at least the tag.
                    buffer.baseAddress!, &written, plaintext, UInt64(plaintext.count), associated, UInt64(associated.count),
                    nil, nonce, $0)
            }
            count = Int(written)
        }
    }

    /// Authenticates and decrypts a message.
    /// - Parameter sealed: Ciphertext and tag. Contiguous bytes are not copied.
    /// - Throws: ``CryptoError/notAuthentic``.
    package static func open(
        _ sealed: some Sequence<UInt8>, key: SecretBytes, nonce: [UInt8], authenticating associated: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        let opened = sealed.withContiguousStorageIfAvailable {
            openContiguous($0, key: key, nonce: nonce, authenticating: associated)
        }
        guard let opened else {
            return try open(Array(sealed), key: key, nonce: nonce, authenticating: associated)
        }
        guard let opened else { throw .notAuthentic }
        return opened
    }

    private static func openContiguous(
        _ sealed: UnsafeBufferPointer<UInt8>, key: SecretBytes, nonce: [UInt8], authenticating associated: [UInt8]
    ) -> [UInt8]? {
        // Safe: the lengths are constants of the callers.
        precondition(key.count == keyByteCount && nonce.count == nonceByteCount)
        guard sealed.count >= tagByteCount else { return nil }
        var code: Int32 = -1
        let plaintext = [UInt8](unsafeUninitializedCapacity: sealed.count) { buffer, count in
            var written: UInt64 = 0
            code = key.withPointer {
                crypto_aead_chacha20poly1305_ietf_decrypt(
                    // Safe: an empty buffer was rejected, or allocated with its tag.
                    buffer.baseAddress!, &written, nil, sealed.baseAddress!, UInt64(sealed.count), associated,
                    UInt64(associated.count), nonce, $0)
            }
            count = code == 0 ? Int(written) : 0
        }
        return code == 0 ? plaintext : nil
    }
}
