package import NearshareBase

/// One slice of an encoded packet (bitchat specification, section 6.1): id 8 · index u16 · total u16 · type u8 · slice.
package struct MeshFragment: Sendable, Hashable {
    /// The id of a set of fragments, drawn at random by the node that cuts the packet.
    package struct ID: Sendable, Hashable {
        package static let byteCount = 8
        package let rawValue: UInt64

        package init(rawValue: UInt64) {
            self.rawValue = rawValue
        }

        /// - Returns: nil for anything but 8 bytes.
        package init?(bytes: some Collection<UInt8>) {
            guard bytes.count == Self.byteCount else { return nil }
            rawValue = UInt64(truncatingBigEndian: bytes)
        }

        /// ``byteCount`` bytes.
        package var bytes: [UInt8] { withUnsafeBytes(of: rawValue.bigEndian) { Array($0) } }

        /// The id in 16 lower-case hexadecimal digits.
        package var hex: String { Hex.encode(bytes) }
    }

    /// Limit on the fragments of one packet: iOS reassembles at most so many.
    package static let maximumCount = 10_000
    static let headerByteCount = 13

    /// The set that the fragment belongs to.
    package var id: ID
    /// The index, from 0, below ``total``.
    package var index: Int
    /// 1 to ``maximumCount``.
    package var total: Int
    /// The type of the whole packet; a claim until that is reassembled.
    package var originalType: MeshPacketType
    package var slice: ArraySlice<UInt8>

    /// Decodes a packet's payload.
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "fragment")
        id = ID(rawValue: try reader.readInteger())
        index = Int(try reader.readInteger(UInt16.self))
        total = Int(try reader.readInteger(UInt16.self))
        originalType = MeshPacketType(rawValue: try reader.readInteger())
        slice = reader.readRemaining()
        guard (1...Self.maximumCount).contains(total) else { throw MalformedInput("fragment: a total of \(total)") }
        guard index < total else { throw MalformedInput("fragment: an index beyond the total") }
    }

    init(id: ID, index: Int, total: Int, originalType: MeshPacketType, slice: ArraySlice<UInt8>) {
        self.id = id
        self.index = index
        self.total = total
        self.originalType = originalType
        self.slice = slice
    }

    var encoded: [UInt8] {
        var writer = ByteWriter(reserving: Self.headerByteCount + slice.count)
        writer.write(id.rawValue)
        writer.write(UInt16(clamping: index))
        writer.write(UInt16(clamping: total))
        writer.write(originalType.rawValue)
        writer.write(slice)
        return writer.bytes
    }
}
