/// The identifier of one bundle: the first 16 bytes of a hash over everything that its sender has signed
/// (`docs/PROTOCOL.md`, section 13).
///
/// Stored as two integers rather than an array, because a node keeps thousands of them.
package struct BundleID: Sendable, Hashable {
    /// The size of the truncated digest.
    package static let byteCount = 16

    /// The first 8 bytes, big-endian: a shorter identifier for uses where a collision costs little.
    package let short: UInt64
    private let rest: UInt64

    /// - Returns: nil for any number of bytes but 16.
    package init?(bytes: some Collection<UInt8>) {
        guard let short = UInt64(bigEndianBytes: bytes.prefix(8)), let rest = UInt64(bigEndianBytes: bytes.dropFirst(8)) else {
            return nil
        }
        self.short = short
        self.rest = rest
    }

    /// - Parameter hex: 32 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// ``byteCount`` bytes.
    package var bytes: [UInt8] { short.bigEndianBytes + rest.bigEndianBytes }

    /// 32 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }
}

extension BundleID: CustomStringConvertible {
    package var description: String { hex }
}

extension BundleID: Codable {
    package init(from decoder: any Decoder) throws {
        let bytes = try Hex.decodeIdentifier("a bundle id", byteCount: Self.byteCount, from: decoder)
        (short, rest) = (UInt64(truncatingBigEndian: bytes.prefix(8)), UInt64(truncatingBigEndian: bytes.dropFirst(8)))
    }

    package func encode(to encoder: any Encoder) throws { try Hex.encode(bytes, to: encoder) }
}
