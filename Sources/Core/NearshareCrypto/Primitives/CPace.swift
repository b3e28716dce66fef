internal import CSodium

/// CPace with ristretto255 and SHA-512 (draft-irtf-cfrg-cpace-21): two parties with the same password agree on a key, and two
/// parties with different ones learn nothing but that. Neither an eavesdropper nor a party can test more than one password for
/// each exchange.
package struct CPace: Sendable {
    /// The size of a share.
    package static let shareByteCount = 32
    /// The number of random bytes that an exchange needs.
    package static let seedByteCount = 64

    /// The public share for the other party.
    package let share: [UInt8]
    private let scalar: SecretBytes
    private let session: [UInt8]

    /// Draws this party's share.
    /// - Parameters:
    ///   - channel: The same bytes at both ends, such as the application and its context.
    ///   - session: The same bytes at both ends, which no other exchange has.
    ///   - seed: ``seedByteCount`` random bytes.
    package init(password: [UInt8], channel: [UInt8], session: [UInt8], seed: [UInt8]) throws(CryptoError) {
        guard seed.count == Self.seedByteCount else {
            throw .wrongLength(expected: Self.seedByteCount, actual: seed.count)
        }
        Sodium.requireReady()
        let generator = Self.generator(password: password, channel: channel, session: session)
        var reduced = [UInt8](repeating: 0, count: Int(crypto_core_ristretto255_SCALARBYTES))
        defer { sodium_memzero(&reduced, reduced.count) }
        crypto_core_ristretto255_scalar_reduce(&reduced, seed)
        let scalar = SecretBytes(reduced)
        share = try Self.multiply(generator, by: scalar)
        self.scalar = scalar
        self.session = session
    }

    /// Computes the key from the other party's share.
    /// - Parameters:
    ///   - role: This party's role.
    ///   - initiatorData: Bytes of the initiator's message that the key authenticates.
    ///   - responderData: Bytes of the responder's message that the key authenticates.
    /// - Returns: 64 bytes, to be used as input of a key derivation only.
    /// - Throws: ``CryptoError/notCanonical`` or ``CryptoError/lowOrderPoint`` for a share that is no valid point.
    package func key(
        with other: [UInt8], as role: HandshakeRole, initiatorData: [UInt8] = [], responderData: [UInt8] = []
    ) throws(CryptoError) -> SecretBytes {
        guard other.count == Self.shareByteCount else {
            throw .wrongLength(expected: Self.shareByteCount, actual: other.count)
        }
        guard crypto_core_ristretto255_is_valid_point(other) == 1 else { throw .notCanonical }
        let point = try Self.multiply(other, by: scalar)
        let (first, second) = role == .initiator ? (share, other) : (other, share)
        return SecretBytes(
            Self.hash(
                Self.joined([Self.label + Array("_ISK".utf8), session, point])
                    + Self.joined([first, initiatorData]) + Self.joined([second, responderData])))
    }

    // MARK: The draft's functions

    private static let label = Array("CPaceRistretto255".utf8)
    private static let hashBlockByteCount = 128

    /// The draft's `calculate_generator`.
    static func generator(password: [UInt8], channel: [UInt8], session: [UInt8]) -> [UInt8] {
        let padding = max(0, hashBlockByteCount - 1 - joined([password]).count - joined([label]).count)
        var point = [UInt8](repeating: 0, count: shareByteCount)
        crypto_core_ristretto255_from_hash(
            &point, hash(joined([label, password, [UInt8](repeating: 0, count: padding), channel, session])))
        return point
    }

    /// The draft's `lv_cat`: each part after its length in LEB128.
    static func joined(_ parts: [[UInt8]]) -> [UInt8] {
        parts.flatMap { part in
            var length = part.count
            var encoded: [UInt8] = []
            repeat {
                encoded.append(UInt8(length & 0x7f) | (length > 0x7f ? 0x80 : 0))
                length >>= 7
            } while length > 0
            return encoded + part
        }
    }

    private static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(crypto_hash_sha512_BYTES))
        crypto_hash_sha512(&digest, bytes, UInt64(bytes.count))
        return digest
    }

    private static func multiply(_ point: [UInt8], by scalar: SecretBytes) throws(CryptoError) -> [UInt8] {
        var product = [UInt8](repeating: 0, count: shareByteCount)
        let code = scalar.withPointer { crypto_scalarmult_ristretto255(&product, $0, point) }
        guard code == 0 else { throw .lowOrderPoint }
        return product
    }
}
