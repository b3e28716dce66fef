package import NearshareBase
internal import NearshareCrypto

/// A packet with the bytes that encoded it. Relays change only the ttl in them, so that the signature stays valid.
package struct MeshFrame: Sendable, Hashable {
    package let packet: MeshPacket
    /// The frame from the version to the last field, without padding.
    package let bytes: ArraySlice<UInt8>
    /// The compressed payload; nil where it was not compressed.
    private let deflated: ArraySlice<UInt8>?

    /// Encodes a packet of this node.
    package init(_ packet: MeshPacket, using compressor: inout PayloadCompressor) throws(MalformedInput) {
        self.packet = packet
        bytes = try packet.encoded(using: &compressor)[...]
        deflated = nil
    }

    /// Encodes a packet of this node, with a compressor for it alone.
    package init(_ packet: MeshPacket) throws(MalformedInput) {
        var compressor = PayloadCompressor()
        try self.init(packet, using: &compressor)
    }

    /// Decodes a frame, ignoring bytes after the last field. Only when that fails is padding removed (section 2.4), as a packet
    /// without it may end in bytes that look like padding.
    /// - Parameter payloadLimit: a larger payload is rejected before it is decompressed.
    package init(
        decoding bytes: ArraySlice<UInt8>, payloadLimit: Int = MeshPacket.maximumPayloadByteCount
    ) throws(MalformedInput) {
        do {
            self = try Self.decode(bytes, payloadLimit: payloadLimit)
        } catch {
            let unpadded = MeshPadding.unpadded(bytes)
            guard unpadded.count < bytes.count else { throw error }
            self = try Self.decode(unpadded, payloadLimit: payloadLimit)
        }
    }

    private init(packet: MeshPacket, bytes: ArraySlice<UInt8>, deflated: ArraySlice<UInt8>?) {
        self.packet = packet
        self.bytes = bytes
        self.deflated = deflated
    }

    private static func decode(_ bytes: ArraySlice<UInt8>, payloadLimit: Int) throws(MalformedInput) -> MeshFrame {
        var reader = ByteReader(bytes, of: "packet")
        guard let version = MeshPacket.Version(rawValue: try reader.readInteger()) else {
            throw MalformedInput("packet: an unknown version")
        }
        let type = MeshPacketType(rawValue: try reader.readInteger())
        let ttl: UInt8 = try reader.readInteger()
        let timestamp: UInt64 = try reader.readInteger()
        let flags: UInt8 = try reader.readInteger()
        let length = version == .v1 ? Int(try reader.readInteger(UInt16.self)) : Int(try reader.readInteger(UInt32.self))
        guard length <= payloadLimit else { throw MalformedInput("packet: a payload of more than \(payloadLimit) bytes") }
        let sender = PeerID(fitting: try reader.readBytes(PeerID.byteCount))
        let recipient = flags & MeshFlag.recipient == 0 ? nil : PeerID(fitting: try reader.readBytes(PeerID.byteCount))
        var route: [PeerID] = []
        if version == .v2, flags & MeshFlag.route != 0 {
            let count = Int(try reader.readInteger(UInt8.self))
            for _ in 0..<count { route.append(PeerID(fitting: try reader.readBytes(PeerID.byteCount))) }
        }
        var body = try reader.readBytes(length)
        let signature = flags & MeshFlag.signature == 0 ? nil : Array(try reader.readBytes(MeshPacket.signatureByteCount))
        let frame = bytes.prefix(bytes.count - reader.remaining)

        var deflated: ArraySlice<UInt8>?
        if flags & MeshFlag.compressed != 0 {
            var sizes = ByteReader(body, of: "compressed payload")
            let size = version == .v1 ? Int(try sizes.readInteger(UInt16.self)) : Int(try sizes.readInteger(UInt32.self))
            let stream = sizes.readRemaining()
            guard (1...payloadLimit).contains(size) else { throw MalformedInput("packet: an original size out of bounds") }
            body = try Deflate.inflated(stream, to: size)[...]
            deflated = stream
        }
        return MeshFrame(
            packet: MeshPacket(
                version: version, type: type, ttl: ttl, timestamp: timestamp, sender: sender, recipient: recipient,
                route: route,
                payload: body, signature: signature, isSyncResponse: flags & MeshFlag.syncResponse != 0),
            bytes: frame, deflated: deflated)
    }

    /// Whether an encoded frame is neither compressed nor a fragment, which may complete a compressed packet: receiving it costs no
    /// more than its bytes.
    package static func isPlain(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count > flagsIndex else { return false }
        return !isCompressed(bytes) && bytes[bytes.startIndex + typeIndex] != MeshPacketType.fragment.rawValue
    }

    /// Whether an encoded frame was made by the neighbour that sent it, and is not sealed: it has the ttl of a new packet, and no
    /// relay forwards one without lowering that. False also for sync requests, challenges and their answers, whose ttl is 0 or 1.
    static func isUnrelayed(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count > ttlIndex else { return false }
        return bytes[bytes.startIndex + ttlIndex] >= MeshPacket.maximumTTL
            && bytes[bytes.startIndex + typeIndex] != MeshPacketType.noiseEncrypted.rawValue
    }

    /// The bytes that decoding an encoded frame has cost: those of a compressed payload count after decompression, and where that
    /// has failed with as many as it may have made (R2).
    /// - Parameter frame: the result; nil when the frame was malformed.
    static func decodedByteCount(of bytes: ArraySlice<UInt8>, _ frame: MeshFrame?) -> Int {
        if let frame { return max(bytes.count, frame.packet.payload.count) }
        guard isCompressed(bytes) else { return bytes.count }
        let isShort = bytes.first == MeshPacket.Version.v1.rawValue
        let limit = isShort ? Int(UInt16.max) : MeshPacket.maximumPayloadByteCount
        return max(bytes.count, min(limit, bytes.count * Deflate.maximumStreamRatio))
    }

    /// Whether the header of an encoded frame says that its payload is compressed.
    static func isCompressed(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count > flagsIndex && bytes[bytes.startIndex + flagsIndex] & MeshFlag.compressed != 0
    }

    /// Memory of the frame. A payload that was compressed is held besides the bytes that it was decompressed from (R2).
    var heldByteCount: Int { bytes.count + (deflated == nil ? 0 : packet.payload.count) }

    /// The frame with another ttl, the only field that a relay may change.
    package func bytes(withTTL ttl: UInt8) -> [UInt8] {
        var copy = Array(bytes)
        copy[Self.ttlIndex] = ttl
        return copy
    }

    /// The frame for relaying. A mark of a sync response is removed: it is not signed, and no answer is relayed.
    func relayedBytes(withTTL ttl: UInt8) -> [UInt8] {
        var copy = bytes(withTTL: ttl)
        copy[Self.flagsIndex] &= ~MeshFlag.syncResponse
        return copy
    }

    /// Positions in the encoding of a packet.
    private static let typeIndex = 1
    static let ttlIndex = 2
    private static let flagsIndex = 11

    /// The byte strings that the sender may have signed, most likely first: one where the payload is too short to compress;
    /// otherwise one for the received compressed bytes, if any, and one for each compressor in use (section 2.7).
    package func signingPreimages(using compressor: inout PayloadCompressor) -> [[UInt8]] {
        var compressions = receivedCompression.map { [$0] } ?? []
        if recompressedByteCount != nil { compressions += Self.signingLevels.map { MeshPacket.Compression.level($0) } }
        var preimages: [[UInt8]] = []
        for compression in compressions {
            guard let preimage = try? packet.signingPreimage(compression: compression, using: &compressor),
                !preimages.contains(preimage)
            else { continue }
            preimages.append(preimage)
        }
        return preimages
    }

    /// The byte strings that the sender may have signed, with a compressor for this frame alone.
    package var signingPreimages: [[UInt8]] {
        var compressor = PayloadCompressor()
        return signingPreimages(using: &compressor)
    }

    /// The compression with which the payload was received; nil where its sender may have left it out, so that the signature
    /// covers another one.
    private var receivedCompression: MeshPacket.Compression? {
        if let deflated { return .deflated(deflated) }
        return Deflate.isCompressible(packet.payload) ? nil : MeshPacket.Compression.none
    }

    /// The compression levels with which phones and nearshare sign.
    private static let signingLevels = [5, 6]
}

