package import NearshareBase

/// A node of the mesh as it announced itself: its key was claimed and has signed, but nobody has proven to hold it until there
/// is a session.
package struct MeshPeer: Sendable, Hashable {
    /// What a node runs, told by what it says it can do. It decides how much may be sent to it.
    package enum Software: Sendable, Hashable {
        case nearshare
        case bitchatOnIOS
        case bitchatOnAndroid
        case other

        init(_ capabilities: MeshCapabilities?) {
            switch capabilities {
            case let flags? where flags.contains(.fileOffers): self = .nearshare
            case [.privateMedia]?: self = .bitchatOnAndroid
            case let flags? where flags.contains([.prekeys, .groups, .vouch]): self = .bitchatOnIOS
            default: self = .other
            }
        }

        /// The most content that it takes, in bytes.
        package var contentLimit: Int {
            switch self {
            case .bitchatOnIOS: 1_048_576
            // 256 fragments, less what name, seal and header take.
            case .bitchatOnAndroid: 115_000
            case .nearshare, .other: MeshFile.maximumContentByteCount
            }
        }

        /// The most fragments that it puts together.
        package var fragmentLimit: Int { self == .bitchatOnAndroid ? 256 : MeshFragment.maximumCount }

        /// Phones know only the radio's sizes.
        var isPhone: Bool { self == .bitchatOnIOS || self == .bitchatOnAndroid }
    }

    package var id: PeerID
    /// Claimed by it; cut to what a name may have.
    package var name: DisplayName
    /// Of the key that it announced.
    package var fingerprint: Fingerprint
    package var capabilities: MeshCapabilities?
    /// A neighbour, rather than somebody whom others reach.
    package var isDirect: Bool

    package var software: Software { Software(capabilities) }
}
