internal import NearshareBase
internal import NearshareCrypto

/// The machine at the other end of a link, as far as it is known. It costs more to change than a key, so what neighbours hand over
/// counts towards the quota of their hosts (B5, M6).
package struct BundleHost: Sendable, Hashable {
    /// The number under which a store persists a host. The highest bit marks that of a link.
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// A host with an address on the network: a hash of it, of 64 bits, because `BundleIndex` has one for each bundle.
    package init(address: String) {
        let digest = SHA256Hasher.digest(Array("nearshare bundle host".utf8) + Array(address.utf8))
        self.init(hash: UInt64(truncatingBigEndian: digest.prefix(8)))
    }

    /// A host without a known address: its only link.
    package init(link: UInt64) {
        self.init(rawValue: link | Self.linkBit)
    }

    /// A neighbour of whose host nothing is known, and which therefore is a host of its own.
    init(_ neighbour: EndpointID) {
        self.init(hash: neighbour.rawValue)
    }

    private init(hash: UInt64) {
        self.init(rawValue: max(1, hash & ~Self.linkBit))
    }

    /// All hosts that are not known, together: those of closed links without an address, so that one that comes and goes is not
    /// several, and those of bundles from before a restart, unless they had an address.
    package static let unknown = Self(rawValue: 0)

    /// Whether the host is named by a link, and so means nothing once that is closed.
    var isLink: Bool { rawValue & Self.linkBit != 0 }

    private static let linkBit: UInt64 = 1 << 63
}
