package import NearshareBase

/// A message inside a Noise session of the mesh: one byte for the kind, then the body (bitchat specification, section 9).
package enum MeshNoisePayload: Sendable, Hashable {
    case privateMessage(MeshPrivateMessage)
    /// Receipt for a message that the user has read.
    case readReceipt(messageID: String)
    /// Receipt for a message that was received.
    case delivered(messageID: String)
    /// A part of a live voice message.
    case voiceFrame(MeshVoiceBurst)
    /// Asks the peer to prove that it holds its keys.
    case verifyChallenge(MeshVerification.Challenge)
    /// Proves that the peer holds its keys.
    case verifyResponse(MeshVerification.Response)
    /// An encoded ``MeshFile``.
    case file(ArraySlice<UInt8>)
    /// The peer's capabilities and signing key.
    case peerState(MeshPeerState)
    /// nearshare's own (`docs/PROTOCOL.md`, section 10); only for peers with ``MeshCapabilities/fileOffers``.
    case fileControl(MeshFileControl)

    /// - Throws: ``MalformedInput`` also for unknown kinds, which are to be ignored silently.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        guard let kind = bytes.first else { throw MalformedInput("private payload: it is empty") }
        let body = bytes.dropFirst()
        switch kind {
        case Kind.privateMessage: self = .privateMessage(try MeshPrivateMessage(decoding: body))
        case Kind.readReceipt: self = .readReceipt(messageID: try Self.messageID(body))
        case Kind.delivered: self = .delivered(messageID: try Self.messageID(body))
        case Kind.voiceFrame: self = .voiceFrame(try MeshVoiceBurst(decoding: body))
        case Kind.verifyChallenge: self = .verifyChallenge(try MeshVerification.Challenge(decoding: body))
        case Kind.verifyResponse: self = .verifyResponse(try MeshVerification.Response(decoding: body))
        case Kind.file, Kind.fileAlias: self = .file(body)
        case Kind.peerState: self = .peerState(try MeshPeerState(decoding: body))
        case Kind.fileControl: self = .fileControl(try MeshFileControl(decoding: body))
        default: throw MalformedInput("private payload: an unknown kind")
        }
    }

    /// - Throws: ``MalformedInput`` where a text does not fit into its field.
    package func encoded() throws(MalformedInput) -> [UInt8] {
        switch self {
        case .privateMessage(let message): [Kind.privateMessage] + (try message.encoded())
        case .readReceipt(let id): [Kind.readReceipt] + Array(id.utf8)
        case .delivered(let id): [Kind.delivered] + Array(id.utf8)
        case .voiceFrame(let burst): [Kind.voiceFrame] + burst.encoded
        case .verifyChallenge(let challenge): [Kind.verifyChallenge] + (try challenge.encoded())
        case .verifyResponse(let response): [Kind.verifyResponse] + (try response.encoded())
        case .file(let bytes): [Kind.file] + bytes
        case .peerState(let state): [Kind.peerState] + state.encoded
        case .fileControl(let control): [Kind.fileControl] + control.encoded
        }
    }

    private static func messageID(_ body: ArraySlice<UInt8>) throws(MalformedInput) -> String {
        guard body.count <= 255, let id = String(validating: body, as: UTF8.self) else {
            throw MalformedInput("receipt: the id is not a text of at most 255 bytes")
        }
        return id
    }

    private enum Kind {
        static let privateMessage: UInt8 = 0x01
        static let readReceipt: UInt8 = 0x02
        static let delivered: UInt8 = 0x03
        static let voiceFrame: UInt8 = 0x08
        static let fileAlias: UInt8 = 0x09
        static let verifyChallenge: UInt8 = 0x10
        static let verifyResponse: UInt8 = 0x11
        static let file: UInt8 = 0x20
        static let peerState: UInt8 = 0x21
        static let fileControl: UInt8 = 0x7e
    }
}

/// A text for one peer (section 9.1).
package struct MeshPrivateMessage: Sendable, Hashable {
    /// Limit on the text; a longer one has to be split.
    package static let maximumTextByteCount = 255

    /// The message id, by convention an upper-case UUID.
    package var id: String
    package var text: String

    package init(id: String, text: String) {
        self.id = id
        self.text = text
    }

    /// - Throws: ``MalformedInput`` when either is longer than 255 bytes.
    package func encoded() throws(MalformedInput) -> [UInt8] {
        var fields = TLVFields(of: "private message")
        try fields.append(0x00, id.utf8)
        try fields.append(0x01, text.utf8)
        return fields.bytes
    }

    /// Accepts both fields in any order; the last of a kind counts, and any other field makes the message invalid.
    package init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
        var values: [String?] = [nil, nil]
        for (kind, value) in try TLVFields.decode(body, of: "private message") {
            guard kind < 2, let text = String(validating: value, as: UTF8.self) else {
                throw MalformedInput("private message: an unknown field")
            }
            values[Int(kind)] = text
        }
        guard let id = values[0], let text = values[1] else { throw MalformedInput("private message: a field is missing") }
        self.init(id: id, text: text)
    }
}

/// The statement of a peer about itself inside a session, which outranks its announcements (section 9.3).
package struct MeshPeerState: Sendable, Hashable {
    package var capabilities: MeshCapabilities
    /// An Ed25519 public key, 32 bytes.
    package var signingKey: [UInt8]
    /// The number of fragments from which it reassembles one packet, at least 1; nil where it does not say.
    package var fragmentLimit: UInt16?

    package init(capabilities: MeshCapabilities, signingKey: [UInt8], fragmentLimit: UInt16? = nil) {
        self.capabilities = capabilities
        self.signingKey = signingKey
        self.fragmentLimit = fragmentLimit
    }

    /// The body, which follows the kind in the payload.
    package var encoded: [UInt8] {
        let flags = capabilities.encoded
        let limit = fragmentLimit.map { [0x03, 0x02] + $0.bigEndianBytes } ?? []
        return [Self.version, 0x01, UInt8(clamping: flags.count)] + flags + [0x02, UInt8(clamping: signingKey.count)]
            + signingKey + limit
    }

    /// Requires capabilities, minimal ones, and the key exactly once, and no trailing byte. A limit that is malformed or repeated
    /// is none.
    package init(decoding body: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(body, of: "peer state")
        guard try reader.readInteger(UInt8.self) == Self.version else { throw MalformedInput("peer state: an unknown version") }
        var capabilities: MeshCapabilities?
        var signingKey: [UInt8]?
        var limits: [UInt16?] = []
        while reader.remaining > 0 {
            let kind: UInt8 = try reader.readInteger()
            let value = try reader.readCounted(by: UInt8.self, upTo: 255, field: "a field")
            switch kind {
            case 0x01:
                let isMinimal = (1...8).contains(value.count) && (value.count == 1 || value.last != 0)
                guard capabilities == nil, isMinimal else { throw MalformedInput("peer state: malformed capabilities") }
                capabilities = MeshCapabilities(littleEndian: value)
            case 0x02:
                guard signingKey == nil, value.count == 32 else { throw MalformedInput("peer state: a malformed key") }
                signingKey = Array(value)
            case 0x03:
                // Safe: nil for any other number of bytes than two.
                let limit = UInt16(bigEndianBytes: value)
                limits.append(limit == 0 ? nil : limit)
            default: continue
            }
        }
        guard let capabilities, let signingKey else { throw MalformedInput("peer state: a field is missing") }
        self.init(
            capabilities: capabilities, signingKey: signingKey, fragmentLimit: limits.count == 1 ? limits[0] : nil)
    }

    private static let version: UInt8 = 1
}
