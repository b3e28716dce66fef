package import Nearshare
package import NearshareBundles

/// A request of a command to the node that runs on this machine. Internal, but the node may be of another version than the command:
/// it runs on after an update. So names of cases and members stay (`CodingKeys` keep an old one), and a new member is optional.
package enum ControlRequest: Sendable, Hashable, Codable {
    /// Reply: ``ControlReply/status(_:)``.
    case status
    /// The contacts in range, friends, and those with a conversation. Reply: ``ControlReply/contacts(_:)``.
    case contacts
    /// Waits until a peer is known or in range whose id or name, or the beginning of whose name, is `name`.
    /// Reply: ``ControlReply/contact(_:)``.
    case find(name: String, timeout: Duration)
    /// Reply: ``ControlReply/messageAccepted(_:)``; ``ControlEvent/messageChanged(_:_:detail:)`` follows.
    case sendMessage(MessageSubmission)
    /// Whether an own message still waits to be delivered. Reply: ``ControlReply/isPending(_:)``.
    case isPending(BundleID)
    /// Received messages after a number. Reply: ``ControlReply/messages(_:)``.
    case messages(after: Int, limit: Int)
    /// Writes a line in a conversation. Reply: ``ControlReply/lineAccepted(id:)``; ``ControlEvent/chatMessage(_:isShownAsBundle:)`` follows.
    case sendLine(String, in: Conversation)
    /// Reply: ``ControlReply/conversations(_:)``.
    case conversations
    /// The latest lines before a number, the oldest of them first. Reply: ``ControlReply/chatMessages(_:lifetime:)``.
    case history(Conversation, before: Int?, limit: Int)
    /// Marks the lines of a conversation as seen by the user. Reply: ``ControlReply/done``.
    /// - Parameter notifiesAuthors: whether the authors learn it.
    case markRead(Conversation, notifiesAuthors: Bool = true)
    /// Sends a file. Reply: ``ControlReply/transferAccepted(_:)``; ``ControlEvent/transfer(_:)`` follows.
    /// - Parameters:
    ///   - path: absolute.
    ///   - to: ``PeerID/broadcast`` for everyone.
    ///   - isEncrypted: false for an app that takes only files that all relays can read, when the user agrees.
    ///   - timeout: for the receiver's answer; nil for the usual one.
    case sendFile(path: String, to: PeerID, isEncrypted: Bool = true, timeout: Duration? = nil)
    /// Cancels a file transfer of the node at both ends; no effect on one that has ended. Reply: ``ControlReply/done``;
    /// ``ControlEvent/transfer(_:)`` follows.
    case cancelTransfer(TransferStatus.ID)
    /// Removes all lines of a conversation from this machine. Reply: ``ControlReply/done``.
    case clear(Conversation)
    /// The lifetime of the lines of a conversation on this machine. Reply: ``ControlReply/lifetime(_:)``.
    case lifetime(Conversation)
    /// Sets the lifetime, and removes older lines. Reply: ``ControlReply/lifetime(_:)``;
    /// ``ControlEvent/lifetimeChanged(_:_:)`` and ``ControlEvent/messagesExpired(_:until:)`` follow.
    case setLifetime(Conversation, LifetimeSetting)
    /// The newest lines of a conversation that contain a text, the oldest of them first. Reply:
    /// ``ControlReply/chatMessages(_:lifetime:)``.
    case search(String, in: Conversation, limit: Int)
    /// Blocks a peer that is known, in range or in the address book. Reply: ``ControlReply/contact(_:)``.
    case block(PeerID)
    /// Unblocks the blocked peer whose id or name, or the beginning of whose name, is `name`. Reply:
    /// ``ControlReply/contact(_:)``.
    case unblock(name: String)
    /// Makes a peer a friend, or no longer one; a phone in range is told. Reply: ``ControlReply/contact(_:)``.
    case setFriend(PeerID, Bool)
    /// Checks whether a peer in the mesh answers. Reply: ``ControlReply/pong(_:)``.
    case ping(PeerID)
    /// The latest decisions of the node about the packets and bundles whose ids begin with a text. Reply:
    /// ``ControlReply/trace(_:)``.
    case trace(id: String, limit: Int)
    /// The link of this node's verification code. Reply: ``ControlReply/text(_:)``.
    case verificationLink
    /// Asks the peer of a verification link to prove that it holds its keys, and records that. Reply:
    /// ``ControlReply/contact(_:)``.
    case verify(link: String)
    /// Subscribes to events. Reply: ``ControlReply/done``, before the first event.
    case subscribe
    /// Subscribes to ``ControlEvent/receiving(_:)``; until the connection ends, the user can be asked through it. Reply:
    /// ``ControlReply/done``, before the first event; the questions that are open follow.
    case subscribeReceiving
    /// Answers a question of ``ControlEvent/receiving(_:)``. Reply: ``ControlReply/done``.
    case answer(Int, PromptAnswer)
    /// Asks the node of a `receive` to hand its role over to the asking process, which acquires the lock next.
    /// Reply: ``ControlReply/done``; the socket closes afterwards.
    case handOver
    /// Asks for the direct links that peers open to the node, to serve them in its place, until the connection ends. The latest
    /// process that asks gets them. Reply: ``ControlReply/done``, before the first link.
    case receiveLinks
    /// Claims a link of ``receiveLinks`` by its number, before it is served. Reply: ``ControlReply/done``, or a refusal of a link
    /// that the node serves itself, because it was not claimed in time.
    case claimLink(Int)
    /// Stops the node. Reply: ``ControlReply/done``.
    case stop
}

