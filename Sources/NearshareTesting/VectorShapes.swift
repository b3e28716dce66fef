import NearshareBase
public import NearshareCrypto
public import NearshareWire

// The shapes that the files of bitchat's vectors have in common. What they leave open is written beside each.

/// What a file of vectors says that makes no sense.
public struct UnusableVector: Error, CustomStringConvertible {
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Bytes in full, or how they are made; decoded ones may be told by their hash alone.
public struct VectorBytes: Decodable, Sendable {
    public var kind: String?
    public var hex: String?
    public var seed: UInt32?
    public var unitUtf8: String?
    public var length: Int
    public var sha256: String?

    public func matches(_ bytes: some Collection<UInt8>) -> Bool {
        Vectors.Blob(hex: hex, length: length, sha256: sha256).matches(bytes)
    }

    /// - Throws: when they are told by their hash alone, or what was made has another length or hash.
    public func make() throws -> [UInt8] {
        let bytes: [UInt8]
        if let hex {
            bytes = try Self.decoded(hex)
        } else if let seed {
            bytes = Vectors.bytes(seed: seed, count: length)
        } else if let unit = unitUtf8.map({ Array($0.utf8) }), !unit.isEmpty {
            bytes = (0..<length).map { unit[$0 % unit.count] }
        } else {
            throw UnusableVector("bytes that are told by their hash alone")
        }
        guard bytes.count == length, sha256 == nil || sha256 == Hex.encode(SHA256Hasher.digest(bytes)) else {
            throw UnusableVector("bytes that have another length or hash than they should")
        }
        return bytes
    }

    static func decoded(_ hex: String) throws -> [UInt8] {
        guard let bytes = Hex.decode(hex) else { throw UnusableVector("not hexadecimal: \(hex.prefix(40))") }
        return bytes
    }
}

/// A packet as the arguments of the encoder that made the vectors; its ids may have any length.
public struct VectorPacket: Decodable, Sendable {
    public var version: UInt8
    public var type: UInt8
    public var ttl: UInt8
    public var timestampMs: String
    public var senderIdHex: String
    public var recipientIdHex: String?
    public var routeHex: [String]?
    public var isRsr: Bool
    public var signatureHex: String?
    public var payload: VectorBytes

    /// - Parameter payload: for one that this object does not hold.
    /// - Returns: nil for what ``MeshPacket`` has no value for: other versions, a hop without an id.
    public func value(payload given: [UInt8]? = nil) throws -> MeshPacket? {
        guard let version = MeshPacket.Version(rawValue: version), routeHex?.contains("") != true else { return nil }
        guard let timestamp = UInt64(timestampMs) else { throw UnusableVector("not a time: \(timestampMs)") }
        return MeshPacket(
            version: version, type: MeshPacketType(rawValue: type), ttl: ttl, timestamp: timestamp,
            sender: try Self.id(senderIdHex), recipient: try recipientIdHex.map(Self.id),
            route: try (routeHex ?? []).map(Self.id), payload: try (given ?? payload.make())[...],
            signature: try hasWholeSignature ? signature : nil, isSyncResponse: isRsr)
    }

    /// What is shorter than a signature is sent by an iPhone, but understood by nobody; no value of ours holds it.
    public var hasWholeSignature: Bool { (signatureHex?.utf8.count ?? 0) >= 2 * MeshPacket.signatureByteCount }

    private var signature: [UInt8] {
        get throws { Array(try VectorBytes.decoded(signatureHex ?? "").prefix(MeshPacket.signatureByteCount)) }
    }

    private static func id(_ hex: String) throws -> PeerID { PeerID(fitting: try VectorBytes.decoded(hex)) }

    /// Whether `packet` is this one, as far as its version can hold what is here.
    public func isEqual(to packet: MeshPacket) throws -> Bool {
        try version == packet.version.rawValue && type == packet.type.rawValue && ttl == packet.ttl
            && timestampMs == String(packet.timestamp) && Self.id(senderIdHex) == packet.sender
            && recipientIdHex.map(Self.id) == packet.recipient && (routeHex ?? []).map(Self.id) == packet.route
            && isRsr == packet.isSyncResponse && signatureHex.map { _ in try signature } == packet.signature
            && payload.matches(packet.payload)
    }
}

/// A test identity.
public struct VectorIdentity: Decodable, Sendable {
    public var noisePublicHex: String
    public var ed25519PublicHex: String
    public var ed25519SeedHex: String
    public var peerIdHex: String

    public var signingKey: SigningPublicKey {
        get throws { try SigningPublicKey(try VectorBytes.decoded(ed25519PublicHex)) }
    }
}
