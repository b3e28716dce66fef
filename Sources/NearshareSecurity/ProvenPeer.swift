public import NearshareBase
public import NearshareCrypto

/// A peer whose key a handshake has proven. Only a handshake makes one, so that no field of a message can stand in for it
/// (K14).
public struct ProvenPeer: Sendable, Hashable {
    public let key: AgreementPublicKey
    public let fingerprint: Fingerprint

    init(key: AgreementPublicKey) {
        self.key = key
        fingerprint = Fingerprint(of: key)
    }

    public var id: PeerID { fingerprint.peerID }
}

extension Fingerprint {
    /// SHA-256 of the X25519 public key (bitchat specification, section 1).
    public init(of key: AgreementPublicKey) {
        self.init(bytes: SHA256Hasher.digest(key.bytes))!
    }
}
