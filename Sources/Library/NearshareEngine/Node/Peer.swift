package import NearshareBase
package import NearshareCrypto
package import NearshareInterfaces

/// Somebody at the other end of a link: the key is proven, the name is claimed.
package struct Peer: Sendable, Hashable {
    /// Its key, which the link has proven.
    package let proven: AuthenticatedPeer
    /// Claimed.
    package let name: DisplayName
    /// How the key, and the name with it, stand with the person here.
    package let trustStatus: TrustStatus
    /// nil for somebody who is reached through the mesh.
    package let address: LinkAddress?

    /// The beginning of the key's fingerprint.
    package var id: PeerID { proven.id }
}

/// Where somebody is to be found, and whom we expect there.
package struct PeerDestination: Sendable, Hashable {
    /// Tried in this order.
    package var addresses: [LinkAddress]
    /// nil where an address was given by hand: whoever answers there is meant.
    package var id: PeerID?
    /// What it was found under, for messages.
    package var name: DisplayName?

    /// Puts a destination together, such as from an address that a person gave.
    package init(addresses: [LinkAddress], id: PeerID? = nil, name: DisplayName? = nil) {
        self.addresses = addresses
        self.id = id
        self.name = name
    }
}
