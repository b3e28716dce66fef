internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A conversation as the screen holds it: what was said, where one looks, what is being written.
struct ConversationView: Sendable {
    enum Content: Sendable, Hashable {
        case entry(ChatMessage)
        case transfer(TransferStatus)
        /// Said by this program; not kept.
        case note(String)
    }

    struct Item: Sendable, Hashable {
        /// Unique in the room.
        var serial: Int
        var content: Content
        var when: WallTime
    }

    /// What is at the bottom of the view.
    enum Position: Sendable, Hashable {
        /// The newest, also when more comes.
        case end
        /// A row of an item, counted from 0.
        case row(serial: Int, index: Int)
    }

    /// nil for the page that one sees before there is any conversation.
    let conversation: Conversation?
    private(set) var items: [Item] = []
    var position = Position.end
    var editor = LineEditor(maximumByteCount: ChatMessage.maximumTextByteCount)
    var unreadCount = 0
    /// What has come since one looks at something older.
    var missedCount = 0
    /// The node has nothing older.
    var isComplete = false
    var isLoading = false
    /// The newest were asked for.
    var wasLoaded = false
    /// Why lines of ours failed, by id.
    var reasons: [String: String] = [:]
    private var lastSerial = 0

    /// Older ones are fetched again when somebody looks for them.
    private static let maximumItems = 3000

    init(_ conversation: Conversation?) {
        self.conversation = conversation
    }

    var oldestNumber: Int? {
        for item in items {
            if case .entry(let entry) = item.content, entry.number > 0 { return entry.number }
        }
        return nil
    }

    var lastEntry: ChatMessage? {
        for item in items.reversed() {
            if case .entry(let entry) = item.content { return entry }
        }
        return nil
    }

    var hasUnseenEntries: Bool {
        unreadCount > 0
            || items.contains {
                if case .entry(let entry) = $0.content { !entry.isOurs && entry.status < .read } else { false }
            }
    }

    /// Nobody answers any more what was asked, and what has come meanwhile is not known.
    mutating func forgetQuestions() {
        (isLoading, wasLoaded, isComplete) = (false, false, false)
    }

    /// - Returns: false when it was there already.
    @discardableResult
    mutating func insert(_ entry: ChatMessage) -> Bool {
        guard index(of: entry.id) == nil else { return false }
        var place = items.count
        if entry.number > 0 {
            // What this program said stays where it was said.
            for (index, item) in items.enumerated() {
                if case .entry(let other) = item.content, other.number > entry.number {
                    place = index
                    break
                }
            }
        }
        items.insert(makeItem(.entry(entry), entry.when), at: place)
        dropOldest()
        return true
    }

    mutating func note(_ text: String, at now: WallTime) {
        items.append(makeItem(.note(text), now))
        dropOldest()
    }

    mutating func show(_ transfer: TransferStatus, at now: WallTime) {
        for (index, item) in items.enumerated().reversed() {
            if case .transfer(let other) = item.content, other.id == transfer.id {
                items[index].content = .transfer(transfer)
                return
            }
        }
        items.append(makeItem(.transfer(transfer), now))
        dropOldest()
    }

    /// - Returns: false when there is no such line.
    mutating func mark(_ id: String, _ mark: MessageStatus) -> Bool {
        guard let index = index(of: id), case .entry(var entry) = items[index].content else { return false }
        // A mark only goes up; events may overtake each other on their way through two sockets.
        // What was given up may still turn out to have arrived.
        if mark > entry.status || (entry.status == .failed && mark >= .delivered) { entry.status = mark }
        items[index].content = .entry(entry)
        return true
    }

    mutating func markOthersRead() {
        unreadCount = 0
        for (index, item) in items.enumerated() {
            guard case .entry(var entry) = item.content, !entry.isOurs else { continue }
            entry.status = .read
            items[index].content = .entry(entry)
        }
    }

    func contains(_ id: String) -> Bool { index(of: id) != nil }

    private func index(of id: String) -> Int? {
        items.lastIndex {
            if case .entry(let entry) = $0.content { entry.id == id } else { false }
        }
    }

    private mutating func makeItem(_ content: Content, _ when: WallTime) -> Item {
        lastSerial += 1
        return Item(serial: lastSerial, content: content, when: when)
    }

    private mutating func dropOldest() {
        guard items.count > Self.maximumItems, position == .end else { return }
        items.removeFirst(Self.maximumItems / 3)
        isComplete = false
    }
}
