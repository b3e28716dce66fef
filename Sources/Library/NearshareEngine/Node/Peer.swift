public import NearshareBase
public import NearshareCrypto
public import NearshareInterfaces

/// The peer at the other end of a link: its key is proven, its name is claimed.
public struct Peer: Sendable, Hashable {
    /// Its key, which the link has proven.
    package let proven: AuthenticatedPeer
    /// The claimed name.
    public let name: DisplayName
    /// Trust in the key, and in its claim to the name.
    public let trustStatus: TrustStatus
    /// The address of the link; nil for a peer in the mesh.
    public let address: LinkAddress?
    /// The version of the direct protocol on the link; nil for a peer in the mesh.
    package let version: UInt8?

    /// The first 8 bytes of the fingerprint.
    public var id: PeerID { proven.id }
    /// SHA-256 of the peer's key: what a program stores to recognise the peer later.
    public var fingerprint: Fingerprint { proven.fingerprint }
}

/// Addresses of a peer, and the identity expected there.
public struct PeerDestination: Sendable, Hashable {
    /// The addresses to try, in order.
    package var addresses: [LinkAddress]
    /// The expected identifier; nil accepts any peer that answers at the address.
    package var id: PeerID?
    /// The expected key, where it is known: it decides, and not the id alone.
    package var fingerprint: Fingerprint?
    /// The name under which the peer was found, for messages to the user.
    package var name: DisplayName?

    /// Creates a destination, such as from an address that the user typed.
    public init(addresses: [LinkAddress], id: PeerID? = nil, name: DisplayName? = nil) {
        self.addresses = addresses
        self.id = id
        self.name = name
    }
}
