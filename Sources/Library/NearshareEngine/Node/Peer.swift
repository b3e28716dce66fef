public import NearshareBase
public import NearshareCrypto
package import NearshareInterfaces

/// A peer of another protocol, which has no nearshare key. No store of keys knows it, so it is never a friend by its name (K14).
package struct ForeignPeer: Sendable, Hashable {
    /// The protocol that the peer speaks.
    package enum Kind: String, Sendable {
        /// A browser that has opened the page of this node.
        case web
        /// A device with LocalSend.
        case localSend = "localsend"
    }

    package let kind: Kind
    /// Identifies the peer as far as its protocol can: a browser for as long as its page is open.
    package let fingerprint: Fingerprint
    /// SHA-256 of the certificate that the peer has shown; nil for none.
    package let certificate: [UInt8]?

    /// - Parameters:
    ///   - identity: bytes that identify a peer in the protocol.
    ///   - certificate: SHA-256 of the certificate that the peer has shown; nil for none.
    init(_ kind: Kind, identity: [UInt8], certificate: [UInt8]? = nil) {
        (self.kind, self.certificate) = (kind, certificate)
        fingerprint = Fingerprint(foreign: kind.rawValue, identity: identity)
    }
}

/// The peer at the other end of a link. Its key, if it has one, is authenticated by the handshake; its name is claimed.
public struct Peer: Sendable, Hashable {
    /// The way in which a peer is known.
    package enum Identity: Sendable, Hashable {
        /// A peer whose key the handshake has authenticated.
        case proven(AuthenticatedPeer)
        case foreign(ForeignPeer)
    }

    /// The peer's key, or the protocol by which it came.
    package let identity: Identity
    /// The claimed name.
    public let name: DisplayName
    /// Trust in the key, and in its claim to the name.
    public let trustStatus: TrustStatus
    /// The address of the link; nil for a peer in the mesh.
    package let address: LinkAddress?
    /// The version of the direct protocol on the link; nil for a peer in the mesh, and for one of another protocol.
    package let version: UInt8?

    /// The key that the handshake has authenticated; nil for a peer of another protocol.
    package var proven: AuthenticatedPeer? { if case .proven(let peer) = identity { peer } else { nil } }
    /// The protocol of a peer without a nearshare key; nil for a nearshare peer.
    package var foreign: ForeignPeer? { if case .foreign(let peer) = identity { peer } else { nil } }
    /// The first 8 bytes of the fingerprint.
    public var id: PeerID { fingerprint.peerID }
    /// SHA-256 of the peer's key: what a program stores to recognise the peer later. A peer of another protocol has one that no
    /// key has.
    public var fingerprint: Fingerprint {
        switch identity {
        case .proven(let peer): peer.fingerprint
        case .foreign(let peer): peer.fingerprint
        }
    }

    init(
        proven: AuthenticatedPeer, name: DisplayName, trustStatus: TrustStatus, address: LinkAddress?, version: UInt8?
    ) {
        identity = .proven(proven)
        (self.name, self.trustStatus, self.address, self.version) = (name, trustStatus, address, version)
    }

    init(foreign: ForeignPeer, name: DisplayName, trustStatus: TrustStatus = .new, address: LinkAddress?) {
        identity = .foreign(foreign)
        (self.name, self.trustStatus, self.address, version) = (name, trustStatus, address, nil)
    }
}

/// Addresses of a peer, and the identity expected there.
public struct PeerDestination: Sendable, Hashable {
    /// The addresses to try, in order.
    package var addresses: [LinkAddress]
    /// The expected identifier; nil accepts any peer that answers at the address.
    package var id: PeerID?
    /// The expected key, where it is known: it decides, and not the id alone.
    package var fingerprint: Fingerprint?
    /// Whether the user has given an id instead of a name: the claimed name is not compared then.
    package var isIDGiven = false
    /// The name under which the peer was found, for messages to the user.
    package var name: DisplayName?
    /// The type of service under which the addresses were announced, and further ones may be; nil for other addresses.
    package var announcedService: ServiceType?
    /// Announced addresses at which another peer has answered: they are not tried again.
    package var discardedAddresses: Set<LinkAddress> = []
    /// Whether the peer is a LocalSend device.
    package var isLocalSend = false
    /// SHA-256 of the certificate that a LocalSend device has announced; nil for a device of which only the
    /// address is known.
    package var certificate: [UInt8]?

    /// Creates a destination, such as from an address that the user typed.
    /// - Parameters:
    ///   - addresses: numeric IPv4 or IPv6 addresses, a link-local one with its zone, such as "fe80::1%eth0"; each with a TCP
    ///     port. They are tried in this order.
    ///   - id: the identifier that the peer must prove; nil for any peer that answers.
    public init(addresses: [(host: String, port: UInt16)], id: PeerID? = nil) {
        self.init(addresses: addresses.map { LinkAddress(host: $0.host, port: $0.port) }, id: id)
    }

    /// - Parameter name: the name under which the peer was found, for messages to the user.
    package init(addresses: [LinkAddress], id: PeerID? = nil, name: DisplayName? = nil) {
        self.addresses = addresses
        self.id = id
        self.name = name
    }
}
