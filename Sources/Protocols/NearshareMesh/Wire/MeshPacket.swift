package import NearshareBase

/// What a packet is for (bitchat specification, section 3). Values without a name here are relayed like any other.
package struct MeshPacketType: RawRepresentable, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Who somebody is: names and keys, signed.
    package static let announce = Self(rawValue: 0x01)
    /// A text for everybody.
    package static let message = Self(rawValue: 0x02)
    /// Somebody goes.
    package static let leave = Self(rawValue: 0x03)
    /// Something carried for somebody who is not there.
    package static let courierEnvelope = Self(rawValue: 0x04)
    /// A message of a Noise handshake.
    package static let noiseHandshake = Self(rawValue: 0x10)
    /// Something sealed for one peer.
    package static let noiseEncrypted = Self(rawValue: 0x11)
    /// A part of a packet that was cut.
    package static let fragment = Self(rawValue: 0x20)
    /// Asks for packets that were missed.
    package static let requestSync = Self(rawValue: 0x21)
    /// A file.
    package static let fileTransfer = Self(rawValue: 0x22)
    /// A post on a board.
    package static let boardPost = Self(rawValue: 0x23)
    /// Asks how far somebody is.
    package static let ping = Self(rawValue: 0x26)
    /// Answers a ping.
    package static let pong = Self(rawValue: 0x27)
    /// Something to or from the internet.
    package static let nostrCarrier = Self(rawValue: 0x28)
    /// A part of a voice message for everybody.
    package static let voiceFrame = Self(rawValue: 0x29)
}

/// A packet of the frame path as a value (bitchat specification, section 2).
package struct MeshPacket: Sendable, Hashable {
    /// Of the header.
    package enum Version: UInt8, Sendable {
        /// Payloads up to 65,535 bytes, no route.
        case v1 = 1
        /// With lengths of four bytes and routes.
        case v2 = 2
    }

    /// Packets start with this; larger values are treated as this.
    package static let maximumTTL: UInt8 = 7
    /// The count is one byte.
    package static let maximumHopCount = 255
    /// Of Ed25519.
    package static let signatureByteCount = 64
    /// The largest file packet of 5 MiB, sealed, with its longest name and type.
    package static let maximumPayloadByteCount = 5_242_880 + fileOverheadByteCount
    /// What bitchat on iOS takes; nothing above this reaches a phone.
    package static let phonePayloadByteCount = 1_048_576 + fileOverheadByteCount
    private static let fileOverheadByteCount = 18 + 2 * 65_535 + 96

    /// Of its header.
    package var version: Version
    /// What it is about.
    package var type: MeshPacketType
    /// Hops that it may still make.
    package var ttl: UInt8
    /// Milliseconds since 1970, as the sender's clock tells.
    package var timestamp: UInt64
    /// Who made it.
    package var sender: PeerID
    /// nil, or ``PeerID/everybody``, for everybody.
    package var recipient: PeerID?
    /// The hops between sender and recipient, both left out; in version 2 only.
    package var route: [PeerID]
    /// What it says.
    package var payload: ArraySlice<UInt8>
    /// ``signatureByteCount`` bytes.
    package var signature: [UInt8]?
    /// An old packet, sent because a neighbour asked for what it had missed (RSR).
    package var isSyncResponse: Bool

    /// Puts a packet together.
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

    /// Addressed to one peer. A missing recipient and the one of all ones both mean everybody.
    package var isDirected: Bool { recipient.map { $0 != .everybody } ?? false }
}

extension PeerID {
    /// The recipient that Android writes on packets for everybody; iOS leaves the field out.
    package static let everybody = PeerID(bytes: [UInt8](repeating: 0xff, count: byteCount))!

    /// Fits an id of any length into its field: filled up with zeros on the right, or cut (section 2.3).
    package init(fitting bytes: some Collection<UInt8>) {
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

extension MeshPacketType {
    /// Carried messages, and what their carriers tell each other (`docs/PROTOCOL.md`, section 13). Outside what bitchat uses:
    /// its nodes pass it on unread.
    package static let carry = Self(rawValue: 0x6e)
}
