package import NearshareBase
package import NearshareBundles
package import NearshareInterfaces

/// What a ``Messenger`` is made of.
package struct MessengerSettings: Sendable {
    /// How far what is sent goes, and how much is done for others at most.
    package var profile = PropagationProfile.standard
    /// Where messages wait that are carried.
    package var carried: any BundleStore
    /// Where conversations and messages that came are kept.
    package var conversations: any ConversationStore
    /// Keys of people who aren't near: from an earlier meeting, or imported.
    package var contact: @Sendable (PeerID) -> EndpointKeys?
    /// Whether somebody is blocked by what they claim, where nothing is sealed and so no key is proven: their texts are not kept.
    package var isBlocked: @Sendable (ClaimedSender) -> Bool = { _ in false }
    /// Whether a text that a peer sends in the mesh's own packets becomes a line of a conversation; otherwise it is offered, as a file is.
    package var acceptsTexts: @Sendable () -> Bool = { true }
    /// Tells others when the person here has read what they wrote.
    package var sendsReadMarks = true
    /// Those who run BlueChat find this node under its name, where it has a radio, and are talked with: in the clear, and nobody
    /// proves who they are.
    package var usesBlueChat = false

    /// The standard profile.
    /// - Parameters:
    ///   - carried: where messages wait that are carried.
    ///   - conversations: where conversations are kept.
    ///   - contact: keys of people who aren't near; nil for those who aren't known.
    package init(
        carried: any BundleStore, conversations: any ConversationStore,
        contact: @escaping @Sendable (PeerID) -> EndpointKeys? = { _ in nil }
    ) {
        self.carried = carried
        self.conversations = conversations
        self.contact = contact
    }
}

/// Who says something that everybody can read.
package enum ClaimedSender: Sendable, Hashable {
    /// In the public room, by the id that their announcement has.
    case announced(PeerID)
    /// In a message that nobody has sealed, by the key that has signed it.
    case signing(EndpointID)
}

/// How a message goes, and to whom.
package enum MessageRoute: Sendable, Hashable {
    /// Only while they are in range.
    case direct(PeerID)
    /// Held and carried by others.
    case mesh(PeerID)
    /// Direct if they are in range, else by the mesh.
    case full(PeerID)
    /// By the mesh, to all.
    case broadcast

    /// Without whom it is for.
    package var mode: MessageMode {
        switch self {
        case .direct: .direct
        case .mesh: .mesh
        case .full: .full
        case .broadcast: .broadcast
        }
    }

    /// nil for everybody.
    package var receiver: PeerID? {
        switch self {
        case .direct(let id), .mesh(let id), .full(let id): id
        case .broadcast: nil
        }
    }

    /// - Throws: ``MessageRule`` when the mode and the receiver don't fit.
    package init(_ mode: MessageMode, to receiver: PeerID?) throws(MessageRule) {
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

/// What happens in a ``Messenger``.
package enum MessengerEvent: Sendable, Hashable {
    /// What becomes of a message that was sent with ``Messenger/send(_:using:isEncrypted:isPrivate:)``.
    case changed(BundleID, MessageProgress)
    /// A message has come, and is kept.
    case arrived(ReceivedBundle)
    /// A line is in its conversation: one of ours, or one that has come.
    case entry(ChatMessage)
    /// A line of ours has come further, or failed; then why, for people.
    case marked(ChatMessage, reason: String?)
    /// Somebody came, changed, proved their key, or went.
    case peerChanged(PeerID)
}

/// How far a message is.
package enum MessageProgress: Sendable, Hashable {
    /// A carrier, or the receiver, has taken it.
    case sent
    /// The receiver has acknowledged it.
    case delivered
    /// It won't be delivered; why, for people.
    case failed(String)
}

/// Why something can't be said or sent.
package enum MessengerError: Error, Sendable, CustomStringConvertible {
    /// A line with nothing in it.
    case nothingToSay
    /// More than a line may have; in bytes.
    case tooLong(limit: Int)
    /// A rule of messages.
    case rule(MessageRule)
    /// The file beside it can't be sent.
    case file(NodeError)
    /// What is kept can't be read or written.
    case storage(StorageError)

    package var description: String {
        switch self {
        case .nothingToSay: "there is nothing in it to be sent; write something"
        case .tooLong(let limit): "a text has at most \(limit) bytes; send it as a file"
        case .rule(let rule): rule.description
        case .file(let error): error.description
        case .storage(let error): error.description
        }
    }
}
