package import NearshareBase

/// The encrypted payload of the handshake's third message, from the initiator.
package struct InitiatorParameters: Sendable, Hashable {
    /// The two parties have no record cipher in common.
    package static let noCipher: UInt8 = 0

    /// The record cipher for both directions: one of the responder's, or ``noCipher``.
    package var cipher: UInt8

    /// Creates the initiator's parameters.
    package init(cipher: UInt8) {
        self.cipher = cipher
    }

    /// Decodes the payload of a handshake message.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        cipher = try reader.readInteger()
        // Later versions may append parameters.
        _ = reader.readRemaining()
    }

    /// The payload of a handshake message.
    package var encoded: [UInt8] { [cipher] }
}