extension MeshFrame {
    /// The size of the payload that has to be compressed to find other bytes which the sender may have signed than those received,
    /// 0 where it stays as it is; nil where there are no others.
    var recompressedByteCount: Int? {
        guard Deflate.isCompressible(packet.payload) else { return deflated == nil ? nil : 0 }
        return packet.payload.count
    }

    /// Whether the packet carries a valid signature by this key of the bytes that were received, so that none are compressed.
    func isSignedAsReceived(by key: SigningPublicKey, using compressor: inout PayloadCompressor) -> Bool {
        guard let signature = packet.signature, let compression = receivedCompression,
            let preimage = try? packet.signingPreimage(compression: compression, using: &compressor)
        else { return false }
        return key.isValid(signature, for: preimage)
    }

    /// Whether the packet carries a valid signature by this key of what another compressor makes of the payload. It costs much
    /// more than a signature where the payload is large (M20).
    func isSignedRecompressed(by key: SigningPublicKey, using compressor: inout PayloadCompressor) -> Bool {
        guard let signature = packet.signature else { return false }
        var checked: [UInt8]?
        for level in Self.signingLevels {
            guard let preimage = try? packet.signingPreimage(compression: .level(level), using: &compressor),
                preimage != checked
            else { continue }
            if key.isValid(signature, for: preimage) { return true }
            checked = preimage
        }
        return false
    }
}
