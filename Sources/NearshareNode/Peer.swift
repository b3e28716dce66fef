public import NearshareBase
public import NearshareEdges
public import NearshareSecurity

/// Somebody at the other end of a link: the key is proven, the name is claimed.
public struct Peer: Sendable, Hashable {
    /// Its key, which the link has proven.
    public let proven: ProvenPeer
    /// Claimed.
    public let name: DisplayName
    /// How the key, and the name with it, stand with the person here.
    public let standing: PeerStanding
    /// nil for somebody who is reached through the mesh.
    public let address: LinkAddress?

    /// The beginning of the key's fingerprint.
    public var id: PeerID { proven.id }
}

/// Where somebody is to be found, and whom we expect there.
public struct PeerDestination: Sendable, Hashable {
    /// Tried in this order.
    public var addresses: [LinkAddress]
    /// nil where an address was given by hand: whoever answers there is meant.
    public var id: PeerID?
    /// What it was found under, for messages.
    public var name: DisplayName?

    /// Puts a destination together, such as from an address that a person gave.
    public init(addresses: [LinkAddress], id: PeerID? = nil, name: DisplayName? = nil) {
        self.addresses = addresses
        self.id = id
        self.name = name
    }
}
