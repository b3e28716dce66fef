// Who and what things are: a peer is its key, a transfer is a number drawn by its sender.

/// SHA-256 of a peer's X25519 static public key: who somebody is. 32 bytes.
package struct Fingerprint: Sendable, Hashable {
    /// Of a SHA-256 digest.
    package static let byteCount = 32

    /// Exactly ``byteCount`` bytes.
    package let bytes: [UInt8]

    /// - Parameter bytes: 32 bytes; anything else gives nil.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// - Parameter hex: 64 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// In 64 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }

    /// The first 8 bytes, which is how packets and TXT records name the peer.
    package var peerID: PeerID { PeerID(bytes: bytes.prefix(PeerID.byteCount))! }
}

/// The short name of a key: the first 8 bytes of its ``Fingerprint`` (bitchat specification, section 1).
///
/// It is a claim until a handshake has proven the key behind it.
package struct PeerID: Sendable, Hashable {
    /// The beginning of a ``Fingerprint``.
    package static let byteCount = 8

    /// The bytes, the first of them in front: copied, hashed and compared in one step where an array would need a search.
    private let value: UInt64

    /// Exactly ``byteCount`` bytes.
    package var bytes: [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

    /// - Parameter bytes: 8 bytes; anything else gives nil.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        value = bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// - Parameter hex: 16 hexadecimal digits in either case.
    package init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    /// In 16 lower-case hexadecimal digits.
    package var hex: String { Hex.encode(bytes) }
}

extension PeerID: Comparable {
    /// As their hexadecimal texts are ordered.
    package static func < (one: PeerID, other: PeerID) -> Bool { one.value < other.value }
}

extension Fingerprint: CustomStringConvertible {
    package var description: String { hex }
}

extension PeerID: CustomStringConvertible {
    package var description: String { hex }
}

extension Fingerprint: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let value = Fingerprint(hex: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a fingerprint is 64 hexadecimal digits")
        }
        self = value
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(hex)
    }
}

extension PeerID: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let value = PeerID(hex: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a peer id is 16 hexadecimal digits")
        }
        self = value
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(hex)
    }
}

/// Names one transfer between two peers. Drawn at random by the sender; meaningless without the link it came over.
package struct TransferID: Sendable, Hashable {
    /// Drawn at random by the sender.
    package let rawValue: UInt64

    /// A number that came with a frame, or was drawn.
    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Draws one.
    package init(using generator: inout some RandomNumberGenerator) {
        rawValue = generator.next()
    }

    /// 16 hexadecimal digits.
    package var hex: String { Hex.encode(withUnsafeBytes(of: rawValue.bigEndian) { Array($0) }) }
}

extension TransferID: CustomStringConvertible {
    package var description: String { hex }
}
