package import NearshareCrypto

/// A set of record ciphers in the handshake: bit n for the cipher with the raw value n (`docs/PROTOCOL.md`, section 3).
package struct CipherSet: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The set with one cipher.
    package init(only cipher: RecordCipher.Kind) {
        // Bounded: there are fewer than eight ciphers, and a shift beyond the width gives 0.
        self.init(rawValue: 1 << cipher.rawValue)
    }
}
