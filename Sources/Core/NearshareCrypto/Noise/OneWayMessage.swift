/// One message in ``HandshakePattern/x`` to a receiver that may be offline, with sender authentication.
///
/// Weaker than an interactive handshake: an attacker that obtains the receiver's static private key can decrypt recorded
/// messages, and can forge messages from any sender to that receiver (key-compromise impersonation).
package enum OneWayMessage {
    /// The bytes of a message besides its payload.
    package static let overheadByteCount =
        AgreementPublicKey.byteCount + AgreementPublicKey.byteCount + 2 * ChaCha20Poly1305.tagByteCount

    /// Encrypts a payload for `receiver`.
    /// - Parameters:
    ///   - prologue: Data that both parties must agree on.
    ///   - ephemeral: 32 fresh random bytes, used for this message only.
    package static func seal(
        _ payload: [UInt8], prologue: [UInt8], from sender: AgreementPrivateKey, to receiver: AgreementPublicKey,
        ephemeral: [UInt8]
    ) throws(NoiseError) -> [UInt8] {
        var handshake = HandshakeState(
            pattern: .x, role: .initiator, prologue: prologue, staticKey: sender, ephemeral: ephemeral, responderKey: receiver)
        return try handshake.writeMessage(payload: payload)
    }

    /// Decrypts a message.
    /// - Returns: The authenticated sender, and the payload.
    /// - Throws: ``NoiseError/notAuthentic``, also for a message to another receiver.
    package static func open(
        _ message: [UInt8], prologue: [UInt8], for receiver: AgreementPrivateKey
    ) throws(NoiseError) -> (sender: AuthenticatedPeer, payload: [UInt8]) {
        var handshake = HandshakeState(
            pattern: .x, role: .responder, prologue: prologue, staticKey: receiver, ephemeral: Self.unused)
        let payload = try handshake.readMessage(message)
        return (try handshake.split().peer, payload)
    }

    /// The receiver sends no message in this pattern, and so needs no ephemeral key.
    private static let unused = [UInt8](repeating: 0, count: AgreementPrivateKey.byteCount)
}
