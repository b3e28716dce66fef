internal import NearshareBase
internal import NearshareCrypto

/// The id of a packet, the same at every node: the first 16 bytes of SHA-256(type, sender, timestamp, payload), without ttl,
/// route and recipient (bitchat specification, section 10).
package struct MeshPacketID: Sendable, Hashable {
    package static let byteCount = 16
    /// Big-endian. A node stores tens of thousands of ids, and an array for each would take three times the memory.
    private let high: UInt64
    private let low: UInt64

    package init(of packet: MeshPacket) {
        var hasher = SHA256Hasher()
        var head = ByteWriter(reserving: 17)
        head.write(packet.type.rawValue)
        head.write(packet.sender.bytes)
        head.write(packet.timestamp)
        head.bytes.withUnsafeBytes { hasher.update($0) }
        packet.payload.withUnsafeBytes { hasher.update($0) }
        self.init(digest: hasher.finalize())
    }

    /// Creates the id from the first 16 bytes of a digest.
    init(digest: [UInt8]) {
        high = UInt64(truncatingBigEndian: digest.prefix(8))
        low = UInt64(truncatingBigEndian: digest.dropFirst(8).prefix(8))
    }

    package var bytes: [UInt8] { withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) } }

    /// The hash of this id in a ``GolombFilter``: 63 bits, as bitchat takes it (specification, section 10).
    package var filterHash: UInt64 {
        UInt64(truncatingBigEndian: SHA256Hasher.digest(bytes).prefix(8)) & UInt64(Int64.max)
    }
}
