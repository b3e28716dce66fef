package import NearshareBase

/// With whom one talks.
package enum Conversation: Sendable, Hashable {
    /// One person: a key, whatever name goes with it.
    case peer(PeerID)
    /// All who are reached, in the open: bitchat's public room.
    case everybody
}

extension Conversation: Codable {
    private static let everybodyText = "everybody"

    package init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard text != Self.everybodyText else {
            self = .everybody
            return
        }
        guard let id = PeerID(hex: text) else {
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "no conversation"))
        }
        self = .peer(id)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// As it is stored: a peer's id in hexadecimal digits, or "everybody".
    package var text: String {
        switch self {
        case .peer(let id): id.hex
        case .everybody: Self.everybodyText
        }
    }

    /// - Parameter text: as ``text`` gives it.
    package init?(text: String) {
        if text == Self.everybodyText {
            self = .everybody
        } else if let id = PeerID(hex: text) {
            self = .peer(id)
        } else {
            return nil
        }
    }
}

/// How far a line of ours has come; it only ever goes up, or fails.
package enum ChatMark: Int, Sendable, Hashable, Codable, Comparable {
    /// Nobody has taken it yet; it goes when somebody comes.
    case waiting = 0
    /// A carrier, or the receiver's machine, has taken it; to everybody: it went out.
    case sent = 1
    /// The receiver has it. What has come from others is here, too, until it was read.
    case delivered = 2
    /// The person has seen it.
    case read = 3
    /// It won't arrive.
    case failed = 4

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A line of a conversation.
package struct ChatEntry: Sendable, Hashable, Codable {
    /// In which order it was stored, from 1; 0 before it is.
    package var number: Int
    /// Of its sender's making, the same wherever it is stored; at most 255 bytes.
    package var id: String
    package var conversation: Conversation
    /// Who wrote it; nil when we did.
    package var author: PeerID?
    /// What the author called themselves then.
    package var authorName: DisplayName?
    /// As it was written: not fit for a terminal. At most ``maximumTextByteCount`` bytes.
    package var text: String
    /// When it was written here, or came here, by this machine's clock.
    package var when: WallTime
    package var mark: ChatMark

    /// Longer texts are files.
    package static let maximumTextByteCount = 50_000

    package init(
        number: Int = 0, id: String, conversation: Conversation, author: PeerID?, authorName: DisplayName?, text: String,
        when: WallTime, mark: ChatMark
    ) {
        self.number = number
        self.id = id
        self.conversation = conversation
        self.author = author
        self.authorName = authorName
        self.text = text
        self.when = when
        self.mark = mark
    }

    package var isOurs: Bool { author == nil }
}

/// A conversation in a list.
package struct ConversationSummary: Sendable, Hashable, Codable {
    package var conversation: Conversation
    package var last: ChatEntry
    /// Lines of others that nobody here has seen.
    package var unreadCount: Int

    package init(conversation: Conversation, last: ChatEntry, unreadCount: Int) {
        self.conversation = conversation
        self.last = last
        self.unreadCount = unreadCount
    }
}

/// A message as which a line, or a part of it, went out.
package struct DispatchedPart: Sendable, Hashable {
    /// Of the message.
    package var id: String
    /// Carriers keep it until it is delivered; else it is gone with the process.
    package var isCarried: Bool

    package init(id: String, isCarried: Bool) {
        self.id = id
        self.isCarried = isCarried
    }
}

/// A line that has not arrived yet.
package struct UnfinishedLine: Sendable, Hashable {
    package var entry: ChatEntry
    /// None when nobody could be given it yet.
    package var parts: [DispatchedPart]

    package init(entry: ChatEntry, parts: [DispatchedPart]) {
        self.entry = entry
        self.parts = parts
    }
}

/// A piece of a text that was too long for one message.
package struct TextPiece: Sendable, Hashable {
    package var sender: PeerID
    /// The same for all pieces of a text; at most 64 bytes.
    package var textID: String
    /// From 0.
    package var index: Int
    package var count: Int
    package var text: String

    /// As many pieces as a text may have.
    package static let maximumCount = 64

    /// - Returns: nil when it can't be one of so many pieces.
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

/// A message that came by the mesh, as it is kept for those who ask later.
package struct KeptArrival: Sendable, Hashable {
    /// In which order it came, from 1; 0 before it is stored.
    package var number: Int
    package var id: BundleID
    /// Whose key sealed it; nil for what was not sealed.
    package var sender: PeerID?
    /// Of the key that signed it.
    package var signer: EndpointID
    /// Encoded, as it came.
    package var content: [UInt8]
    package var isForEverybody: Bool
    /// By its sender's clock.
    package var created: WallTime
    package var received: WallTime
    package var hops: Int

    package init(
        number: Int = 0, id: BundleID, sender: PeerID?, signer: EndpointID, content: [UInt8], isForEverybody: Bool,
        created: WallTime, received: WallTime, hops: Int
    ) {
        self.number = number
        self.id = id
        self.sender = sender
        self.signer = signer
        self.content = content
        self.isForEverybody = isForEverybody
        self.created = created
        self.received = received
        self.hops = hops
    }
}

/// Where conversations and messages that came are kept. Calls block; from any thread. What a call did is there after the process was
/// killed.
package protocol ConversationStore: Sendable {
    /// - Returns: its number; nil when one with this id is in the conversation already.
    func insert(_ entry: ChatEntry) throws(StorageError) -> Int?

    /// Moves a mark up, never down: ``ChatMark/failed`` only from below ``ChatMark/delivered``.
    /// - Returns: whether it has changed.
    func mark(_ id: String, in conversation: Conversation, _ mark: ChatMark) throws(StorageError) -> Bool

    /// One line of ours by its id, in whatever conversation; nil when there is none.
    func entry(_ id: String) throws(StorageError) -> ChatEntry?

    /// The newest lines, the oldest of them first.
    /// - Parameter number: only lines before this one; nil for the newest of all.
    func entries(of conversation: Conversation, before number: Int?, limit: Int) throws(StorageError) -> [ChatEntry]

    /// Those with a line in them, the one with the newest line first.
    func conversations() throws(StorageError) -> [ConversationSummary]

    /// Notes as what a line of ours goes out: one message, or several where it is long. What was noted for it before is forgotten.
    func dispatch(_ parts: [DispatchedPart], of id: String, in conversation: Conversation) throws(StorageError)

    /// One of the messages as which a line went out has come further; the line is as far as the last of them.
    /// - Returns: the line when its mark has changed.
    func advance(_ part: String, to mark: ChatMark) throws(StorageError) -> ChatEntry?

    /// Lines of ours that are neither delivered nor given up, and what they went out as: the oldest first.
    func unfinished() throws(StorageError) -> [UnfinishedLine]

    /// Marks all lines of others as read.
    /// - Returns: the ids of those that were not, the oldest first.
    func markRead(_ conversation: Conversation) throws(StorageError) -> [String]

    /// Keeps a piece of a text.
    /// - Returns: the whole text, when this was the last piece that was missing; the pieces are forgotten then.
    func collect(_ piece: TextPiece, now: WallTime) throws(StorageError) -> String?

    /// - Returns: its number; nil when it is kept already.
    func keep(_ arrival: KeptArrival) throws(StorageError) -> Int?

    /// The oldest of those after a number.
    func arrivals(after number: Int, limit: Int) throws(StorageError) -> [KeptArrival]

    /// Removes everything.
    func removeAll() throws(StorageError)
}
