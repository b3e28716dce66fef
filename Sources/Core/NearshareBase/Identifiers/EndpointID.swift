/// The address of a bundle's sender or receiver: the first 8 bytes of a hash of a signing key, so that only the key's owner can
/// sign for it. A sender that wants to stay anonymous uses a key of its own for each bundle.
package struct EndpointID: Sendable, Hashable {
    /// The size on the wire.
    package static let byteCount = 8

    /// All ``byteCount`` bytes, big-endian.
    package let rawValue: UInt64

    /// - Parameter rawValue: All bytes, big-endian.
    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// - Returns: nil for any number of bytes but 8.
    package init?(bytes: some Collection<UInt8>) {
        guard let rawValue = UInt64(bigEndianBytes: bytes) else { return nil }
        self.rawValue = rawValue
    }

    /// ``byteCount`` bytes, big-endian.
    package var bytes: [UInt8] { rawValue.bigEndianBytes }

    /// 16 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }
}

extension EndpointID: CustomStringConvertible {
    package var description: String { hex }
}

extension EndpointID: Codable {
    package init(from decoder: any Decoder) throws {
        rawValue = UInt64(
            truncatingBigEndian: try Hex.decodeIdentifier("an endpoint id", byteCount: Self.byteCount, from: decoder))
    }

    package func encode(to encoder: any Encoder) throws { try Hex.encode(bytes, to: encoder) }
}
