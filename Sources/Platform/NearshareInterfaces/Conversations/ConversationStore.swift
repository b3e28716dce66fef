package import NearshareBase

/// A conversation with its newest message, for lists.
package struct ConversationSummary: Sendable, Hashable, Codable {
    package var conversation: Conversation
    package var last: ChatMessage
    /// The number of received messages that were not shown yet.
    package var unreadCount: Int
    /// The name that the peer has claimed in its newest message that has one; nil in the public room, and where there is none.
    package var peerName: DisplayName?

    package init(conversation: Conversation, last: ChatMessage, unreadCount: Int, peerName: DisplayName? = nil) {
        self.conversation = conversation
        self.last = last
        self.unreadCount = unreadCount
        self.peerName = peerName
    }
}

/// One transmission of a chat message, which may need several when it is long.
package struct OutgoingPart: Sendable, Hashable {
    /// The id of the bundle or private message that was sent.
    package var id: String
    /// Whether it is sent by store and forward, and so outlives this process.
    package var isBundle: Bool

    package init(id: String, isBundle: Bool) {
        self.id = id
        self.isBundle = isBundle
    }
}

/// A message of this node that is not delivered yet, with its transmissions.
package struct PendingMessage: Sendable, Hashable {
    package var message: ChatMessage
    /// Empty while no transmission has begun.
    package var parts: [OutgoingPart]

    package init(message: ChatMessage, parts: [OutgoingPart]) {
        self.message = message
        self.parts = parts
    }
}

/// A fragment of a text that is too long for one message.
package struct TextFragment: Sendable, Hashable {
    package var sender: PeerID
    /// The id that all fragments of one text have; at most 64 bytes.
    package var textID: String
    /// From 0.
    package var index: Int
    /// The number of fragments of the text.
    package var count: Int
    package var text: String

    /// Limit on the fragments of one text.
    package static let maximumCount = 64

    /// - Returns: nil when count, index or id are outside their bounds.
    package init?(sender: PeerID, textID: String, index: Int, count: Int, text: String) {
        guard (2...Self.maximumCount).contains(count), (0..<count).contains(index), (1...64).contains(textID.utf8.count)
        else { return nil }
        self.sender = sender
        self.textID = textID
        self.index = index
        self.count = count
        self.text = text
    }
}

/// The consequence of a received fragment for its text.
package enum FragmentOutcome: Sendable, Hashable {
    case incomplete
    /// No fragment is missing any more. All of them were removed.
    case whole(String)
    /// The fragment, or a message of its sender with the id of the text, is stored already.
    case repetition
}

/// The payload of a bundle that was delivered to this node, kept for programs that ask later.
package struct ReceivedBundle: Sendable, Hashable {
    /// Position in the order of arrival, from 1; 0 before it is stored.
    package var number: Int
    package var id: BundleID
    /// The peer whose key sealed it; nil when it was not sealed.
    package var sender: PeerID?
    /// The endpoint whose key signed it.
    package var signer: EndpointID
    /// The encoded payload, unchanged.
    package var content: [UInt8]
    package var isForEveryone: Bool
    /// The time at which the message was written, by the sender's clock.
    package var created: WallTime
    package var received: WallTime
    package var hops: Int

    package init(
        number: Int = 0, id: BundleID, sender: PeerID?, signer: EndpointID, content: [UInt8], isForEveryone: Bool,
        created: WallTime, received: WallTime, hops: Int
    ) {
        self.number = number
        self.id = id
        self.sender = sender
        self.signer = signer
        self.content = content
        self.isForEveryone = isForEveryone
        self.created = created
        self.received = received
        self.hops = hops
    }
}

/// The result of a removal of messages whose lifetime was over.
package struct MessageExpiry: Sendable, Hashable {
    /// The conversations of which something was removed, with the latest time of what was.
    package var removed: [Conversation: WallTime] = [:]
    /// The earliest end of the lifetime of a stored message or bundle; nil where none has one. Messages that are not delivered yet
    /// do not count.
    package var next: WallTime?

    package init() {}
}

