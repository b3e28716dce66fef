/// The result of a completed handshake.
package struct TransportKeys: Sendable {
    /// The peer, authenticated by its static key.
    package let peer: AuthenticatedPeer
    /// The cipher state for messages to the peer.
    package let send: CipherState
    /// The cipher state for messages from the peer.
    package let receive: CipherState
    /// The handshake hash h for channel binding (Noise specification, section 11.2): 32 bytes, unique to this handshake and
    /// equal on both sides.
    package let handshakeHash: [UInt8]
}
