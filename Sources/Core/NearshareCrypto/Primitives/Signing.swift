internal import CSodium

/// An Ed25519 public key, 32 bytes (RFC 8032).
package struct SigningPublicKey: Sendable, Hashable {
    package static let byteCount = 32
    package static let signatureByteCount = 64
    package let bytes: [UInt8]

    package init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
        guard bytes.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: bytes.count) }
        self.bytes = Array(bytes)
    }

    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        signature.count == Self.signatureByteCount
            && crypto_sign_ed25519_verify_detached(signature, message, UInt64(message.count), bytes) == 0
    }
}

/// An Ed25519 private key.
package struct SigningPrivateKey: Sendable {
    package static let byteCount = 32
    package let publicKey: SigningPublicKey
    private let seed: SecretBytes
    /// libsodium's form: seed and public key.
    private let expanded: SecretBytes

    /// - Parameters:
    ///   - seed: 32 random bytes.
    ///   - memory: ``SecretBytes/Memory/guarded`` for a key that outlives its link.
    package init(seed: some Collection<UInt8>, in memory: SecretBytes.Memory = .heap) throws(CryptoError) {
        guard seed.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: seed.count) }
        let seed = SecretBytes(seed, in: memory)
        var point = [UInt8](repeating: 0, count: SigningPublicKey.byteCount)
        expanded = SecretBytes(byteCount: Int(crypto_sign_ed25519_SECRETKEYBYTES), in: memory) { output in
            let pair = output.assumingMemoryBound(to: UInt8.self).baseAddress!
            _ = seed.withPointer { crypto_sign_ed25519_seed_keypair(&point, pair, $0) }
        }
        self.seed = seed
        publicKey = try SigningPublicKey(point)
    }

    /// The private key as it is kept in a file: 32 bytes.
    package func withSecret<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { seed.withUnsafeBytes(body) }

    /// 64 bytes.
    package func signature(for message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: SigningPublicKey.signatureByteCount)
        _ = expanded.withPointer { crypto_sign_ed25519_detached(&signature, nil, message, UInt64(message.count), $0) }
        return signature
    }
}