/// Persistent storage of conversations and received bundles. Calls block and may come from any thread. Every change survives a
/// killed process.
package protocol ConversationStore: Sendable {
    /// Stores a message together with its transmissions.
    /// - Parameter isFriend: whether the author is a friend, of whom nothing is removed for the sake of others.
    /// - Returns: its number; nil when the conversation already contains its id.
    func insert(_ message: ChatMessage, parts: [OutgoingPart], isFriend: Bool) throws(StorageError) -> Int?

    /// Raises the status of a message; ``MessageStatus/failed`` only replaces a status below ``MessageStatus/delivered``.
    /// - Returns: whether the status has changed.
    func updateStatus(of id: String, in conversation: Conversation, to status: MessageStatus) throws(StorageError) -> Bool

    /// Sets the time of a message of this node.
    func setTime(_ time: WallTime, of id: String, in conversation: Conversation) throws(StorageError)

    /// A message of this node by its id, in any conversation.
    func message(_ id: String) throws(StorageError) -> ChatMessage?

    /// The newest messages of a conversation in their order.
    /// - Parameter number: only messages before this one; nil for the newest of all.
    func messages(of conversation: Conversation, before number: Int?, limit: Int) throws(StorageError) -> [ChatMessage]

    /// The newest messages of a conversation that contain a text, in their order. The case of letters is ignored.
    func messages(of conversation: Conversation, containing text: String, limit: Int) throws(StorageError) -> [ChatMessage]

    /// Removes all messages of a conversation, with their transmissions, and the bundles that its peer has sent to this node. The
    /// fragments of a text that is still arriving stay.
    func removeMessages(of conversation: Conversation) throws(StorageError)

    /// The lifetimes that the user has set, by conversation.
    func lifetimes() throws(StorageError) -> [Conversation: LifetimeSetting]

    /// Sets the lifetime of the messages of a conversation; removes none.
    func setLifetime(of conversation: Conversation, to setting: LifetimeSetting) throws(StorageError)

    /// Removes the messages whose lifetime is over, with their transmissions, and the bundles that peers have sent to this node as
    /// long ago. A message of this node stays until it is delivered or given up, in the public room until it is sent, and one of
    /// a later time than `now` stays as well.
    /// - Parameter standard: the lifetime in conversations without a setting; nil for no limit.
    func removeExpiredMessages(standard: MessageLifetime?, now: WallTime) throws(StorageError) -> MessageExpiry

    /// All conversations that have messages, the one with the newest message first.
    func conversations() throws(StorageError) -> [ConversationSummary]

    /// Replaces the recorded transmissions of a message. One that is listed again and was delivered stays delivered.
    func recordParts(_ parts: [OutgoingPart], of id: String, in conversation: Conversation) throws(StorageError)

    /// Raises the status of one transmission. The message has the lowest status of its transmissions, or failed when one has.
    /// - Parameter conversation: the only one whose messages are changed; nil for all.
    /// - Returns: the message if its status has changed.
    func updatePart(
        _ part: OutgoingPart, in conversation: Conversation?, to status: MessageStatus
    ) throws(StorageError) -> ChatMessage?

    /// The messages of this node that are neither delivered nor given up, the oldest first.
    func pendingMessages() throws(StorageError) -> [PendingMessage]

    /// Marks all messages of other authors as read.
    /// - Returns: the ids of those that were unread, the oldest first.
    func markRead(_ conversation: Conversation) throws(StorageError) -> [String]

    /// Stores a fragment of a long text.
    /// - Parameter isFriend: whether the sender is a friend, of whom nothing is removed for the sake of others.
    func addFragment(_ fragment: TextFragment, isFriend: Bool, now: WallTime) throws(StorageError) -> FragmentOutcome

    /// Stores a received bundle.
    /// - Parameter isFriend: whether the sender is a friend, of whom nothing is removed for the sake of others.
    /// - Returns: its number; nil when it is stored already.
    func insert(_ arrival: ReceivedBundle, isFriend: Bool) throws(StorageError) -> Int?

    /// The oldest received bundles after a number.
    func arrivals(after number: Int, limit: Int) throws(StorageError) -> [ReceivedBundle]

    /// Removes everything.
    func removeAll() throws(StorageError)
}

extension ConversationStore {
    /// Stores a message without transmissions.
    package func insert(_ message: ChatMessage, isFriend: Bool = false) throws(StorageError) -> Int? {
        try insert(message, parts: [], isFriend: isFriend)
    }
}
