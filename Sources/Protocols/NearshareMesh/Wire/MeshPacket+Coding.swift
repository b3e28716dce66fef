package import NearshareBase

// The encoding of a packet (bitchat specification, section 2.1):
//
//     version u8 · type u8 · ttl u8 · timestamp u64 · flags u8 · payload length u16 or u32 · sender 8 ·
//     [recipient 8] · [hop count u8 · hops 8 each] · [original size u16 or u32] · payload · [signature 64]
//
// The payload length counts the original size and the payload. Padding may follow the last field.

extension MeshPacket {
    /// How the payload is compressed when a packet is encoded.
    package enum Compression: Sendable {
        /// Compressed at this level where that makes it shorter (section 2.6).
        case level(Int)
        /// Not compressed. For packets that are not signed, such as fragments: their content was compressed before, so a second
        /// attempt takes time and gains nothing.
        case none
        /// Replaced by these bytes, which another encoder has compressed.
        case deflated(ArraySlice<UInt8>)

        /// The equivalent that Apple documents, and so what an iPhone produces when it compresses a payload to check a
        /// signature.
        package static let standard = Compression.level(5)
    }

    /// - Parameter isPadded: whether to pad to a block size, as for signing and for the types of ``isPaddedOnAir``.
    /// - Throws: ``MalformedInput`` for a payload over 65,535 bytes in version 1, or more than 255 hops.
    package func encoded(isPadded: Bool = false, compression: Compression = .standard) throws(MalformedInput) -> [UInt8] {
        var flags: UInt8 = 0
        if recipient != nil { flags |= MeshFlag.recipient }
        if signature != nil { flags |= MeshFlag.signature }
        if isSyncResponse { flags |= MeshFlag.syncResponse }
        // Version 1 has no field for a route.
        let route = version == .v2 ? self.route : []
        guard route.count <= Self.maximumHopCount else { throw MalformedInput("packet: a route of more than 255 hops") }
        if !route.isEmpty { flags |= MeshFlag.route }

        let deflated = deflated(compression)
        let body = deflated ?? payload
        let sizeField = version == .v1 ? 2 : 4
        if deflated != nil { flags |= MeshFlag.compressed }
        let length = body.count + (deflated == nil ? 0 : sizeField)
        // The original size of a compressed payload has a field as wide as the length.
        let largest = deflated == nil ? length : max(length, payload.count)
        guard largest <= (version == .v1 ? 65_535 : Int(UInt32.max)) else {
            throw MalformedInput("packet: a payload of \(largest) bytes needs version 2")
        }

        var writer = ByteWriter(reserving: 16 + 8 + 8 + 1 + 8 * route.count + length + 64 + (isPadded ? 256 : 0))
        writer.write(version.rawValue)
        writer.write(type.rawValue)
        writer.write(ttl)
        writer.write(timestamp)
        writer.write(flags)
        if version == .v1 { writer.write(UInt16(length)) } else { writer.write(UInt32(length)) }
        writer.write(sender.bytes)
        if let recipient { writer.write(recipient.bytes) }
        if !route.isEmpty {
            writer.write(UInt8(route.count))
            for hop in route { writer.write(hop.bytes) }
        }
        if deflated != nil {
            if version == .v1 { writer.write(UInt16(payload.count)) } else { writer.write(UInt32(payload.count)) }
        }
        writer.write(body)
        if let signature {
            precondition(signature.count == Self.signatureByteCount)
            writer.write(signature)
        }
        return isPadded ? MeshPadding.padded(writer.bytes) : writer.bytes
    }

    private func deflated(_ compression: Compression) -> ArraySlice<UInt8>? {
        switch compression {
        case .none: return nil
        case .deflated(let bytes): return bytes
        case .level(let level):
            guard version == .v2 || payload.count <= 65_535, Deflate.isCompressible(payload),
                let shorter = Deflate.compressed(payload, level: level), shorter.count < payload.count
            else { return nil }
            return shorter[...]
        }
    }

    /// The bytes that the sender signs (section 2.7): the packet encoded with a ttl of 0, without signature and RSR, padded.
    ///
    /// For a compressed payload they depend on the compressor; ``MeshFrame/signingPreimages`` lists those in use.
    package func signingPreimage(compression: Compression = .standard) throws(MalformedInput) -> [UInt8] {
        var packet = self
        packet.ttl = 0
        packet.signature = nil
        packet.isSyncResponse = false
        return try packet.encoded(isPadded: true, compression: compression)
    }

    /// Whether the packet is padded on a link: handshakes and sealed packets are, others are not (section 2.5).
    package var isPaddedOnAir: Bool { type == .noiseHandshake || type == .noiseEncrypted }
}

/// A packet with the bytes that encoded it. Relays change only the ttl in them, so that the signature stays valid.
package struct MeshFrame: Sendable, Hashable {
    package let packet: MeshPacket
    /// The frame from the version to the last field, without padding.
    package let bytes: ArraySlice<UInt8>
    /// The compressed payload; nil where it was not compressed.
    private let deflated: ArraySlice<UInt8>?

    /// Encodes a packet of this node.
    package init(_ packet: MeshPacket) throws(MalformedInput) {
        self.packet = packet
        bytes = try packet.encoded()[...]
        deflated = nil
    }

    /// Decodes a frame, ignoring bytes after the last field. Only when that fails is padding removed (section 2.4), as a packet
    /// without it may end in bytes that look like padding.
    /// - Parameter payloadLimit: a larger payload is refused before it is decompressed.
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

    /// The frame with another ttl, the only byte that a relay may change.
    package func bytes(withTTL ttl: UInt8) -> [UInt8] {
        var copy = Array(bytes)
        copy[2] = ttl
        return copy
    }

    /// The byte strings that the sender may have signed, most likely first: one for an uncompressed payload, otherwise one for
    /// each compressor in use (section 2.7).
    package var signingPreimages: [[UInt8]] {
        let ways: [MeshPacket.Compression] =
            deflated.map { [.deflated($0), .level(5), .level(6)] }
            ?? (Deflate.isCompressible(packet.payload) ? [.level(5), .level(6)] : [.standard])
        var preimages: [[UInt8]] = []
        for way in ways {
            guard let preimage = try? packet.signingPreimage(compression: way), !preimages.contains(preimage) else { continue }
            preimages.append(preimage)
        }
        return preimages
    }
}
