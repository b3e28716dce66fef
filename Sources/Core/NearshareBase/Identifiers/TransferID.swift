/// The identifier of one transfer between two peers, drawn at random by its sender and scoped to the link it is used on.
package struct TransferID: Sendable, Hashable {
    /// All 8 bytes, big-endian.
    package let rawValue: UInt64

    /// - Parameter rawValue: An identifier read from a frame, or drawn before.
    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Draws a random identifier.
    package init(using generator: inout some RandomNumberGenerator) {
        rawValue = generator.next()
    }

    /// 16 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(rawValue.bigEndianBytes) }
}

extension TransferID: CustomStringConvertible {
    package var description: String { hex }
}

extension TransferID: Codable {
    package init(from decoder: any Decoder) throws {
        rawValue = UInt64(truncatingBigEndian: try Hex.decodeIdentifier("a transfer id", byteCount: 8, from: decoder))
    }

    package func encode(to encoder: any Encoder) throws { try Hex.encode(rawValue.bigEndianBytes, to: encoder) }
}
