internal import CSodium

/// An Ed25519 private key.
package struct SigningPrivateKey: Sendable {
    /// The size of the seed.
    package static let byteCount = 32
    /// The public key that belongs to it.
    package let publicKey: SigningPublicKey
    private let seed: SecretBytes
    /// libsodium's representation: seed and public key.
    private let expanded: SecretBytes

    /// Creates a private key from random bytes.
    /// - Parameters:
    ///   - seed: 32 random bytes.
    ///   - memory: ``SecretBytes/Memory/guarded`` for long-term keys.
    package init(seed: some Collection<UInt8>, in memory: SecretBytes.Memory = .heap) throws(CryptoError) {
        guard seed.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: seed.count) }
        let seed = SecretBytes(seed, in: memory)
        var point = [UInt8](repeating: 0, count: SigningPublicKey.byteCount)
        expanded = SecretBytes(byteCount: Int(crypto_sign_ed25519_SECRETKEYBYTES), in: memory) { output in
            // Safe: 64 bytes.
            let pair = output.assumingMemoryBound(to: UInt8.self).baseAddress!
            _ = seed.withPointer { crypto_sign_ed25519_seed_keypair(&point, pair, $0) }
        }
        self.seed = seed
        publicKey = try SigningPublicKey(point)
    }

    /// Calls `body` with the 32 bytes of the seed, for storing it.
    package func withSecret<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { seed.withUnsafeBytes(body) }

    /// Signs a message: 64 bytes.
    package func signature(for message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: SigningPublicKey.signatureByteCount)
        _ = expanded.withPointer { crypto_sign_ed25519_detached(&signature, nil, message, UInt64(message.count), $0) }
        return signature
    }
}
