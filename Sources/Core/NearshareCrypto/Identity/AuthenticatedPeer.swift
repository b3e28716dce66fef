package import NearshareBase

/// A peer whose key a handshake has proven. Only a handshake makes one, so that no field of a message can stand in for it
/// (K14).
package struct AuthenticatedPeer: Sendable, Hashable {
    package let key: AgreementPublicKey
    package let fingerprint: Fingerprint

    init(key: AgreementPublicKey) {
        self.key = key
        fingerprint = Fingerprint(of: key)
    }

    package var id: PeerID { fingerprint.peerID }
}

extension Fingerprint {
    /// SHA-256 of the X25519 public key (bitchat specification, section 1).
    package init(of key: AgreementPublicKey) {
        self.init(bytes: SHA256Hasher.digest(key.bytes))!
    }
}
