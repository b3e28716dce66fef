package import NearshareCrypto

/// The result of a completed handshake.
package struct EstablishedLink: Sendable {
    /// The peer, authenticated by its static key.
    package let peer: AuthenticatedPeer
    /// The protocol version that both peers have agreed on.
    package let version: UInt8
    /// The record cipher of both directions.
    package let cipher: RecordCipher.Kind
    /// The record layer for frames to the peer.
    package let sealer: RecordSealer
    /// The record layer for frames from the peer.
    package let opener: RecordOpener
    /// The handshake hash: equal on both sides, and unique to this link.
    package let handshakeHash: [UInt8]
    /// The cipher states for unreliable datagrams beside the link.
    package let datagrams: NoiseDatagrams
    /// Bytes that arrived after the handshake's last message.
    package let leftover: [UInt8]

    /// Derives the link's keys from the transport keys of the handshake.
    /// - Parameter kemSecret: The shared secret of ML-KEM-768; nil in version 1.
    init(
        _ keys: TransportKeys, version: UInt8, cipher: RecordCipher.Kind, kemSecret: SecretBytes?, leftover: [UInt8]
    ) {
        peer = keys.peer
        self.version = version
        self.cipher = cipher
        let derivation = KeyDerivation(kemSecret: kemSecret, salt: keys.handshakeHash)
        sealer = RecordSealer(RecordCipher(cipher, key: derivation.recordKey(keys.send, cipher)))
        opener = RecordOpener(RecordCipher(cipher, key: derivation.recordKey(keys.receive, cipher)))
        handshakeHash = keys.handshakeHash
        datagrams = NoiseDatagrams(
            send: derivation.datagramState(keys.send), receive: derivation.datagramState(keys.receive))
        self.leftover = leftover
    }
}

/// HKDF-SHA256 with the handshake hash as salt, which binds each key to its link. In version 2 the shared secret follows the
/// input, so that both X25519 and ML-KEM-768 would have to be broken.
private struct KeyDerivation {
    let kemSecret: SecretBytes?
    let salt: [UInt8]

    func recordKey(_ state: CipherState, _ cipher: RecordCipher.Kind) -> [UInt8] {
        derive(from: state, label: "nearshare record", suffix: [cipher.rawValue])
    }

    func datagramState(_ state: CipherState) -> CipherState {
        CipherState(key: SecretBytes(derive(from: state, label: "nearshare datagram")))
    }

    private func derive(from state: CipherState, label: String, suffix: [UInt8] = []) -> [UInt8] {
        let key = state.withKey { Array($0) } ?? []
        let info = Array((kemSecret == nil ? label : "\(label) 2").utf8) + suffix
        let input = key + (kemSecret?.withUnsafeBytes { Array($0) } ?? [])
        return HKDF.derive(from: input, salt: salt, info: info, byteCount: 32)
    }
}
