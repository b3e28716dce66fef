package import NearshareBase

extension Fingerprint {
    /// The SHA-256 of an X25519 public key (bitchat specification, section 1).
    package init(of key: AgreementPublicKey) { self.init(digestOf: key.bytes) }

    /// The fingerprint of a peer of another protocol, which has no nearshare key.
    /// - Parameters:
    ///   - protocolName: keeps the peers of one protocol from taking the fingerprint of another one's, or of a key.
    ///   - identity: bytes that identify a peer in the protocol.
    package init(foreign protocolName: String, identity: [UInt8]) {
        self.init(digestOf: Array("nearshare foreign peer: \(protocolName)".utf8) + [0] + identity)
    }

    private init(digestOf bytes: [UInt8]) {
        // Safe: a SHA-256 digest has the size of a fingerprint.
        self.init(bytes: SHA256Hasher.digest(bytes))!
    }
}
