package import NearshareBase

/// What rides encrypted in the handshake's second message, from the responder (`docs/PROTOCOL.md`, section 3).
package struct ResponderParameters: Sendable, Hashable {
    /// The version that the responder's preamble chose, said again where nobody can change it.
    package var version: UInt8
    /// The record ciphers that may be used, as a bit field: bit n for cipher n.
    package var ciphers: UInt8

    /// Puts parameters together.
    package init(version: UInt8, ciphers: UInt8) {
        self.version = version
        self.ciphers = ciphers
    }

    /// Reads them from a handshake message's payload.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        version = try reader.readInteger()
        ciphers = try reader.readInteger()
        // What later minor versions add is skipped.
        _ = reader.readRemaining()
    }

    /// As the payload of a handshake message.
    package var encoded: [UInt8] { [version, ciphers] }
}

/// What rides encrypted in the handshake's third message, from the initiator.
package struct InitiatorParameters: Sendable, Hashable {
    /// None of those that the responder named will do.
    package static let noCipher: UInt8 = 0

    /// The record cipher for both directions, one of those that the responder named, or ``noCipher``.
    package var cipher: UInt8

    /// Puts parameters together.
    package init(cipher: UInt8) {
        self.cipher = cipher
    }

    /// Reads them from a handshake message's payload.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        cipher = try reader.readInteger()
        _ = reader.readRemaining()
    }

    /// As the payload of a handshake message.
    package var encoded: [UInt8] { [cipher] }
}
