internal import NearshareBase

/// The identifier of a session, which its founder has derived from its key and a random number.
package struct SessionID: Sendable, Hashable {
    /// The size of an identifier.
    package static let byteCount = 16
    /// Exactly ``byteCount`` bytes.
    package let bytes: [UInt8]

    /// - Returns: nil for any number of bytes but 16.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Parameter digest: at least ``byteCount`` bytes, the first of which are the identifier.
    init(digest: [UInt8]) {
        bytes = Array(digest.prefix(Self.byteCount))
    }

    init(from reader: inout ByteReader) throws(MalformedInput) {
        bytes = Array(try reader.readBytes(Self.byteCount))
    }

    /// 32 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }
}

extension SessionID: CustomStringConvertible {
    package var description: String { hex }
}
