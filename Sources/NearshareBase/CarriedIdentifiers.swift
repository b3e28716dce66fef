// Names of what is carried for others, and of those who send and receive it. Two integers rather than arrays: a node keeps
// thousands of them.

/// Names one carried message: the first 16 bytes of a hash over all that its sender has signed (`docs/PROTOCOL.md`, section 13).
public struct CarriedID: Sendable, Hashable {
    /// Of a digest that was cut to this length.
    public static let byteCount = 16

    /// The first 8 bytes, big-endian. Where a lost entry costs little this much stands for the whole.
    public let short: UInt64
    private let rest: UInt64

    /// - Returns: nil for anything but 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        short = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        rest = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// - Parameter hex: 32 hexadecimal digits in either case.
    public init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// ``byteCount`` bytes.
    public var bytes: [UInt8] {
        withUnsafeBytes(of: short.bigEndian) { Array($0) } + withUnsafeBytes(of: rest.bigEndian) { Array($0) }
    }

    /// In lower case, two digits a byte.
    public var hex: String { Hex.encode(bytes) }
}

/// Whom a carried message is for or from: the first 8 bytes of a hash of a signing key, so that nobody can sign for an address
/// that is not theirs. A message whose sender wants privacy has one made for it alone.
public struct CarriedAddress: Sendable, Hashable {
    /// On the wire.
    public static let byteCount = 8

    /// All ``byteCount`` bytes, big-endian.
    public let rawValue: UInt64

    /// - Parameter rawValue: all bytes, big-endian.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// - Returns: nil for anything but 8 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        rawValue = bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// ``byteCount`` bytes, big-endian.
    public var bytes: [UInt8] { withUnsafeBytes(of: rawValue.bigEndian) { Array($0) } }
    /// In lower case, two digits a byte.
    public var hex: String { Hex.encode(bytes) }
}

extension CarriedID: CustomStringConvertible {
    public var description: String { hex }
}

extension CarriedAddress: CustomStringConvertible {
    public var description: String { hex }
}
