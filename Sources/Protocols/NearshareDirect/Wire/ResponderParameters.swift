package import NearshareBase

/// The encrypted payload of the handshake's second message, from the responder (`docs/PROTOCOL.md`, section 3).
package struct ResponderParameters: Sendable, Hashable {
    /// The version that the responder's preamble chose, repeated with authentication.
    package var version: UInt8
    /// The record ciphers that the responder supports: bit n for cipher n.
    package var ciphers: UInt8

    /// Creates the responder's parameters.
    package init(version: UInt8, ciphers: UInt8) {
        self.version = version
        self.ciphers = ciphers
    }

    /// Decodes the payload of a handshake message.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        version = try reader.readInteger()
        ciphers = try reader.readInteger()
        // Later versions may append parameters.
        _ = reader.readRemaining()
    }

    /// The payload of a handshake message.
    package var encoded: [UInt8] { [version, ciphers] }
}
