internal import NearshareBase
internal import NearshareCrypto

/// Identifies a packet for duplicate detection: by its id, and the fields that the id leaves out although a relay could change
/// them. A copy with another recipient, route, version or signature is not a duplicate, so an attacker cannot suppress the original.
/// Only the ttl and the mark of a sync response may differ: neither is signed.
struct PacketKey: Hashable, Sendable {
    /// Tens of thousands are stored, so each takes 16 bytes.
    private let digest: MeshPacketID

    init(of packet: MeshPacket) { self.init(of: packet, id: MeshPacketID(of: packet)) }

    /// - Parameter id: of the packet.
    init(of packet: MeshPacket, id: MeshPacketID) {
        var bytes = id.bytes
        // Otherwise a packet without a recipient whose signature starts with another packet's recipient would have the same
        // key.
        bytes.append(packet.recipient == nil ? 0 : 1)
        if let recipient = packet.recipient { bytes += recipient.bytes }
        if let signature = packet.signature { bytes += signature }
        // Each has eight bytes, so the last one tells a route from a signature.
        for hop in packet.route { bytes += hop.bytes }
        bytes += [packet.version.rawValue, UInt8(clamping: packet.route.count)]
        digest = MeshPacketID(digest: SHA256Hasher.digest(bytes))
    }
}
