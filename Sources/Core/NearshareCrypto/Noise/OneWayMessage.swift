/// ``HandshakePattern/x`` as one call: one message to somebody who isn't there.
///
/// The receiver learns who sent it. What is given up beside a handshake: whoever gets the receiver's private key later can read
/// it, and could also make up messages to the receiver from anybody.
package enum OneWayMessage {
    /// How much longer than the payload a message is.
    package static let overhead = AgreementPublicKey.byteCount + AgreementPublicKey.byteCount + 2 * MessageCipher.tagByteCount

    /// - Parameters:
    ///   - prologue: what both sides must agree on besides.
    ///   - ephemeral: 32 fresh random bytes, for this message only.
    package static func seal(
        _ payload: [UInt8], prologue: [UInt8], from sender: AgreementPrivateKey, to receiver: AgreementPublicKey,
        ephemeral: [UInt8]
    ) throws(NoiseError) -> [UInt8] {
        var handshake = HandshakeState(
            pattern: .x, role: .initiator, prologue: prologue, staticKey: sender, ephemeral: ephemeral, recipient: receiver)
        return try handshake.writeMessage(payload: payload)
    }

    /// - Returns: who has sealed it, and the payload.
    /// - Throws: ``NoiseError/notAuthentic`` also when it is for somebody else.
    package static func open(
        _ message: [UInt8], prologue: [UInt8], for receiver: AgreementPrivateKey
    ) throws(NoiseError) -> (sender: AuthenticatedPeer, payload: [UInt8]) {
        var handshake = HandshakeState(
            pattern: .x, role: .responder, prologue: prologue, staticKey: receiver, ephemeral: Self.unused)
        let payload = try handshake.readMessage(message)
        return (try handshake.split().peer, payload)
    }

    /// The receiver says nothing in this pattern.
    private static let unused = [UInt8](repeating: 0, count: AgreementPrivateKey.byteCount)
}
