public import NearshareBase

/// What a packet is for (bitchat specification, section 3). Values without a name here are relayed like any other.
public struct MeshPacketType: RawRepresentable, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    public static let announce = Self(rawValue: 0x01)
    public static let message = Self(rawValue: 0x02)
    public static let leave = Self(rawValue: 0x03)
    public static let courierEnvelope = Self(rawValue: 0x04)
    public static let noiseHandshake = Self(rawValue: 0x10)
    public static let noiseEncrypted = Self(rawValue: 0x11)
    public static let fragment = Self(rawValue: 0x20)
    public static let requestSync = Self(rawValue: 0x21)
    public static let fileTransfer = Self(rawValue: 0x22)
    public static let boardPost = Self(rawValue: 0x23)
    public static let ping = Self(rawValue: 0x26)
    public static let pong = Self(rawValue: 0x27)
    public static let nostrCarrier = Self(rawValue: 0x28)
    public static let voiceFrame = Self(rawValue: 0x29)
}

/// A packet of the frame path as a value (bitchat specification, section 2).
public struct MeshPacket: Sendable, Hashable {
    public enum Version: UInt8, Sendable {
        /// Payloads up to 65,535 bytes, no route.
        case v1 = 1
        case v2 = 2
    }

    /// Packets start with this; larger values are treated as this.
    public static let maximumTTL: UInt8 = 7
    public static let maximumHopCount = 255
    public static let signatureByteCount = 64
    /// The largest file packet of 5 MiB, sealed, with its longest name and type.
    public static let maximumPayloadByteCount = 5_242_880 + fileOverheadByteCount
    /// What bitchat on iOS takes; nothing above this reaches a phone.
    public static let phonePayloadByteCount = 1_048_576 + fileOverheadByteCount
    private static let fileOverheadByteCount = 18 + 2 * 65_535 + 96

    public var version: Version
    public var type: MeshPacketType
    public var ttl: UInt8
    /// Milliseconds since 1970, as the sender's clock tells.
    public var timestamp: UInt64
    public var sender: PeerID
    /// nil, or ``PeerID/everybody``, for everybody.
    public var recipient: PeerID?
    /// The hops between sender and recipient, both left out; in version 2 only.
    public var route: [PeerID]
    public var payload: ArraySlice<UInt8>
    /// ``signatureByteCount`` bytes.
    public var signature: [UInt8]?
    /// An old packet, sent because a neighbour asked for what it had missed (RSR).
    public var isSyncResponse: Bool

    public init(
        version: Version = .v1, type: MeshPacketType, ttl: UInt8 = MeshPacket.maximumTTL, timestamp: UInt64, sender: PeerID,
        recipient: PeerID? = nil, route: [PeerID] = [], payload: ArraySlice<UInt8>, signature: [UInt8]? = nil,
        isSyncResponse: Bool = false
    ) {
        self.version = version
        self.type = type
        self.ttl = ttl
        self.timestamp = timestamp
        self.sender = sender
        self.recipient = recipient
        self.route = route
        self.payload = payload
        self.signature = signature
        self.isSyncResponse = isSyncResponse
    }

    /// Addressed to one peer. A missing recipient and the one of all ones both mean everybody.
    public var isDirected: Bool { recipient.map { $0 != .everybody } ?? false }
}

extension PeerID {
    /// The recipient that Android writes on packets for everybody; iOS leaves the field out.
    public static let everybody = PeerID(bytes: [UInt8](repeating: 0xff, count: byteCount))!

    /// Fits an id of any length into its field: filled up with zeros on the right, or cut (section 2.3).
    public init(fitting bytes: some Collection<UInt8>) {
        var kept = Array(bytes.prefix(Self.byteCount))
        while kept.count < Self.byteCount { kept.append(0) }
        self.init(bytes: kept)!
    }
}

/// The bits of a packet's flags byte (section 2.2).
enum MeshFlag {
    static let recipient: UInt8 = 0x01
    static let signature: UInt8 = 0x02
    static let compressed: UInt8 = 0x04
    static let route: UInt8 = 0x08
    static let syncResponse: UInt8 = 0x10
}
