import NearshareBase
package import NearshareCrypto
package import NearshareMesh

// The common structures of bitchat's vector files. Their optional parts are noted at each.

/// An inconsistency in a vector file.
package struct UnusableVector: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Bytes in full, or how they are generated; decoded ones may be given only as a hash.
package struct VectorBytes: Decodable, Sendable {
    package var kind: String?
    package var hex: String?
    package var seed: UInt32?
    package var unitUtf8: String?
    package var length: Int
    package var sha256: String?

    package func matches(_ bytes: some Collection<UInt8>) -> Bool {
        Vectors.Blob(hex: hex, length: length, sha256: sha256).matches(bytes)
    }

    /// - Throws: when they are told by their hash alone, or what was made has another length or hash.
    package func make() throws -> [UInt8] {
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
package struct VectorPacket: Decodable, Sendable {
    package var version: UInt8
    package var type: UInt8
    package var ttl: UInt8
    package var timestampMs: String
    package var senderIdHex: String
    package var recipientIdHex: String?
    package var routeHex: [String]?
    package var isRsr: Bool
    package var signatureHex: String?
    package var payload: VectorBytes

    /// - Parameter payload: for one that this object does not hold.
    /// - Returns: nil for what ``MeshPacket`` has no value for: other versions, a hop without an id.
    package func value(payload given: [UInt8]? = nil) throws -> MeshPacket? {
        guard let version = MeshPacket.Version(rawValue: version), routeHex?.contains("") != true else { return nil }
        guard let timestamp = UInt64(timestampMs) else { throw UnusableVector("not a time: \(timestampMs)") }
        return MeshPacket(
            version: version, type: MeshPacketType(rawValue: type), ttl: ttl, timestamp: timestamp,
            sender: try Self.id(senderIdHex), recipient: try recipientIdHex.map(Self.id),
            route: try (routeHex ?? []).map(Self.id), payload: try (given ?? payload.make())[...],
            signature: try hasWholeSignature ? signature : nil, isSyncResponse: isRsr)
    }

    /// An iPhone sends fields shorter than a signature, but no implementation reads them; our values do not keep them.
    package var hasWholeSignature: Bool { (signatureHex?.utf8.count ?? 0) >= 2 * MeshPacket.signatureByteCount }

    private var signature: [UInt8] {
        get throws { Array(try VectorBytes.decoded(signatureHex ?? "").prefix(MeshPacket.signatureByteCount)) }
    }

    private static func id(_ hex: String) throws -> PeerID { PeerID(fitting: try VectorBytes.decoded(hex)) }

    /// Whether `packet` is this one, as far as its version can hold what is here.
    package func isEqual(to packet: MeshPacket) throws -> Bool {
        try version == packet.version.rawValue && type == packet.type.rawValue && ttl == packet.ttl
            && timestampMs == String(packet.timestamp) && Self.id(senderIdHex) == packet.sender
            && recipientIdHex.map(Self.id) == packet.recipient && (routeHex ?? []).map(Self.id) == packet.route
            && isRsr == packet.isSyncResponse && signatureHex.map { _ in try signature } == packet.signature
            && payload.matches(packet.payload)
    }
}

/// A test identity.
package struct VectorIdentity: Decodable, Sendable {
    package var noisePublicHex: String
    package var ed25519PublicHex: String
    package var ed25519SeedHex: String
    package var peerIdHex: String

    package var signingKey: SigningPublicKey {
        get throws { try SigningPublicKey(try VectorBytes.decoded(ed25519PublicHex)) }
    }
}
