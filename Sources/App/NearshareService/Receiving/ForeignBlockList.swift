internal import Nearshare

/// Peers without a key of nearshare whose offers are declined until the process ends, by what they have shown, and by address. Not by
/// network: an IPv6 /64 is a whole LAN, whose other devices the user has not blocked.
struct ForeignBlockList: Sendable {
    private var names: Set<String> = []

    private static let maximumCount = 10_000

    func contains(_ peer: Peer) -> Bool { !names.isDisjoint(with: Self.names(of: peer)) }

    /// No effect on a full list.
    mutating func insert(_ peer: Peer) {
        guard names.count < Self.maximumCount else { return }
        names.formUnion(Self.names(of: peer))
    }

    /// The fingerprint that takes the place of a key for a peer without one, and its address.
    private static func names(of peer: Peer) -> Set<String> {
        Set([peer.fingerprint.description, peer.address?.host].compactMap(\.self))
    }
}
