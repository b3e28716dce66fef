package import NearshareBase
internal import NearshareCrypto

/// The member that has started a session, as the session's identifier proves: it is a digest of the member's fingerprint and a
/// random number, so that no other member can claim to be the founder (`docs/PROTOCOL.md`, section 12.6).
package struct SessionFounder: Sendable, Hashable {
    /// The size of the random number.
    package static let nonceByteCount = 16

    /// The fingerprint of the founder's key.
    package let fingerprint: Fingerprint
    /// Distinguishes the sessions of one founder.
    let nonce: [UInt8]

    /// - Returns: nil for any number of bytes but ``nonceByteCount``.
    package init?(fingerprint: Fingerprint, nonce: some Collection<UInt8>) {
        guard nonce.count == Self.nonceByteCount else { return nil }
        self.fingerprint = fingerprint
        self.nonce = Array(nonce)
    }

    /// The only session that it is the founder of.
    package var session: SessionID {
        let digest = SHA256Hasher.digest(Self.label + fingerprint.bytes + nonce)
        return SessionID(digest: digest)
    }

    private static let label = Array("nearshare session founder".utf8)
}
