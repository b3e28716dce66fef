internal import Crypto

/// SHA-256 (FIPS 180-4), of a whole message or incrementally.
package struct SHA256Hasher: Sendable {
    /// The size of a digest.
    package static let byteCount = 32
    private var state = Crypto.SHA256()

    /// Starts with an empty message.
    package init() {}

    /// Appends bytes to the message.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        state.update(bufferPointer: bytes)
    }

    /// Returns the digest: ``byteCount`` bytes.
    package consuming func finalize() -> [UInt8] {
        state.finalize().withUnsafeBytes { Array($0) }
    }

    /// Returns the digest of a whole message: ``byteCount`` bytes.
    package static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var hasher = SHA256Hasher()
        bytes.withUnsafeBytes { hasher.update($0) }
        return hasher.finalize()
    }
}
