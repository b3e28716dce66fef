public import NearshareBase
public import NearshareCrypto
public import NearshareInterfaces

/// Somebody at the other end of a link: the key is proven, the name is claimed.
public struct Peer: Sendable, Hashable {
    /// Its key, which the link has proven.
    package let proven: AuthenticatedPeer
    /// Claimed.
    public let name: DisplayName
    /// How the key, and the name with it, stand with the person here.
    public let trustStatus: TrustStatus
    /// nil for somebody who is reached through the mesh.
    public let address: LinkAddress?

    /// The beginning of the key's fingerprint.
    public var id: PeerID { proven.id }
    /// SHA-256 of the peer's key: what a program stores to recognise the peer later.
    public var fingerprint: Fingerprint { proven.fingerprint }
}

/// Where somebody is to be found, and whom we expect there.
public struct PeerDestination: Sendable, Hashable {
    /// Tried in this order.
    package var addresses: [LinkAddress]
    /// nil where an address was given by hand: whoever answers there is meant.
    package var id: PeerID?
    /// What it was found under, for messages.
    package var name: DisplayName?

    /// Puts a destination together, such as from an address that a person gave.
    public init(addresses: [LinkAddress], id: PeerID? = nil, name: DisplayName? = nil) {
        self.addresses = addresses
        self.id = id
        self.name = name
    }
}
