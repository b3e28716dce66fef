package import NearshareBase
internal import NearshareCrypto

/// The encrypted payload of the handshake's third message, from the initiator.
package struct InitiatorParameters: Sendable, Hashable {
    /// The two parties have no record cipher in common.
    package static let noCipher: UInt8 = 0

    /// The record cipher for both directions: one of the responder's, or ``noCipher``.
    package var cipher: UInt8

    /// The ciphertext of ML-KEM-768 for the responder's key; nil in version 1, and without a cipher.
    package var ciphertext: [UInt8]?

    /// Creates the initiator's parameters.
    package init(cipher: UInt8, ciphertext: [UInt8]? = nil) {
        self.cipher = cipher
        self.ciphertext = ciphertext
    }

    /// Decodes the payload of a handshake message.
    /// - Parameter version: The version of the link.
    package init(decoding bytes: [UInt8], version: UInt8) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        cipher = try reader.readInteger()
        if version >= Preamble.hybridVersion, cipher != Self.noCipher {
            ciphertext = Array(try reader.readBytes(DecapsulationKey.ciphertextByteCount))
        }
        // Later versions may append parameters.
        _ = reader.readRemaining()
    }

    /// The payload of a handshake message.
    package var encoded: [UInt8] { [cipher] + (ciphertext ?? []) }
}
