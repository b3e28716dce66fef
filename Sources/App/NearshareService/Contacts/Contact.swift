package import Nearshare
internal import NearshareMesh

/// A peer in the user's lists: in range, a friend, or with a conversation.
package struct Contact: Sendable, Hashable, Codable, NamedPeer {
    /// The software of the peer, which determines what can be sent to it.
    package enum Software: String, Sendable, Hashable, Codable {
        case nearshare
        /// bitchat: texts and files, but no bundles.
        case phone
        /// BlueChat over Bluetooth: texts only.
        case blueChat
        /// Unknown, because the peer is not in range.
        case unknown
    }

    package var id: PeerID
    /// The name that the user has given, otherwise the claimed name.
    package var name: DisplayName
    package var otherName: DisplayName?
    package var trustStatus: TrustStatus
    /// Whether it is in the mesh or found by discovery at the moment.
    package var isNear: Bool
    package var software: Software
    /// Whether messages can be sealed for the peer while it is out of range.
    package var hasKeys: Bool
    /// Links between this node and the peer, as far as its announcements tell; nil out of the mesh.
    package var hops: Int?
    /// Limit on the content of a file through the mesh, in bytes; nil where the peer is not in the mesh.
    package var contentLimit: UInt64?

    package var isFriend: Bool { trustStatus.isFriend }
    package var trustLabel: String? { trustStatus.listText }

    /// Stops what the user sends by the name of another known peer (K2).
    /// - Parameter trust: see ``NameClash``.
    func refuseNameClash(in trust: TrustStore?) throws(ControlFailure) {
        if case .nameClash(let owner) = trustStatus { throw .nameClash(self, ownedBy: owner, in: trust) }
    }

    /// Everyone in the mesh, as the receiver of a file.
    package static let everyone: Contact? = DisplayName(truncating: "everyone").map {
        Contact(id: .everyone, name: $0, trustStatus: .new, isNear: true, software: .unknown, hasKeys: false)
    }

    package init(
        id: PeerID, name: DisplayName, otherName: DisplayName? = nil, trustStatus: TrustStatus, isNear: Bool,
        software: Software, hasKeys: Bool, hops: Int? = nil, contentLimit: UInt64? = nil
    ) {
        self.hops = hops
        self.contentLimit = contentLimit
        self.id = id
        self.name = name
        self.otherName = otherName
        self.trustStatus = trustStatus
        self.isNear = isNear
        self.software = software
        self.hasKeys = hasKeys
    }
}

extension PeerID {
    /// The receiver of what goes to everyone, also on the wire.
    package static var everyone: PeerID { broadcast }
}

extension ControlFailure {
    /// The failure of a request that concerns a blocked peer.
    static func blocked(_ contact: Contact) -> ControlFailure { blocked(contact.name, contact.id) }

    /// - Parameter name: the one by which the user knows the peer.
    static func blocked(_ name: DisplayName, _ id: PeerID) -> ControlFailure {
        ControlFailure(.blocked, "\(name.shown) is blocked; `nearshare peers unblock \(id.hex)` unblocks it")
    }

    /// The failure of a request that concerns a peer under the name of another known one (K2).
    static func nameClash(_ contact: Contact, ownedBy owner: Fingerprint, in trust: TrustStore?) -> ControlFailure {
        ControlFailure(.nameClash, NameClash.refusal(of: contact.name, contact.id, ownedBy: owner, in: trust))
    }
}
