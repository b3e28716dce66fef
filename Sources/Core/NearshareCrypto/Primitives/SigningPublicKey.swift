internal import CSodium

/// An Ed25519 public key, 32 bytes (RFC 8032).
package struct SigningPublicKey: Sendable, Hashable {
    /// The size of an encoded key.
    package static let byteCount = 32
    /// The size of a signature.
    package static let signatureByteCount = 64
    /// The encoded key: ``byteCount`` bytes.
    package let bytes: [UInt8]

    /// - Throws: ``CryptoError/wrongLength(expected:actual:)``. The point is checked when a signature is.
    package init(_ bytes: some Collection<UInt8>) throws(CryptoError) {
        guard bytes.count == Self.byteCount else { throw .wrongLength(expected: Self.byteCount, actual: bytes.count) }
        self.bytes = Array(bytes)
    }

    /// Verifies a signature; one of another length than ``signatureByteCount`` is invalid.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        signature.count == Self.signatureByteCount
            && crypto_sign_ed25519_verify_detached(signature, message, UInt64(message.count), bytes) == 0
    }
}
