package import NearshareBase
package import NearshareBundles
package import NearshareCrypto
package import NearshareInterfaces

/// Parameters of a ``Messenger``.
package struct MessengerSettings: Sendable {
    /// Limits of this node's own messages, and of what it forwards for others.
    package var profile = PropagationProfile.standard
    /// The store of waiting bundles.
    package var bundles: any BundleStore
    /// The store of conversations and received messages.
    package var conversations: any ConversationStore
    /// Returns the keys of a peer in the user's address book.
    package var contact: @Sendable (PeerID) -> ContactKeys?
    /// Returns whether an unauthenticated sender is blocked: its texts are not stored.
    package var isBlocked: @Sendable (ClaimedSender) -> Bool = { _ in false }
    /// Returns whether a text that a nearshare peer sends in the mesh's own packets becomes a line of a conversation; otherwise it
    /// is offered like a file.
    package var acceptsTexts: @Sendable () -> Bool = { true }
    /// The lifetime of the lines of conversations for which the user has set none; nil where lines stay.
    package var messageLifetime: MessageLifetime?
    /// Advertises this node to BlueChat devices where it has a radio, and exchanges texts with them. The texts are not
    /// encrypted, and their senders are not authenticated.
    package var usesBlueChat = false

    /// Creates settings with the standard profile.
    /// - Parameters:
    ///   - bundles: the store of waiting bundles.
    ///   - conversations: the store of conversations.
    ///   - contact: returns the keys of a peer in the user's address book; nil for an unknown one.
    package init(
        bundles: any BundleStore, conversations: any ConversationStore,
        contact: @escaping @Sendable (PeerID) -> ContactKeys? = { _ in nil }
    ) {
        self.bundles = bundles
        self.conversations = conversations
        self.contact = contact
    }
}

/// The keys of a peer, from the user's address book or from the mesh.
package struct ContactKeys: Sendable, Hashable {
    package var keys: EndpointKeys
    /// Whether both keys are one peer's: the user has imported them, or the peer has stated them inside a session. Other keys
    /// were only announced, perhaps by another peer.
    package var areProven: Bool

    package init(_ keys: EndpointKeys, areProven: Bool) {
        self.keys = keys
        self.areProven = areProven
    }
}

/// The unauthenticated sender of a text that everyone can read.
package enum ClaimedSender: Sendable, Hashable {
    /// The sender of a text in the public room, by the ID in its announcement.
    case announced(PeerID)
    /// The sender of a message that is not sealed, by the key that signed it.
    case signing(EndpointID)
}

/// The mode and the receiver of a message.
package enum MessageRoute: Sendable, Hashable {
    /// Direct to a peer, while it is in range.
    case direct(PeerID)
    /// Stored and forwarded by other nodes.
    case mesh(PeerID)
    /// Direct if the peer is in range, otherwise by mesh.
    case full(PeerID)
    /// To everyone, stored and forwarded by other nodes.
    case broadcast

    /// The mode alone.
    package var mode: MessageMode {
        switch self {
        case .direct: .direct
        case .mesh: .mesh
        case .full: .full
        case .broadcast: .broadcast
        }
    }

    /// Nil for everyone.
    package var receiver: PeerID? {
        switch self {
        case .direct(let id), .mesh(let id), .full(let id): id
        case .broadcast: nil
        }
    }

    /// - Throws: ``MessageError`` when the mode and the receiver do not fit.
    package init(_ mode: MessageMode, to receiver: PeerID?) throws(MessageError) {
        switch (mode, receiver) {
        case (.direct, let id?): self = .direct(id)
        case (.mesh, let id?): self = .mesh(id)
        case (.full, let id?): self = .full(id)
        case (.broadcast, nil): self = .broadcast
        case (.broadcast, _?): throw .broadcastHasNoReceiver
        case (_, nil): throw .receiverIsMissing(mode)
        }
    }
}

/// An event of a ``Messenger``.
package enum MessengerEvent: Sendable, Hashable {
    /// The progress of a message that was sent with ``Messenger/send(_:using:isEncrypted:isPrivate:)``.
    case changed(BundleID, MessageProgress)
    /// A message was received and stored.
    case arrived(ReceivedBundle)
    /// A line was stored: this node's own, or a received one.
    /// - Parameter isBundle: it arrived as a bundle, or as several, each of which has its own ``arrived(_:)``.
    case chatMessage(ChatMessage, isBundle: Bool = false)
    /// The status of an own line changed, or the reason why it waits became known; the reason of a failure or of the wait, for
    /// display.
    case chatMessageChanged(ChatMessage, reason: String?)
    /// A removal of lines whose lifetime is over has ended, with the latest time of the removed lines of each conversation; own lines
    /// that are pending stay. It may have found none. One event for all conversations: there may be more of them than a subscriber
    /// has room for events.
    case expired([Conversation: WallTime], at: WallTime)
    /// The user of a phone has made the local user a favourite, or revoked that.
    case favorite(Bool, by: AuthenticatedPeer)
    /// A peer appeared, changed, was authenticated, or disappeared.
    case peerChanged(PeerID)
}

/// The progress of a message.
package enum MessageProgress: Sendable, Hashable {
    /// A neighbour holds the message.
    case sent
    /// The receiver has acknowledged the message.
    case delivered
    /// The message could not be delivered, for this reason.
    case failed(String)
}

/// The reason why a line or a message cannot be sent.
package enum MessengerError: Error, Sendable, CustomStringConvertible {
    /// An empty line.
    case nothingToSay
    /// A line over the limit, in bytes.
    case tooLong(limit: Int)
    /// A line that phones take for a notice of a favourite (bitchat specification, section 9.1).
    case reservedText
    /// The message violates a rule.
    case rule(MessageError)
    /// The accompanying file cannot be sent.
    case file(NodeError)
    /// A store cannot be read or written.
    case storage(StorageError)

    package var description: String {
        switch self {
        case .nothingToSay: "the text is empty; enter a text"
        case .tooLong(let limit): "the text exceeds \(limit) bytes; send it as a file"
        case .reservedText: "phones take a text that begins with [FAVORITED] or [UNFAVORITED] for a command; begin it otherwise"
        case .rule(let rule): rule.description
        case .file(let error): error.description
        case .storage(let error): error.description
        }
    }
}
