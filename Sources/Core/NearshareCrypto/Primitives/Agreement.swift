internal import CSodium

/// An X25519 public key, 32 bytes (RFC 7748): never one of low order, and always in the one form that honest peers send.
package struct AgreementPublicKey: Sendable, Hashable {
    package static let byteCount = 32
    package let bytes: [UInt8]

    /// - Throws: ``CryptoError/wrongLength(expected:actual:)``; ``CryptoError/lowOrderPoint`` (K9);
    ///   ``CryptoError/notCanonical`` for a number of 2^255 - 19 or more. RFC 7748 would reduce that, but a peer is named by
    ///   the hash of these bytes: with two forms of one key it would have two names, and a blocked one an unblocked twin.
    package init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
        guard bytes.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: bytes.count) }
        let bytes = Array(bytes)
        guard !Self.lowOrderPoints.contains(bytes) else { throw .lowOrderPoint }
        guard Self.isCanonical(bytes) else { throw .notCanonical }
        self.bytes = bytes
    }

    /// Little-endian and smaller than the field's prime, whose bytes are ed, ff thirty times, 7f.
    private static func isCanonical(_ bytes: [UInt8]) -> Bool {
        guard bytes[31] >= 0x7f else { return true }
        return bytes[31] == 0x7f && (bytes[1..<31].contains { $0 != 0xff } || bytes[0] < 0xed)
    }

    /// The points of order 1, 2, 4 and 8 on the curve and on its twist, with the prime and its successor, which stand for 0
    /// and 1. Found by the order of the group; the tests let libsodium confirm each of them.
    private static let lowOrderPoints: [[UInt8]] = {
        let edges = [0x00, 0x01].map { [$0] + [UInt8](repeating: 0, count: 31) }
        let aroundPrime = [0xec, 0xed, 0xee].map { [$0] + [UInt8](repeating: 0xff, count: 30) + [0x7f] }
        let ofOrderEight: [[UInt8]] = [
            [
                0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
                0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
            ],
            [
                0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
                0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
            ],
        ]
        return edges + aroundPrime + ofOrderEight
    }()
}

/// An X25519 private key.
package struct AgreementPrivateKey: Sendable {
    package static let byteCount = 32
    package let publicKey: AgreementPublicKey
    private let secret: SecretBytes

    /// - Parameters:
    ///   - seed: 32 random bytes.
    ///   - memory: ``SecretBytes/Memory/guarded`` for a key that outlives its link.
    package init(seed: some Collection<UInt8>, in memory: SecretBytes.Memory = .heap) throws(CryptoError) {
        guard seed.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: seed.count) }
        let secret = SecretBytes(seed, in: memory)
        var point = [UInt8](repeating: 0, count: AgreementPublicKey.byteCount)
        // Fails for no scalar: the base point has prime order.
        let code = secret.withPointer { crypto_scalarmult_curve25519_base(&point, $0) }
        precondition(code == 0)
        self.secret = secret
        publicKey = try AgreementPublicKey(point)
    }

    /// The private key as it is kept in a file: 32 bytes.
    package func withSecret<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result { secret.withUnsafeBytes(body) }

    /// The secret that both sides get: 32 bytes, to be fed to a key derivation.
    /// - Throws: ``CryptoError/lowOrderPoint`` (K9), should a key have slipped through.
    package func sharedSecret(with other: AgreementPublicKey) throws(CryptoError) -> SecretBytes {
        var code: Int32 = -1
        let shared = SecretBytes(byteCount: Int(crypto_scalarmult_curve25519_BYTES)) { output in
            let point = output.assumingMemoryBound(to: UInt8.self).baseAddress!
            code = secret.withPointer { crypto_scalarmult_curve25519(point, $0, other.bytes) }
        }
        guard code == 0 else { throw .lowOrderPoint }
        return shared
    }
}
