package import NearshareBase

/// A packet cut into fragments, each of which is encoded on demand (bitchat specification, section 6.2).
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
        // Safe: chunk sizes have a lower bound, and a frame holds its header at least.
        precondition(chunkByteCount > 0 && !frame.isEmpty)
        let count = (frame.count + chunkByteCount - 1) / chunkByteCount
        guard count <= MeshFragment.maximumCount else {
            throw MalformedInput(
                "\(count) fragments are more than the \(MeshFragment.maximumCount) that peers put together"
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

    /// The fragment at `index`. It copies sender, recipient, ttl, timestamp, route and the mark of a sync response, and is not signed.
    package subscript(index: Int) -> MeshPacket {
        // Safe: the scheduler counts from 0 to the number of fragments.
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

    /// The largest slice with which a fragment's frame fits into one write: 454 bytes for a write of 512. 15 bytes stay free where
    /// there is room, because Android assumes a header that much longer.
    /// - Parameter maximumFrameByteCount: at least ``MeshLinkProfile/smallestWrite``.
    package static func chunkByteCount(forLargestWrite maximumFrameByteCount: Int) -> Int {
        let payloadByteCount = maximumFrameByteCount - headerByteCount
        return max(payloadByteCount - androidReserve, min(leastChunk, payloadByteCount))
    }

    /// The largest slice of a packet with a source route, which each fragment repeats.
    /// - Returns: nil where the route takes more than half of the slice: fragments with it would multiply the bytes (M17).
    package static func chunkByteCount(forLargestWrite maximumFrameByteCount: Int, route: [PeerID]) -> Int? {
        let chunk = chunkByteCount(forLargestWrite: maximumFrameByteCount)
        guard !route.isEmpty else { return chunk }
        // The longer length field of version 2, the number of hops, and the hops.
        let rest = chunk - (2 + 1 + PeerID.byteCount * route.count)
        return rest >= chunk / 2 ? rest : nil
    }

    /// The fields of a fragment, and those of a packet of version 1 with sender and recipient.
    private static let headerByteCount = MeshFragment.headerByteCount + 14 + 2 * PeerID.byteCount
    private static let androidReserve = 15
    private static let leastChunk = 64
}
