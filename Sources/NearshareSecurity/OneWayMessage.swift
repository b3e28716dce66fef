public import NearshareCrypto

/// `Noise_X_25519_ChaChaPoly_SHA256` (Noise specification, revision 34, section 7.4): one message to somebody who isn't there.
///
///     ← s
///     …
///     → e, es, s, ss
///
/// The receiver learns who sent it. What is given up beside a handshake: whoever gets the receiver's private key later can read
/// it, and could also make up messages to the receiver from anybody.
public enum OneWayMessage {
    /// How much longer than the payload a message is.
    public static let overhead = AgreementPublicKey.byteCount + AgreementPublicKey.byteCount + 2 * MessageCipher.tagByteCount

    /// - Parameters:
    ///   - prologue: what both sides must agree on besides.
    ///   - ephemeral: 32 fresh random bytes, for this message only.
    public static func seal(
        _ payload: [UInt8], prologue: [UInt8], from sender: AgreementPrivateKey, to receiver: AgreementPublicKey,
        ephemeral: [UInt8]
    ) throws(NoiseError) -> [UInt8] {
        // A wrong number of bytes is our own bug.
        let ephemeral = try! AgreementPrivateKey(seed: ephemeral)
        var symmetric = begin(prologue, receiver)
        symmetric.mixHash(ephemeral.publicKey.bytes)
        symmetric.mixKey(try secret(ephemeral, receiver))
        let key = try symmetric.encryptAndHash(sender.publicKey.bytes)
        symmetric.mixKey(try secret(sender, receiver))
        return ephemeral.publicKey.bytes + key + (try symmetric.encryptAndHash(payload))
    }

    /// - Returns: who has sealed it, and the payload.
    /// - Throws: ``NoiseError/notAuthentic`` also when it is for somebody else.
    public static func open(
        _ message: [UInt8], prologue: [UInt8], for receiver: AgreementPrivateKey
    ) throws(NoiseError) -> (sender: ProvenPeer, payload: [UInt8]) {
        let keyEnd = 2 * AgreementPublicKey.byteCount + MessageCipher.tagByteCount
        guard message.count >= overhead, message.count <= HandshakeState.maximumMessageByteCount else { throw .malformed }
        let ephemeral = try publicKey(Array(message[..<AgreementPublicKey.byteCount]))
        guard ephemeral != receiver.publicKey else { throw .ourselves }
        var symmetric = begin(prologue, receiver.publicKey)
        symmetric.mixHash(ephemeral.bytes)
        symmetric.mixKey(try secret(receiver, ephemeral))
        let sender = try publicKey(
            try symmetric.decryptAndHash(Array(message[AgreementPublicKey.byteCount..<keyEnd])))
        symmetric.mixKey(try secret(receiver, sender))
        let payload = try symmetric.decryptAndHash(Array(message[keyEnd...]))
        return (ProvenPeer(key: sender), payload)
    }

    /// The receiver's key is known before (section 5.3: a pre-message).
    private static func begin(_ prologue: [UInt8], _ receiver: AgreementPublicKey) -> SymmetricState {
        var symmetric = SymmetricState(protocolName: "Noise_X_25519_ChaChaPoly_SHA256")
        symmetric.mixHash(prologue)
        symmetric.mixHash(receiver.bytes)
        return symmetric
    }

    private static func secret(
        _ own: AgreementPrivateKey, _ other: AgreementPublicKey
    ) throws(NoiseError) -> SecretBytes {
        do {
            return try own.sharedSecret(with: other)
        } catch {
            throw .lowOrderPoint
        }
    }

    private static func publicKey(_ bytes: [UInt8]) throws(NoiseError) -> AgreementPublicKey {
        do {
            return try AgreementPublicKey(bytes)
        } catch {
            throw error == .lowOrderPoint ? .lowOrderPoint : .malformed
        }
    }
}
