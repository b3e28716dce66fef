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
    init(_ keys: TransportKeys, version: UInt8, cipher: RecordCipher.Kind, leftover: [UInt8]) {
        peer = keys.peer
        self.version = version
        self.cipher = cipher
        sealer = RecordSealer(RecordCipher(cipher, key: Self.recordKey(keys.send, keys.handshakeHash, cipher)))
        opener = RecordOpener(RecordCipher(cipher, key: Self.recordKey(keys.receive, keys.handshakeHash, cipher)))
        handshakeHash = keys.handshakeHash
        datagrams = NoiseDatagrams(
            send: Self.datagramState(keys.send, keys.handshakeHash),
            receive: Self.datagramState(keys.receive, keys.handshakeHash))
        self.leftover = leftover
    }

    /// HKDF-SHA256 with the handshake hash as salt, which binds a record key to this link and this cipher.
    private static func recordKey(_ state: CipherState, _ handshakeHash: [UInt8], _ cipher: RecordCipher.Kind) -> [UInt8] {
        derive(from: state, salt: handshakeHash, info: Array("nearshare record".utf8) + [cipher.rawValue])
    }

    private static func datagramState(_ state: CipherState, _ handshakeHash: [UInt8]) -> CipherState {
        CipherState(key: SecretBytes(derive(from: state, salt: handshakeHash, info: Array("nearshare datagram".utf8))))
    }

    private static func derive(from state: CipherState, salt: [UInt8], info: [UInt8]) -> [UInt8] {
        HKDF.derive(from: state.withKey { Array($0) } ?? [], salt: salt, info: info, byteCount: 32)
    }
}
