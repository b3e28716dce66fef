package import NearshareBase
internal import NearshareCrypto

/// The encrypted payload of the handshake's second message, from the responder (`docs/PROTOCOL.md`, section 3).
package struct ResponderParameters: Sendable, Hashable {
    /// The version that the responder's preamble chose, repeated with authentication.
    package var version: UInt8
    /// The record ciphers that the responder supports.
    package var ciphers: CipherSet

    /// A key of ML-KEM-768 for this handshake; nil in version 1.
    package var encapsulationKey: [UInt8]?

    private static let hasKey: UInt8 = 1

    /// Creates the responder's parameters.
    package init(version: UInt8, ciphers: CipherSet, encapsulationKey: [UInt8]? = nil) {
        self.version = version
        self.ciphers = ciphers
        self.encapsulationKey = encapsulationKey
    }

    /// Decodes the payload of a handshake message.
    /// - Throws: ``MalformedInput`` also for version 2 without a key.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "handshake parameters")
        version = try reader.readInteger()
        ciphers = CipherSet(rawValue: try reader.readInteger())
        if version >= Preamble.hybridVersion {
            let flags: UInt8 = try reader.readInteger()
            guard flags & Self.hasKey != 0 else { throw MalformedInput("handshake parameters: no key of ML-KEM-768") }
            encapsulationKey = Array(try reader.readBytes(DecapsulationKey.encapsulationKeyByteCount))
        }
        // Later versions may append parameters.
        _ = reader.readRemaining()
    }

    /// The payload of a handshake message.
    package var encoded: [UInt8] { [version, ciphers.rawValue] + (encapsulationKey.map { [Self.hasKey] + $0 } ?? []) }
}
