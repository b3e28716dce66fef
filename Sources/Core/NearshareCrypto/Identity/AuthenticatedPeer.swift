package import NearshareBase

/// A peer whose static key a handshake has authenticated. Only a handshake creates one, so that no field of a message can
/// impersonate it (K14).
package struct AuthenticatedPeer: Sendable, Hashable {
    /// The static key.
    package let key: AgreementPublicKey
    /// The fingerprint of the static key.
    package let fingerprint: Fingerprint

    init(key: AgreementPublicKey) {
        self.key = key
        fingerprint = Fingerprint(of: key)
    }

    /// The first 8 bytes of the fingerprint.
    package var id: PeerID { fingerprint.peerID }
}
