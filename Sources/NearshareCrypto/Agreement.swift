internal import CSodium

/// An X25519 public key, 32 bytes (RFC 7748).
public struct AgreementPublicKey: Sendable, Hashable {
    public static let byteCount = 32
    public let bytes: [UInt8]

    public init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
        guard bytes.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: bytes.count) }
        self.bytes = Array(bytes)
    }
}

/// An X25519 private key.
public struct AgreementPrivateKey: Sendable {
    public static let byteCount = 32
    public let publicKey: AgreementPublicKey
    let secret: SecretBytes

    /// - Parameter seed: 32 random bytes.
    public init(seed: some Collection<UInt8>) throws(CryptoError) {
        guard seed.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: seed.count) }
        let secret = SecretBytes(seed)
        var point = [UInt8](repeating: 0, count: AgreementPublicKey.byteCount)
        // Fails for no scalar: the base point has prime order.
        let code = secret.withUnsafeBytes {
            crypto_scalarmult_curve25519_base(&point, $0.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        precondition(code == 0)
        self.secret = secret
        publicKey = try AgreementPublicKey(point)
    }

    /// The private key as it is kept in a file: 32 bytes.
    public func withSecret<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { secret.withUnsafeBytes(body) }

    /// The secret that both sides get: 32 bytes, to be fed to a key derivation.
    /// - Throws: ``CryptoError/lowOrderPoint`` (K9).
    public func sharedSecret(with other: AgreementPublicKey) throws(CryptoError) -> SecretBytes {
        var shared = [UInt8](repeating: 0, count: 32)
        defer { sodium_memzero(&shared, shared.count) }
        let code = secret.withUnsafeBytes {
            crypto_scalarmult_curve25519(&shared, $0.assumingMemoryBound(to: UInt8.self).baseAddress!, other.bytes)
        }
        guard code == 0 else { throw .lowOrderPoint }
        return SecretBytes(shared)
    }
}
