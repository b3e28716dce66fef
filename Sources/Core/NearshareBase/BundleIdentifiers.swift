// Names of what is carried for others, and of those who send and receive it. Two integers rather than arrays: a node keeps
// thousands of them.

/// Names one carried message: the first 16 bytes of a hash over all that its sender has signed (`docs/PROTOCOL.md`, section 13).
package struct BundleID: Sendable, Hashable {
    /// Of a digest that was cut to this length.
    package static let byteCount = 16

    /// The first 8 bytes, big-endian. Where a lost entry costs little this much stands for the whole.
    package let short: UInt64
    private let rest: UInt64

    /// - Returns: nil for anything but 16 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        short = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        rest = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// - Parameter hex: 32 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// ``byteCount`` bytes.
    package var bytes: [UInt8] {
        withUnsafeBytes(of: short.bigEndian) { Array($0) } + withUnsafeBytes(of: rest.bigEndian) { Array($0) }
    }

    /// In lower case, two digits a byte.
    package var hex: String { Hex.encode(bytes) }
}

/// Whom a carried message is for or from: the first 8 bytes of a hash of a signing key, so that nobody can sign for an address
/// that is not theirs. A message whose sender wants privacy has one made for it alone.
package struct EndpointID: Sendable, Hashable {
    /// On the wire.
    package static let byteCount = 8

    /// All ``byteCount`` bytes, big-endian.
    package let rawValue: UInt64

    /// - Parameter rawValue: all bytes, big-endian.
    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// - Returns: nil for anything but 8 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        rawValue = bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// ``byteCount`` bytes, big-endian.
    package var bytes: [UInt8] { withUnsafeBytes(of: rawValue.bigEndian) { Array($0) } }
    /// In lower case, two digits a byte.
    package var hex: String { Hex.encode(bytes) }
}

extension BundleID: CustomStringConvertible {
    package var description: String { hex }
}

extension EndpointID: CustomStringConvertible {
    package var description: String { hex }
}
