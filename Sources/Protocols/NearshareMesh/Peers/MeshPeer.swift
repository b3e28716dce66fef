package import NearshareBase

/// A node of the mesh as it announced itself. The node's key has signed the announcement, but is not authenticated until there
/// is a session.
package struct MeshPeer: Sendable, Hashable {
    /// The software of a node, recognised by its capabilities. It determines how much may be sent to it.
    package enum Software: Sendable, Hashable {
        case nearshare
        case bitchatOnIOS
        case bitchatOnAndroid
        case other

        init(_ capabilities: MeshCapabilities?) {
            switch capabilities {
            case let flags? where flags.contains(.fileOffers): self = .nearshare
            case let flags? where flags.contains([.prekeys, .groups, .vouch]): self = .bitchatOnIOS
            // Whatever else a later version supports: it seals media, and has no receipts for them, unlike iOS.
            case let flags? where flags.contains(.privateMedia) && !flags.contains(.privateMediaReceipts):
                self = .bitchatOnAndroid
            default: self = .other
            }
        }

        /// Limit on the content of a file, in bytes.
        package var contentLimit: Int {
            switch self {
            case .bitchatOnIOS: 1_048_576
            // 256 fragments, less name, seal and header.
            case .bitchatOnAndroid: 115_000
            case .nearshare, .other: MeshFile.maximumContentByteCount
            }
        }

        /// Limit on the fragments of one packet.
        package var fragmentLimit: Int { self == .bitchatOnAndroid ? 256 : MeshFragment.maximumCount }

        /// Whether the software only handles fragments of a radio's size.
        var isPhone: Bool { self == .bitchatOnIOS || self == .bitchatOnAndroid }
    }

    package var id: PeerID
    /// The name that the peer claims, truncated to the limit of a name.
    package var name: DisplayName
    /// The fingerprint of the announced key.
    package var fingerprint: Fingerprint
    package var capabilities: MeshCapabilities?
    /// Whether the peer claims to be a neighbour, rather than behind relays: an unrelayed announcement was received, which any
    /// neighbour can replay. ``MeshRouter/isNeighbour(_:)`` tells whether it is proven.
    package var isDirect: Bool
    /// Whether a link over which the peer has announced itself is open.
    package var isReachable: Bool

    /// Hop count of the peer's latest announcement, from its ttl; nil for one that was reassembled or answered.
    package var hops: Int?

    /// The peer at the distance of an earlier description, for comparing the two.
    func withHops(of other: MeshPeer?) -> MeshPeer {
        var peer = self
        peer.hops = other?.hops
        return peer
    }

    /// The links that a packet with this ttl has taken.
    static func hops(ttl: UInt8) -> Int { Int(MeshPacket.maximumTTL - min(ttl, MeshPacket.maximumTTL)) + 1 }

    /// Limit on the fragments of one packet, as the peer has stated in the session; nil where it has not.
    package var statedFragmentLimit: UInt16?

    package var software: Software { Software(capabilities) }

    /// Limit on the fragments of one packet.
    package var fragmentLimit: Int {
        statedFragmentLimit.map { min(Int($0), MeshFragment.maximumCount) } ?? software.fragmentLimit
    }

    /// Limit on the content of a file, in bytes.
    package var contentLimit: Int {
        // For phones alone a fragment has the same size on all links.
        guard statedFragmentLimit != nil, software.isPhone else { return software.contentLimit }
        let chunk = MeshFragmentation.chunkByteCount(forLargestWrite: MeshLinkProfile.radio.maximumFrameByteCount)
        let largest = software == .bitchatOnIOS ? software.contentLimit : MeshFile.maximumContentByteCount
        return min(max(0, fragmentLimit * chunk - Self.overheadByteCount), largest)
    }

    /// Name, seal and headers of a file.
    private static let overheadByteCount = 1_024
}
