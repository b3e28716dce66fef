package import Nearshare

/// A peer as the user knows it: in range, a friend, or with a conversation.
package struct Contact: Sendable, Hashable, Codable, NamedPeer {
    /// The program that the peer runs, which decides what can be sent to it.
    package enum Software: String, Sendable, Hashable, Codable {
        case nearshare
        /// bitchat: texts and files, but no bundles.
        case phone
        /// BlueChat over Bluetooth: texts only.
        case blueChat
        /// Not in range now.
        case unknown
    }

    package var id: PeerID
    /// The name that the user has given, otherwise the claimed name.
    package var name: DisplayName
    package var trustStatus: TrustStatus
    /// In the mesh or found by discovery now.
    package var isNear: Bool
    package var software: Software
    /// Messages can be sealed for the peer while it is out of range.
    package var hasKeys: Bool

    package var isFriend: Bool { trustStatus.isFriend }
    /// The name belongs to another key that is known here (K2).
    package var hasNameClash: Bool { if case .nameClash = trustStatus { true } else { false } }

    package init(
        id: PeerID, name: DisplayName, trustStatus: TrustStatus, isNear: Bool, software: Software, hasKeys: Bool
    ) {
        self.id = id
        self.name = name
        self.trustStatus = trustStatus
        self.isNear = isNear
        self.software = software
        self.hasKeys = hasKeys
    }
}
