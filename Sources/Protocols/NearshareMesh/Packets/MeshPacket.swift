package import NearshareBase

/// The type of a packet (bitchat specification, section 3). Types without a case are relayed like any other.
package struct MeshPacketType: RawRepresentable, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A peer's name and keys, signed.
    package static let announce = Self(rawValue: 0x01)
    /// A text for everyone, signed.
    package static let message = Self(rawValue: 0x02)
    /// The sender leaves the mesh.
    package static let leave = Self(rawValue: 0x03)
    /// A message that another node stores for an absent recipient.
    package static let courierEnvelope = Self(rawValue: 0x04)
    /// A message of a Noise handshake.
    package static let noiseHandshake = Self(rawValue: 0x10)
    /// A message sealed for one peer.
    package static let noiseEncrypted = Self(rawValue: 0x11)
    /// A part of a packet that was cut.
    package static let fragment = Self(rawValue: 0x20)
    /// A request for missed public packets.
    package static let requestSync = Self(rawValue: 0x21)
    /// A file, unsealed.
    package static let fileTransfer = Self(rawValue: 0x22)
    /// A post on a notice board.
    package static let boardPost = Self(rawValue: 0x23)
    /// A request that the peer answers if it receives it.
    package static let ping = Self(rawValue: 0x26)
    /// The answer to a ping.
    package static let pong = Self(rawValue: 0x27)
    /// A message to or from the internet.
    package static let nostrCarrier = Self(rawValue: 0x28)
    /// A part of a live voice message for everyone.
    package static let voiceFrame = Self(rawValue: 0x29)
}

/// A packet of the mesh as a value (bitchat specification, section 2).
package struct MeshPacket: Sendable, Hashable {
    /// The header's version.
    package enum Version: UInt8, Sendable {
        /// Payloads up to 65,535 bytes, no route.
        case v1 = 1
        /// Lengths of four bytes, and routes.
        case v2 = 2
    }

    /// The ttl of new packets; larger values are treated as this one.
    package static let maximumTTL: UInt8 = 7
    /// Limit on a route, as its count is one byte.
    package static let maximumHopCount = 255
    /// Size of an Ed25519 signature.
    package static let signatureByteCount = 64
    /// Size of the largest packet: a file of 5 MiB, sealed, with the longest name and type.
    package static let maximumPayloadByteCount = MeshFile.maximumContentByteCount + fileOverheadByteCount
    /// Size of the largest packet that bitchat on iOS accepts.
    package static let phonePayloadByteCount = MeshPeer.Software.bitchatOnIOS.contentLimit + fileOverheadByteCount
    private static let fileOverheadByteCount = 18 + 2 * 65_535 + 96

    package var version: Version
    package var type: MeshPacketType
    /// Number of hops left.
    package var ttl: UInt8
    /// Milliseconds since 1970, by the sender's clock.
    package var timestamp: UInt64
    package var sender: PeerID
    /// nil, or ``PeerID/broadcast``, for everyone.
    package var recipient: PeerID?
    /// The hops between sender and recipient, without both; only in version 2.
    package var route: [PeerID]
    package var payload: ArraySlice<UInt8>
    /// ``signatureByteCount`` bytes.
    package var signature: [UInt8]?
    /// Whether the packet answers a neighbour's sync request, so that it may be old (RSR).
    package var isSyncResponse: Bool

    package init(
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

    /// Whether the packet is of a type that is signed and for everyone.
    var isPublic: Bool { !isDirected && [.announce, .message, .leave, .fileTransfer].contains(type) }

    /// The packet without its payload, for queues that hold the frame as well.
    var withoutPayload: MeshPacket {
        var packet = self
        packet.payload = []
        return packet
    }

    /// Whether the packet is addressed to one peer. A missing recipient and one of all ones both mean everyone.
    package var isDirected: Bool { recipient.map { $0 != .broadcast } ?? false }
}

extension PeerID {
    /// The recipient that Android writes on packets for everyone; iOS leaves the field out.
    // Safe: 8 bytes.
    package static let broadcast = PeerID(bytes: [UInt8](repeating: 0xff, count: byteCount))!

    /// Fits an id of any length into its field, padded with zeros on the right, or truncated (section 2.3).
    package init(fitting bytes: some Collection<UInt8>) {
        var kept = Array(bytes.prefix(Self.byteCount))
        while kept.count < Self.byteCount { kept.append(0) }
        // Safe: 8 bytes.
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

extension MeshPacketType {
    /// A packet of the bundle protocol (`docs/PROTOCOL.md`, section 13). bitchat does not use this type, and relays it unread.
    package static let bundle = Self(rawValue: 0x6e)
}
