package import NearshareBase

/// What a node can do, as it tells in its announcement and, proven, inside a Noise session (bitchat specification, section 4).
package struct MeshCapabilities: OptionSet, Sendable, Hashable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Hands out keys in advance.
    package static let prekeys = Self(rawValue: 1 << 0)
    /// Passes on to the internet.
    package static let gateway = Self(rawValue: 1 << 2)
    /// Takes part in groups.
    package static let groups = Self(rawValue: 1 << 3)
    /// Vouches for others.
    package static let vouch = Self(rawValue: 1 << 5)
    /// Private files are understood (0x20 inside Noise). A sender wants this proven in the present session.
    package static let privateMedia = Self(rawValue: 1 << 8)
    /// Says when private media have arrived.
    package static let privateMediaReceipts = Self(rawValue: 1 << 9)
    /// nearshare's own: offers, answers and cancelling of files inside Noise (`docs/PROTOCOL.md`, section 10).
    package static let fileOffers = Self(rawValue: 1 << 32)

    /// nearshare's own: takes messages to carry them for others (`docs/PROTOCOL.md`, section 13). Only while it does.
    package static let carries = Self(rawValue: 1 << 33)

    /// What this implementation says of itself.
    package static let ours: Self = [.privateMedia, .privateMediaReceipts, .fileOffers]

    /// Little-endian, as short as can be, at least one byte.
    var encoded: [UInt8] {
        var bytes = withUnsafeBytes(of: rawValue.littleEndian) { Array($0) }
        while bytes.count > 1, bytes.last == 0 { bytes.removeLast() }
        return bytes
    }

    /// The first 8 bytes count.
    init(littleEndian bytes: ArraySlice<UInt8>) {
        rawValue = bytes.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// What a node says of itself to everybody (bitchat specification, section 4). Claims, until the signature and the id have been
/// checked against the keys in it.
package struct MeshAnnouncement: Sendable, Hashable {
    /// The length is one byte.
    package static let maximumNicknameByteCount = 255
    /// So many neighbours are told; what others send may be longer by a little, as a field has 255 bytes.
    package static let maximumNeighbourCount = 10

    /// At most ``maximumNicknameByteCount`` bytes of UTF-8.
    package var nickname: String
    /// An X25519 public key as it was claimed; should have 32 bytes.
    package var noiseKey: [UInt8]
    /// An Ed25519 public key as it was claimed; should have 32 bytes.
    package var signingKey: [UInt8]
    /// nil when the field is missing or not a list of ids.
    package var neighbours: [PeerID]?
    /// What its app can do; nil where it does not say.
    package var capabilities: MeshCapabilities?
    /// 1 to 12 bytes.
    package var bridgeGeohash: String?

    /// Puts an announcement together.
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

    /// - Throws: when a field is longer than 255 bytes.
    package func encoded() throws(MalformedInput) -> [UInt8] {
        var fields = ShortFields(of: "announcement")
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

    /// Fields in any order, the last of a kind counts, unknown ones are skipped.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var nickname: String?
        var noiseKey: [UInt8]?
        var signingKey: [UInt8]?
        var neighbours: [PeerID]?
        var capabilities: MeshCapabilities?
        var geohash: String?
        for (kind, value) in try ShortFields.decode(bytes, of: "announcement") {
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
