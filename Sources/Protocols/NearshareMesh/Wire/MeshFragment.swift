package import NearshareBase

/// One slice of an encoded packet (bitchat specification, section 6.1): id 8 · index u16 · total u16 · type u8 · slice.
package struct MeshFragment: Sendable, Hashable {
    /// The id of a set of fragments, drawn at random by the node that cuts the packet.
    package struct ID: Sendable, Hashable {
        package static let byteCount = 8
        /// ``byteCount`` bytes.
        package let bytes: [UInt8]

        /// - Returns: nil for anything but 8 bytes.
        package init?(bytes: some Collection<UInt8>) {
            guard bytes.count == Self.byteCount else { return nil }
            self.bytes = Array(bytes)
        }

        /// The id in 16 lower-case hexadecimal digits.
        package var hex: String { Hex.encode(bytes) }
    }

    /// Limit of iOS on fragments of one packet, and so for every sender.
    package static let maximumCount = 10_000
    static let headerByteCount = 13

    /// The set that the fragment belongs to.
    package var id: ID
    /// From 0, below ``total``.
    package var index: Int
    /// 1 to ``maximumCount``.
    package var total: Int
    /// The type of the whole packet; a claim until that is reassembled.
    package var originalType: MeshPacketType
    package var slice: ArraySlice<UInt8>

    /// Decodes a packet's payload.
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "fragment")
        id = ID(bytes: try reader.readBytes(ID.byteCount))!
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
        writer.write(id.bytes)
        writer.write(UInt16(index))
        writer.write(UInt16(total))
        writer.write(originalType.rawValue)
        writer.write(slice)
        return writer.bytes
    }
}

/// A packet cut into fragments, each of which is encoded on demand (section 6.2).
package struct MeshFragmentation: Sendable {
    package let id: MeshFragment.ID
    /// Number of fragments.
    package let count: Int
    /// Size of each slice but the last, in bytes.
    package let chunkByteCount: Int
    private let original: MeshPacket
    private let frame: [UInt8]

    /// - Parameters:
    ///   - frame: the encoded packet, which is cut as it is.
    ///   - chunkByteCount: size of each slice but the last; see ``chunkByteCount(forLargestWrite:route:)``.
    /// - Throws: ``MalformedInput`` for more than ``MeshFragment/maximumCount`` fragments.
    package init(
        _ original: MeshPacket, frame: [UInt8], id: MeshFragment.ID, chunkByteCount: Int
    ) throws(MalformedInput) {
        precondition(chunkByteCount > 0 && !frame.isEmpty)
        let count = (frame.count + chunkByteCount - 1) / chunkByteCount
        guard count <= MeshFragment.maximumCount else {
            throw MalformedInput(
                "\(count) fragments are more than the \(MeshFragment.maximumCount) that peers put together; send a smaller file"
            )
        }
        self.id = id
        self.count = count
        self.chunkByteCount = chunkByteCount
        self.frame = frame
        var original = original
        original.payload = []
        original.signature = nil
        self.original = original
    }

    /// The fragment at `index`. It copies sender, recipient, ttl, timestamp, route and RSR, and is not signed.
    package subscript(index: Int) -> MeshPacket {
        precondition((0..<count).contains(index))
        let start = index * chunkByteCount
        let slice = frame[start..<min(frame.count, start + chunkByteCount)]
        var packet = original
        packet.version = original.route.isEmpty ? .v1 : .v2
        packet.type = .fragment
        packet.payload =
            MeshFragment(id: id, index: index, total: count, originalType: original.type, slice: slice).encoded[...]
        return packet
    }

    /// The largest slice with which a fragment's frame fits into one write: 454 bytes for a write of 512. 15 bytes stay free,
    /// because Android assumes a header that much longer.
    package static func chunkByteCount(forLargestWrite largestWrite: Int, route: [PeerID] = []) -> Int {
        let routeField = route.isEmpty ? 0 : 2 + 1 + PeerID.byteCount * route.count
        return max(64, largestWrite - MeshFragment.headerByteCount - 14 - 2 * PeerID.byteCount - 15 - routeField)
    }
}
