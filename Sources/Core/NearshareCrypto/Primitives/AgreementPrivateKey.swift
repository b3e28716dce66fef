internal import CSodium

/// An X25519 private key.
package struct AgreementPrivateKey: Sendable {
    /// The size of the private key.
    package static let byteCount = 32
    /// The public key that belongs to it.
    package let publicKey: AgreementPublicKey
    private let secret: SecretBytes

    /// Creates a private key from random bytes.
    /// - Parameters:
    ///   - seed: 32 random bytes.
    ///   - memory: ``SecretBytes/Memory/guarded`` for long-term keys.
    package init(seed: some Collection<UInt8>, in memory: SecretBytes.Memory = .heap) throws(CryptoError) {
        guard seed.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: seed.count) }
        let secret = SecretBytes(seed, in: memory)
        var point = [UInt8](repeating: 0, count: AgreementPublicKey.byteCount)
        let code = secret.withPointer { crypto_scalarmult_curve25519_base(&point, $0) }
        // Safe: it never fails, because the base point has prime order.
        precondition(code == 0)
        self.secret = secret
        publicKey = try AgreementPublicKey(point)
    }

    /// Calls `body` with the 32 bytes of the private key, for storing it.
    package func withSecret<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { secret.withUnsafeBytes(body) }

    /// Computes the Diffie-Hellman shared secret: 32 bytes, to be used as input of a key derivation only.
    /// - Throws: ``CryptoError/lowOrderPoint`` (K9), a second check after that of ``AgreementPublicKey``.
    package func sharedSecret(with other: AgreementPublicKey) throws(CryptoError) -> SecretBytes {
        var code: Int32 = -1
        let shared = SecretBytes(byteCount: Int(crypto_scalarmult_curve25519_BYTES)) { output in
            // Safe: 32 bytes.
            let point = output.assumingMemoryBound(to: UInt8.self).baseAddress!
            code = secret.withPointer { crypto_scalarmult_curve25519(point, $0, other.bytes) }
        }
        guard code == 0 else { throw .lowOrderPoint }
        return shared
    }
}
