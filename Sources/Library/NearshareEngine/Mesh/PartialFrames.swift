internal import NearshareMesh

/// Bytes of frames that have not arrived as a whole, on all links to the mesh (R1). A frame is held until its last byte has come:
/// many links with large ones would use up the memory. Neighbours send small ones, as streams carry fragments of 16 KiB.
struct PartialFrames: Sendable {
    private struct Link: Sendable {
        var address: String
        var byteCount: Int
    }

    /// Bytes of all links.
    static let capacity = 16 << 20
    /// Bytes of the links of one address: more than the largest frame.
    static let capacityPerAddress = 8 << 20

    private var links: [MeshLinkID: Link] = [:]

    /// The bytes that are held.
    var byteCount: Int { links.values.reduce(0) { $0 + $1.byteCount } }

    /// Records how much of its last frame a link holds.
    /// - Returns: the link to close, which holds most of those that are too many; nil for none.
    mutating func record(_ byteCount: Int, on link: MeshLinkID, from address: String) -> MeshLinkID? {
        links[link] = byteCount > 0 ? Link(address: address, byteCount: byteCount) : nil
        var candidates = links.filter { $0.value.address == address }
        if candidates.values.reduce(0, { $0 + $1.byteCount }) <= Self.capacityPerAddress {
            guard self.byteCount > Self.capacity else { return nil }
            candidates = links
        }
        // The newest where several hold as much.
        let largest = candidates.max { ($0.value.byteCount, $0.key.rawValue) < ($1.value.byteCount, $1.key.rawValue) }?.key
        if let largest { remove(largest) }
        return largest
    }

    /// Removes a link that has ended.
    mutating func remove(_ link: MeshLinkID) { links[link] = nil }
}
