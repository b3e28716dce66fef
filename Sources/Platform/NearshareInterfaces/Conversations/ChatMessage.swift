package import NearshareBase

/// The delivery status of a chat message. The raw values are stored.
package enum MessageStatus: Int, Sendable, Hashable, Codable, Comparable {
    /// Not sent yet: no peer that accepts it is in range.
    case waiting = 0
    /// Accepted by a relay or by the recipient's node; in a public conversation: broadcast.
    case sent = 1
    /// Stored by the recipient's node. Messages of other authors have this status until they are read.
    case delivered = 2
    /// Shown to the recipient.
    case read = 3
    /// Given up.
    case failed = 4

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    /// Whether news of a message may change its status: events can overtake each other, and a message that was given up may
    /// still turn out to have been delivered.
    package func canChange(to status: MessageStatus) -> Bool {
        switch status {
        case .failed: self < .delivered
        case .delivered, .read: self < status || self == .failed
        case .waiting, .sent: self < status
        }
    }
}

/// One text message of a conversation.
package struct ChatMessage: Sendable, Hashable, Codable {
    /// Position in the store, from 1; 0 before the message is stored.
    package var number: Int
    /// Chosen by the author and the same in every store; at most 255 bytes.
    package var id: String
    package var conversation: Conversation
    /// The author; nil for a message written on this node.
    package var author: PeerID?
    /// The author's display name when the message was written.
    package var authorName: DisplayName?
    /// Unescaped text of at most ``maximumTextByteCount`` bytes: escape it before it is shown.
    package var text: String
    /// The time at which the message was written or received, by this machine's clock.
    package var when: WallTime
    package var status: MessageStatus
    /// The time of writing by the author's clock, which is not trusted: for display only. nil where it is not known, or is close
    /// to ``when``.
    package var written: WallTime?

    /// Longer texts are sent as files.
    package static let maximumTextByteCount = 50_000

    package init(
        number: Int = 0, id: String, conversation: Conversation, author: PeerID?, authorName: DisplayName?, text: String,
        when: WallTime, status: MessageStatus, written: WallTime? = nil
    ) {
        self.number = number
        self.id = id
        self.conversation = conversation
        self.author = author
        self.authorName = authorName
        self.text = text
        self.when = when
        self.status = status
        self.written = written.flatMap { Self.isLate($0, when) ? $0 : nil }
    }

    /// Whether a time of writing tells more than the time of arrival: they differ by over a minute, and by no more than a message
    /// can wait.
    private static func isLate(_ written: WallTime, _ when: WallTime) -> Bool {
        let (difference, overflow) = when.milliseconds.subtractingReportingOverflow(written.milliseconds)
        return !overflow && shownDelays.contains(difference.magnitude)
    }

    /// Milliseconds.
    private static let shownDelays: ClosedRange<UInt64> = 60_001...30 * 86_400_000

    /// The stored and transmitted keys.
    private enum CodingKeys: String, CodingKey {
        case number, id, conversation, author, authorName, text, when, written
        case status = "mark"
    }

    /// Whether this node is the author.
    package var isLocal: Bool { author == nil }

    /// Whether this node still has to send the message, or waits for its delivery.
    package var isPending: Bool { isLocal && status < conversation.settledStatus }
}
