/// A validated X25519 public key, 32 bytes (RFC 7748): not of low order, and encoded canonically.
package struct AgreementPublicKey: Sendable, Hashable {
    /// The size of an encoded key.
    package static let byteCount = 32
    /// The encoded key: ``byteCount`` bytes, little-endian.
    package let bytes: [UInt8]

    /// Validates an encoded key.
    /// - Throws: ``CryptoError/wrongLength(expected:actual:)``; ``CryptoError/lowOrderPoint`` (K9);
    ///   ``CryptoError/notCanonical`` for a coordinate of 2^255 - 19 or more, or with the unused highest bit. RFC 7748 accepts both, but a peer is
    ///   identified by the hash of these bytes: with a second encoding of its key, a blocked peer could evade the block.
    package init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
        guard bytes.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: bytes.count) }
        let bytes = Array(bytes)
        guard !Self.lowOrderPoints.contains(bytes) else { throw .lowOrderPoint }
        guard Self.isCanonical(bytes) else { throw .notCanonical }
        self.bytes = bytes
    }

    /// Whether the little-endian coordinate is below the field's prime, whose bytes are ed, ff thirty times, 7f.
    private static func isCanonical(_ bytes: [UInt8]) -> Bool {
        guard bytes[31] >= 0x7f else { return true }
        return bytes[31] == 0x7f && (bytes[1..<31].contains { $0 != 0xff } || bytes[0] < 0xed)
    }

    /// The points of order 1, 2, 4 and 8 on the curve and its twist, with the non-canonical encodings of 0 and 1. A test has
    /// libsodium confirm each of them.
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
