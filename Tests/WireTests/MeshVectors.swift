import NearshareBase
import NearshareCrypto
import NearshareTesting
import NearshareWire
import Testing

// The shapes that the files of bitchat's vectors have in common. What they leave open is written beside each: every item counts,
// none is passed over because of what it holds.

/// How the two phone apps judge an input.
enum Consensus: String, Decodable {
    case mustAccept = "must_accept"
    case mustReject = "must_reject"
    /// Accepted by one, or by both but not as the same: either is tolerable.
    case platformsDiffer = "platforms_differ"
}

/// Bytes in full, or how they are made; decoded ones may be told by their hash alone.
struct VectorBytes: Decodable {
    var kind: String?
    var hex: String?
    var seed: UInt32?
    var unitUtf8: String?
    var length: Int
    var sha256: String?

    func matches(_ bytes: some Collection<UInt8>) -> Bool {
        Vectors.Blob(hex: hex, length: length, sha256: sha256).matches(bytes)
    }

    /// - Throws: when they are told by their hash alone, or what was made has another hash.
    func make() throws -> [UInt8] {
        let bytes: [UInt8] =
            if let hex {
                try #require(Hex.decode(hex))
            } else if let seed {
                Vectors.bytes(seed: seed, count: length)
            } else {
                try Self.repeated(Array(#require(unitUtf8).utf8), count: length)
            }
        try #require(bytes.count == length && (sha256 == nil || sha256 == Hex.encode(SHA256Hasher.digest(bytes))))
        return bytes
    }

    private static func repeated(_ unit: [UInt8], count: Int) -> [UInt8] { (0..<count).map { unit[$0 % unit.count] } }
}

/// A packet as the arguments of the encoder that made the vectors; its ids may have any length.
struct VectorPacket: Decodable {
    var version: UInt8
    var type: UInt8
    var ttl: UInt8
    var timestampMs: String
    var senderIdHex: String
    var recipientIdHex: String?
    var routeHex: [String]?
    var isRsr: Bool
    var signatureHex: String?
    var payload: VectorBytes

    /// - Parameter payload: for one that this object does not hold.
    /// - Returns: nil for what ``MeshPacket`` has no value for: other versions, a hop without an id.
    func value(payload given: [UInt8]? = nil) throws -> MeshPacket? {
        guard let version = MeshPacket.Version(rawValue: version), routeHex?.contains("") != true else { return nil }
        return MeshPacket(
            version: version, type: MeshPacketType(rawValue: type), ttl: ttl, timestamp: try #require(UInt64(timestampMs)),
            sender: try Self.id(senderIdHex), recipient: try recipientIdHex.map(Self.id),
            route: try (routeHex ?? []).map(Self.id), payload: try (given ?? payload.make())[...],
            signature: try hasWholeSignature ? signature : nil, isSyncResponse: isRsr)
    }

    /// What is shorter than a signature is sent by an iPhone, but understood by nobody; no value of ours holds it.
    var hasWholeSignature: Bool { (signatureHex?.utf8.count ?? 0) >= 2 * MeshPacket.signatureByteCount }

    private var signature: [UInt8] {
        get throws { Array(try #require(signatureHex.flatMap(Hex.decode)).prefix(MeshPacket.signatureByteCount)) }
    }

    private static func id(_ hex: String) throws -> PeerID { PeerID(fitting: try #require(Hex.decode(hex))) }

    /// Whether `packet` is this one, as far as its version can hold what is here.
    func isEqual(to packet: MeshPacket) throws -> Bool {
        try version == packet.version.rawValue && type == packet.type.rawValue && ttl == packet.ttl
            && timestampMs == String(packet.timestamp) && Self.id(senderIdHex) == packet.sender
            && recipientIdHex.map(Self.id) == packet.recipient && (routeHex ?? []).map(Self.id) == packet.route
            && isRsr == packet.isSyncResponse && signatureHex.map { _ in try signature } == packet.signature
            && payload.matches(packet.payload)
    }
}

/// A test identity.
struct VectorIdentity: Decodable {
    var noisePublicHex: String
    var ed25519PublicHex: String
    var ed25519SeedHex: String
    var peerIdHex: String

    var signingKey: SigningPublicKey {
        get throws { try SigningPublicKey(try #require(Hex.decode(ed25519PublicHex))) }
    }
}

extension MeshFrame {
    /// Whether the signature is that of one of the preimages in use.
    func isSigned(by key: SigningPublicKey) -> Bool {
        guard let signature = packet.signature else { return false }
        return signingPreimages.contains { key.isValid(signature, for: $0) }
    }

    /// Bit 0x04 of the flags byte: what an encoder's deflate has made is not compared byte for byte.
    var isCompressed: Bool { bytes[bytes.startIndex + 11] & 0x04 != 0 }
}

func hexBytes(_ text: String?) throws -> [UInt8] { try #require(text.flatMap(Hex.decode)) }