/// The reply to one request.
package enum ControlReply: Sendable, Hashable, Codable {
    /// Limit on the messages, lines or decisions in one reply.
    package static let maximumEntryCount = 1_000

    case done
    case status(NodeStatus)
    case contacts([Contact])
    case contact(Contact)
    case messageAccepted(BundleID)
    case lineAccepted(id: String)
    case transferAccepted(TransferID)
    case isPending(Bool)
    case messages([ReceivedMessage])
    case conversations([ConversationSummary])
    /// - Parameter lifetime: that of the lines of a history; nil where they stay, for other lines, and from a node of an earlier
    ///   version.
    case chatMessages([ChatMessage], lifetime: MessageLifetime? = nil)
    case lifetime(ConversationLifetime)
    case text(String)
    case pong(PingReport)
    case trace([TraceEntry])
    case failed(ControlFailure)
}

/// The answer of a peer to a ping.
package struct PingReport: Sendable, Hashable, Codable {
    package var milliseconds: Int
    /// Hop count of the answer, from its ttl.
    package var hops: Int
    /// The neighbour through which the peer was heard last; nil for a neighbour.
    package var nextHop: Contact?

    private enum CodingKeys: String, CodingKey {
        case milliseconds, hops
        case nextHop = "relay"
    }

    package init(milliseconds: Int, hops: Int, nextHop: Contact? = nil) {
        self.milliseconds = milliseconds
        self.hops = hops
        self.nextHop = nextHop
    }
}

/// An event of the node.
package enum ControlEvent: Sendable, Hashable, Codable {
    /// The state of an own message has changed.
    case messageChanged(BundleID, MessageState, detail: String?)
    case received(ReceivedMessage)
    /// A line was written by this user or a peer, and is stored in the conversation.
    /// - Parameter isShownAsBundle: it arrived as a bundle, or as several, each of which has its own ``received(_:)``.
    case chatMessage(ChatMessage, isShownAsBundle: Bool = false)
    /// The status of an own line has changed, or the line has failed for a reason.
    case chatMessageChanged(id: String, conversation: Conversation, status: MessageStatus, reason: String?)
    /// The lifetime of the lines of a conversation was set.
    case lifetimeChanged(Conversation, ConversationLifetime)
    /// Lines of a conversation were removed from this machine because their lifetime is over.
    /// - Parameter until: the latest time of those that were removed; own lines that are pending stay.
    case messagesExpired(Conversation, until: WallTime)
    /// All contacts, after one has appeared, changed or disappeared.
    case contacts([Contact])
    case transfer(TransferStatus)
    /// Sent after ``ControlRequest/subscribeReceiving``, see ``NodeClient/receiveEvents()``.
    case receiving(ReceiveEvent)
    /// A message for the user.
    /// - Parameters:
    ///   - conversation: to which it belongs; nil for none.
    ///   - item: the path of the received item that it is about; nil for others.
    case notice(String, in: Conversation? = nil, about: String? = nil)

    private enum ChatMessageCodingKeys: String, CodingKey {
        case _0
        case isShownAsBundle = "isBundle"
    }
}

/// The delivery state of an own message.
package enum MessageState: String, Sendable, Hashable, Codable {
    /// Another node has accepted it.
    case sent
    /// The receiver has acknowledged it.
    case delivered
    case failed
}

/// The reason why a request failed.
package struct ControlFailure: Error, Sendable, Hashable, Codable, CustomStringConvertible {
    package enum Kind: String, Sendable, Hashable, Codable {
        /// The request violates a rule.
        case refused
        case peerNotFound
        /// The name selects several peers.
        case ambiguous
        case storage
        case unavailable
        /// The content exceeds the limit of the transport.
        case tooLarge
        /// The peer is blocked.
        case blocked
        /// The name belongs to another known peer.
        case nameClash
        /// The node ended before it replied.
        case gone
    }

    package var kind: Kind
    /// The failure and a suggested remedy.
    package var description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}

