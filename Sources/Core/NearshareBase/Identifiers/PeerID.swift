/// The short name of a key: the first 8 bytes of its ``Fingerprint`` (bitchat specification, section 1).
///
/// A claim until a handshake has authenticated the key behind it.
public struct PeerID: Sendable, Hashable {
    /// The size of the prefix of a ``Fingerprint``.
    package static let byteCount = 8

    /// The bytes as a big-endian integer, which is copied, hashed and compared faster than an array.
    @usableFromInline let value: UInt64

    /// Exactly ``byteCount`` bytes.
    package var bytes: [UInt8] { value.bigEndianBytes }

    /// - Parameter bytes: 8 bytes; any other number gives nil.
    @inlinable
    package init?(bytes: some Collection<UInt8>) {
        guard let value = UInt64(bigEndianBytes: bytes) else { return nil }
        self.value = value
    }

    /// - Parameter hex: 16 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    init(prefixOf fingerprint: Fingerprint) {
        value = fingerprint.bytes.withUnsafeBytes { UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)) }
    }

    /// 16 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }
}

extension PeerID: Comparable {
    /// The order of the hexadecimal texts.
    public static func < (one: PeerID, other: PeerID) -> Bool { one.value < other.value }
}

extension PeerID: LosslessStringConvertible {
    /// 16 lower-case hexadecimal digits.
    public var description: String { hex }

    /// - Parameter text: 16 hexadecimal digits in either case; any other text gives nil.
    public init?(_ text: String) {
        self.init(hex: text)
    }
}

extension PeerID: Codable {
    public init(from decoder: any Decoder) throws {
        value = UInt64(truncatingBigEndian: try Hex.decodeIdentifier("a peer id", byteCount: Self.byteCount, from: decoder))
    }

    public func encode(to encoder: any Encoder) throws { try Hex.encode(bytes, to: encoder) }
}
