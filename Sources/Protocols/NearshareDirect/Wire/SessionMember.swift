package import NearshareBase

/// A member's entry in the roster of a session (`docs/PROTOCOL.md`, section 12).
package struct SessionMember: Sendable, Hashable {
    /// Whether a member is in the session.
    package enum Presence: UInt8, Sendable, Hashable {
        /// The member is in the session.
        case present = 0
        /// The member has left, or was unreachable for too long.
        case gone = 1
    }

    /// A network address of a member: numeric host and port.
    package struct Address: Sendable, Hashable {
        /// Limit on the length of a numeric host.
        package static let maximumHostByteCount = 63
        /// An IPv4 or IPv6 address, never a host name.
        package var host: String
        /// The TCP port.
        package var port: UInt16

        /// Creates an address. The host is not checked.
        package init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }
    }

    /// Limit on addresses in one entry.
    package static let maximumAddressCount = 8
    /// Limit on the encoded metadata of a member.
    package static let maximumMetadataByteCount = 1024

    /// The fingerprint of the member's key.
    package var fingerprint: Fingerprint
    /// The name that the member claims.
    package var name: DisplayName
    /// Incremented when the member joins again or refutes its departure. The entry with the higher incarnation takes
    /// precedence; of equals, the one that is gone.
    package var incarnation: UInt32
    /// Whether the member is in the session.
    package var presence: Presence
    /// The member's addresses, the latest first.
    package var addresses: [Address]
    /// Members to which it has direct links, and between which it may relay. Only the member itself announces them.
    package var neighbours: [PeerID]
    /// Incremented with each announcement of the member about itself within an incarnation.
    package var revision: UInt32

    /// Creates an entry.
    package init(
        fingerprint: Fingerprint, name: DisplayName, incarnation: UInt32 = 0, presence: Presence = .present,
        addresses: [Address] = [], neighbours: [PeerID] = [], revision: UInt32 = 0
    ) {
        self.fingerprint = fingerprint
        self.name = name
        self.incarnation = incarnation
        self.presence = presence
        self.addresses = addresses
        self.neighbours = neighbours
        self.revision = revision
    }

    /// The short name of the member's key.
    package var id: PeerID { fingerprint.peerID }
}
