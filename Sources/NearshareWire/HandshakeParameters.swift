public import NearshareBase

/// What rides encrypted in the handshake's second message, from the responder (`docs/PROTOCOL.md`, section 3).
public struct ResponderParameters: Sendable, Hashable {
    /// The version that the responder's preamble chose, said again where nobody can change it.
    public var version: UInt8
    /// The record ciphers that may be used, as a bit field: bit n for cipher n.
    public var ciphers: UInt8

    /// Puts parameters together.
    public init(version: UInt8, ciphers: UInt8) {
        self.version = version
        self.ciphers = ciphers
    }

    /// Reads them from a handshake message's payload.
    public init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        version = try reader.readInteger()
        ciphers = try reader.readInteger()
        // What later minor versions add is skipped.
        _ = reader.readRemaining()
    }

    /// As the payload of a handshake message.
    public var encoded: [UInt8] { [version, ciphers] }
}

/// What rides encrypted in the handshake's third message, from the initiator.
public struct InitiatorParameters: Sendable, Hashable {
    /// None of those that the responder named will do.
    public static let noCipher: UInt8 = 0

    /// The record cipher for both directions, one of those that the responder named, or ``noCipher``.
    public var cipher: UInt8

    /// Puts parameters together.
    public init(cipher: UInt8) {
        self.cipher = cipher
    }

    /// Reads them from a handshake message's payload.
    public init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        cipher = try reader.readInteger()
        _ = reader.readRemaining()
    }

    /// As the payload of a handshake message.
    public var encoded: [UInt8] { [cipher] }
}
