/// A peer's identity, 32 bytes: the SHA-256 of its X25519 static public key. For a peer of another protocol, that of the bytes
/// that identify it there, which may be only a claim.
public struct Fingerprint: Sendable, Hashable {
    /// The size of a SHA-256 digest.
    @usableFromInline package static let byteCount = 32

    /// Exactly ``byteCount`` bytes.
    @usableFromInline package let bytes: [UInt8]

    /// - Parameter bytes: 32 bytes; any other number gives nil.
    @inlinable
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Parameter hex: 64 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// 64 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }

    /// The first 8 bytes: the peer's identifier in packets and TXT records.
    package var peerID: PeerID { PeerID(prefixOf: self) }
}

extension Fingerprint: LosslessStringConvertible {
    /// 64 lower-case hexadecimal digits.
    public var description: String { hex }

    /// - Parameter text: 64 hexadecimal digits in either case; any other text gives nil.
    public init?(_ text: String) {
        self.init(hex: text)
    }
}

extension Fingerprint: Codable {
    public init(from decoder: any Decoder) throws {
        bytes = try Hex.decodeIdentifier("a fingerprint", byteCount: Self.byteCount, from: decoder)
    }

    public func encode(to encoder: any Encoder) throws { try Hex.encode(bytes, to: encoder) }
}
