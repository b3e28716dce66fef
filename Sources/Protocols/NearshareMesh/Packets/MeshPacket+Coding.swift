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

    /// - Parameter isPadded: whether to pad to a block size, as for signing and for the types of ``isPaddedOnWire``.
    /// - Throws: ``MalformedInput`` for a payload over 65,535 bytes in version 1, or more than 255 hops.
    package func encoded(
        isPadded: Bool = false, compression: Compression = .standard, using compressor: inout PayloadCompressor
    ) throws(MalformedInput) -> [UInt8] {
        var flags: UInt8 = 0
        if recipient != nil { flags |= MeshFlag.recipient }
        if signature != nil { flags |= MeshFlag.signature }
        if isSyncResponse { flags |= MeshFlag.syncResponse }
        // Version 1 has no field for a route.
        let route = version == .v2 ? self.route : []
        guard route.count <= Self.maximumHopCount else { throw MalformedInput("packet: a route of more than 255 hops") }
        if !route.isEmpty { flags |= MeshFlag.route }

        let deflated = deflated(compression, using: &compressor)
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
        if version == .v1 { writer.write(UInt16(clamping: length)) } else { writer.write(UInt32(clamping: length)) }
        writer.write(sender.bytes)
        if let recipient { writer.write(recipient.bytes) }
        if !route.isEmpty {
            writer.write(UInt8(clamping: route.count))
            for hop in route { writer.write(hop.bytes) }
        }
        if deflated != nil {
            if version == .v1 {
                writer.write(UInt16(clamping: payload.count))
            } else {
                writer.write(UInt32(clamping: payload.count))
            }
        }
        writer.write(body)
        if let signature {
            // Safe: signatures are made here, or read with this size.
            precondition(signature.count == Self.signatureByteCount)
            writer.write(signature)
        }
        return isPadded ? MeshPadding.padded(writer.bytes) : writer.bytes
    }

    /// Encodes with a compressor for this packet alone.
    package func encoded(isPadded: Bool = false, compression: Compression = .standard) throws(MalformedInput) -> [UInt8] {
        var compressor = PayloadCompressor()
        return try encoded(isPadded: isPadded, compression: compression, using: &compressor)
    }

    private func deflated(_ compression: Compression, using compressor: inout PayloadCompressor) -> ArraySlice<UInt8>? {
        switch compression {
        case .none: return nil
        case .deflated(let bytes): return bytes
        case .level(let level):
            guard version == .v2 || payload.count <= 65_535, Deflate.isCompressible(payload),
                let shorter = compressor.compress(payload, level: level), shorter.count < payload.count
            else { return nil }
            return shorter[...]
        }
    }

    /// The bytes that the sender signs (section 2.7): the packet encoded with a ttl of 0, without signature and RSR, padded.
    ///
    /// The bytes of a compressed payload depend on the compressor; ``MeshFrame/signingPreimages(using:)`` lists those in use.
    package func signingPreimage(
        compression: Compression = .standard, using compressor: inout PayloadCompressor
    ) throws(MalformedInput) -> [UInt8] {
        var packet = self
        packet.ttl = 0
        packet.signature = nil
        packet.isSyncResponse = false
        return try packet.encoded(isPadded: true, compression: compression, using: &compressor)
    }

    /// The bytes that the sender signs, with a compressor for this packet alone.
    package func signingPreimage(compression: Compression = .standard) throws(MalformedInput) -> [UInt8] {
        var compressor = PayloadCompressor()
        return try signingPreimage(compression: compression, using: &compressor)
    }

    /// Whether the packet is padded on a link: handshakes and sealed packets are, others are not (section 2.5).
    package var isPaddedOnWire: Bool { type == .noiseHandshake || type == .noiseEncrypted }
}