/// A message to be sent.
package struct MessageSubmission: Sendable, Hashable, Codable {
    package var content: BundleContent
    package var mode: MessageMode
    /// nil for a broadcast.
    package var receiver: PeerID?
    package var isEncrypted: Bool
    package var isPrivate: Bool
    /// Absolute path of the file to send with it.
    package var file: String?
    /// Timeout of the receiver's answer to the file; nil for the default.
    package var timeout: Duration?
    /// Whether it is refused without a secure session with the receiver.
    package var requiresSession: Bool

    package init(
        content: BundleContent, mode: MessageMode, receiver: PeerID?, isEncrypted: Bool, isPrivate: Bool = false,
        file: String? = nil, timeout: Duration? = nil, requiresSession: Bool = false
    ) {
        self.requiresSession = requiresSession
        self.content = content
        self.mode = mode
        self.receiver = receiver
        self.isEncrypted = isEncrypted
        self.isPrivate = isPrivate
        self.file = file
        self.timeout = timeout
    }
}

/// A received message.
package struct ReceivedMessage: Sendable, Hashable, Codable {
    /// Position in the order of arrival, from 1.
    package var number: Int
    package var id: BundleID
    /// The peer whose key sealed the message, or signed it where it is public; nil when neither key's owner is certain.
    package var sender: PeerID?
    package var senderName: DisplayName?
    /// The trust in the sender under that name; nil for an unknown one, and from a node of an earlier version.
    package var trustStatus: TrustStatus?
    /// The address of the key that signed it.
    package var signer: EndpointID
    package var content: BundleContent
    package var isBroadcast: Bool
    /// The time at which the message was written, by the sender's clock.
    package var created: WallTime
    package var received: WallTime
    package var hops: Int

    package init(
        number: Int, id: BundleID, sender: PeerID?, senderName: DisplayName?, trustStatus: TrustStatus? = nil,
        signer: EndpointID, content: BundleContent, isBroadcast: Bool, created: WallTime, received: WallTime, hops: Int
    ) {
        self.number = number
        self.id = id
        self.sender = sender
        self.senderName = senderName
        self.trustStatus = trustStatus
        self.signer = signer
        self.content = content
        self.isBroadcast = isBroadcast
        self.created = created
        self.received = received
        self.hops = hops
    }

    /// - Parameter contacts: know the owner of the key that signed a public message; nil where they cannot be read.
    package init(_ stored: ReceivedBundle, contacts: ContactSnapshot?) {
        let sender = contacts.map { $0.sender(of: stored) } ?? stored.sender
        let name = sender.flatMap { contacts?.knownName(of: $0) }
        var trustStatus: TrustStatus?
        if let sender, let contacts {
            trustStatus = name.map { contacts.trust.trustStatus(claiming: sender, named: $0) } ?? .new
        }
        self.init(
            number: stored.number, id: stored.id, sender: sender, senderName: name, trustStatus: trustStatus,
            signer: stored.signer,
            // Content that this version cannot decode is shown as content of a later version.
            content: (try? BundleContent(decoding: stored.content[...])) ?? .other(0, []),
            isBroadcast: stored.isForEveryone, created: stored.created, received: stored.received, hops: stored.hops)
    }

    /// The sender as lists show it, with a tag of its key where the name belongs to another known peer (K2); nil for an unknown one.
    package var shownSender: String? {
        guard let sender else { return nil }
        guard let senderName else { return sender.hex }
        return nameOwner == nil ? senderName.shown(of: sender) : senderName.tagged(sender)
    }

    /// The warning about a sender that uses the name of another known peer (K2); nil for none.
    package var nameWarning: String? {
        guard let sender, let nameOwner else { return nil }
        return NameClash.sentence(about: senderName, sender, ownedBy: nameOwner)
    }

    private var nameOwner: Fingerprint? { if case .nameClash(let owner) = trustStatus { owner } else { nil } }
}

/// The state of a file transfer.
package struct TransferStatus: Sendable, Hashable, Codable {
    package enum ID: Sendable, Hashable, Codable {
        case transfer(TransferID)
        /// The file that accompanies a message.
        case message(BundleID)

        package var hex: String {
            switch self {
            case .transfer(let id): id.hex
            case .message(let id): id.hex
            }
        }
    }

    package var id: ID
    package var isIncoming: Bool
    /// ``PeerID/broadcast`` for everyone.
    package var peer: PeerID
    /// The claimed file name, not escaped.
    package var name: String
    /// Bytes.
    package var done: UInt64
    package var total: UInt64?
    /// Whether the receiver is being asked; nil from a node of an earlier version.
    package var isWaitingForAnswer: Bool?
    /// nil while it runs.
    package var outcome: TransferOutcome?
    /// Whether the receiver has confirmed that it has the content; nil while that is not known.
    package var isConfirmed: Bool?
    /// A message for the user: about a running transfer, or about its outcome.
    package var detail: String?

    /// The conversation to which the transfer belongs.
    package var conversation: Conversation { peer == .broadcast ? .publicRoom : .peer(peer) }

    package init(
        id: ID, isIncoming: Bool, peer: PeerID, name: String, done: UInt64, total: UInt64?, outcome: TransferOutcome? = nil,
        detail: String? = nil
    ) {
        self.id = id
        self.isIncoming = isIncoming
        self.peer = peer
        self.name = name
        self.done = done
        self.total = total
        self.outcome = outcome
        self.detail = detail
    }
}
