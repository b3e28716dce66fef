package import NearshareBase

/// The features of a node, announced to everyone and repeated inside Noise sessions (bitchat specification, section 4).
package struct MeshCapabilities: OptionSet, Sendable, Hashable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Publishes prekeys.
    package static let prekeys = Self(rawValue: 1 << 0)
    /// Relays to the internet.
    package static let gateway = Self(rawValue: 1 << 2)
    /// Supports groups.
    package static let groups = Self(rawValue: 1 << 3)
    /// Vouches for other peers.
    package static let vouch = Self(rawValue: 1 << 5)
    /// Accepts private files (0x20 inside Noise). Senders require it to be stated in the current session.
    package static let privateMedia = Self(rawValue: 1 << 8)
    /// Sends receipts for private media.
    package static let privateMediaReceipts = Self(rawValue: 1 << 9)
    /// nearshare's own: offers, answers and cancellation of files inside Noise (`docs/PROTOCOL.md`, section 10).
    package static let fileOffers = Self(rawValue: 1 << 32)

    /// nearshare's own: stores and forwards bundles (`docs/PROTOCOL.md`, section 13). Announced only while it does.
    package static let bundles = Self(rawValue: 1 << 33)

    /// The features of this implementation.
    package static let supported: Self = [.privateMedia, .privateMediaReceipts, .fileOffers]

    /// Little-endian, minimal, at least one byte.
    var encoded: [UInt8] {
        var bytes = withUnsafeBytes(of: rawValue.littleEndian) { Array($0) }
        while bytes.count > 1, bytes.last == 0 { bytes.removeLast() }
        return bytes
    }

    /// Decodes the first 8 bytes; others are ignored.
    init(littleEndian bytes: ArraySlice<UInt8>) {
        rawValue = UInt64(truncatingBigEndian: bytes.prefix(8).reversed())
    }
}

/// A node's announcement to everyone (bitchat specification, section 4). Unverified until its signature and id are checked
/// against the keys in it.
package struct MeshAnnouncement: Sendable, Hashable {
    /// Limit on the nickname, as its length is one byte.
    package static let maximumNicknameByteCount = 255
    /// Limit on announced neighbours. A received list may be longer, as its field has 255 bytes.
    package static let maximumNeighbourCount = 10

    /// The announced name, at most ``maximumNicknameByteCount`` bytes of UTF-8.
    package var nickname: String
    /// The claimed X25519 public key; should have 32 bytes.
    package var noiseKey: [UInt8]
    /// The claimed Ed25519 public key; should have 32 bytes.
    package var signingKey: [UInt8]
    /// nil when the field is missing or not a list of ids.
    package var neighbours: [PeerID]?
    /// nil when the field is missing.
    package var capabilities: MeshCapabilities?
    /// 1 to 12 bytes.
    package var bridgeGeohash: String?

    package init(
        nickname: String, noiseKey: [UInt8], signingKey: [UInt8], neighbours: [PeerID]? = nil,
        capabilities: MeshCapabilities? = nil, bridgeGeohash: String? = nil
    ) {
        self.nickname = nickname
        self.noiseKey = noiseKey
        self.signingKey = signingKey
        self.neighbours = neighbours
        self.capabilities = capabilities
        self.bridgeGeohash = bridgeGeohash
    }

    /// - Throws: ``MalformedInput`` when a field is longer than 255 bytes.
    package func encoded() throws(MalformedInput) -> [UInt8] {
        var fields = TLVFields(of: "announcement")
        try fields.append(Field.nickname, nickname.utf8)
        try fields.append(Field.noiseKey, noiseKey)
        try fields.append(Field.signingKey, signingKey)
        if let neighbours, !neighbours.isEmpty {
            try fields.append(Field.neighbours, neighbours.prefix(Self.maximumNeighbourCount).flatMap(\.bytes))
        }
        if let capabilities { try fields.append(Field.capabilities, capabilities.encoded) }
        if let bridgeGeohash, (1...12).contains(bridgeGeohash.utf8.count) {
            try fields.append(Field.bridgeGeohash, bridgeGeohash.utf8)
        }
        return fields.bytes
    }

    /// Accepts fields in any order; the last of a kind counts, unknown ones are skipped.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var nickname: String?
        var noiseKey: [UInt8]?
        var signingKey: [UInt8]?
        var neighbours: [PeerID]?
        var capabilities: MeshCapabilities?
        var geohash: String?
        for (kind, value) in try TLVFields.decode(bytes, of: "announcement") {
            switch kind {
            case Field.nickname:
                guard let text = String(validating: value, as: UTF8.self) else {
                    throw MalformedInput("announcement: the name is not valid UTF-8")
                }
                nickname = text
            case Field.noiseKey: noiseKey = Array(value)
            case Field.signingKey: signingKey = Array(value)
            case Field.neighbours:
                guard !value.isEmpty, value.count.isMultiple(of: PeerID.byteCount) else { continue }
                neighbours = stride(from: value.startIndex, to: value.endIndex, by: PeerID.byteCount).map {
                    PeerID(fitting: value[$0..<$0 + PeerID.byteCount])
                }
            case Field.capabilities: capabilities = MeshCapabilities(littleEndian: value)
            case Field.bridgeGeohash:
                guard (1...12).contains(value.count) else { continue }
                geohash = String(validating: value, as: UTF8.self)
            default: continue
            }
        }
        guard let nickname, let noiseKey, let signingKey else { throw MalformedInput("announcement: a field is missing") }
        self.init(
            nickname: nickname, noiseKey: noiseKey, signingKey: signingKey, neighbours: neighbours,
            capabilities: capabilities, bridgeGeohash: geohash)
    }

    private enum Field {
        static let nickname: UInt8 = 0x01
        static let noiseKey: UInt8 = 0x02
        static let signingKey: UInt8 = 0x03
        static let neighbours: UInt8 = 0x04
        static let capabilities: UInt8 = 0x05
        static let bridgeGeohash: UInt8 = 0x06
    }
}
