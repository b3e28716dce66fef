internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// One conversation of the screen: its items, scroll position and input line.
struct ConversationView: Sendable {
    enum Content: Sendable, Hashable {
        case message(ChatMessage)
        case transfer(TransferStatus)
        /// A message of this program; not stored.
        /// - Parameter item: the path of the received item that it is about; nil for others.
        case notice(String, about: String? = nil)
        case file(SharedItem)
        /// Rows of a QR code.
        case qrCode([String])

        /// Whether it is a line of this program.
        var isNotice: Bool {
            switch self {
            case .notice, .file: true
            case .message, .transfer, .qrCode: false
            }
        }
    }

    struct Item: Sendable, Hashable {
        /// Unique in this view.
        var serial: Int
        var content: Content
        var when: WallTime
    }

    /// The last visible row.
    enum Position: Sendable, Hashable {
        /// The newest row, also after new items.
        case end
        /// A row of an item, counted from 0.
        case row(serial: Int, index: Int)
    }

    /// The search for the peer that the user has named.
    struct Lookup: Sendable, Hashable {
        /// The name as the user typed it.
        let name: String
        var isRunning = true
        /// Whether the peer is not in range: the node is asked again when another peer appears.
        var isWaiting = false
        /// Lines that are sent when the peer is found.
        var lines: [String] = []
        /// The peers that the user knew under the name at the start of the search, in the lists of the node.
        var peersListedByNode: Set<PeerID> = []
        /// The same by the names in the files of this machine; nil where they are not read.
        var peersStoredOnDisk: Set<PeerID>?

        /// Whether the peer can still be found.
        var isOpen: Bool { isRunning || isWaiting }
    }

    enum Subject: Sendable, Hashable {
        /// Shown before any conversation is open.
        case startPage
        /// The conversation with a peer that is not found yet, or was not found.
        case lookup(Lookup)
        case conversation(Conversation)
    }

    /// The stored messages that the node has sent.
    enum History: Sendable, Hashable {
        case notRequested
        case loadingNewest
        /// Older ones may be left.
        case partial
        case loadingOlder
        case complete

        var isLoading: Bool { self == .loadingNewest || self == .loadingOlder }
    }

    private(set) var subject: Subject
    private(set) var items: [Item] = []
    var position = Position.end {
        didSet { if position == .end { (newBelowCount, offersBelow) = (0, []) } }
    }
    var editor = LineEditor(maximumByteCount: ChatMessage.maximumTextByteCount)
    /// The line that was put back into the editor, to be sent by Enter alone.
    private(set) var heldLine: String?
    /// On a terminal of plain lines: the sentence about a peer that has just got the name that the user looked for, until an empty
    /// line confirms a line to it; escaped for a terminal (K2).
    var newPeerSentence: String?
    var unreadCount = 0
    /// Order of use: that of the view which was used last is the highest.
    var lastUse = 0
    /// Number of new items below the visible rows.
    var newBelowCount = 0
    /// Numbers of the offers that are asked about below the visible rows.
    private(set) var offersBelow: Set<Int> = []
    private(set) var history = History.notRequested
    /// The lifetime of the lines on this machine; nil where they stay, and before it is known.
    var lifetime: MessageLifetime?
    /// The time at which the newest messages were first loaded; nil before.
    var opened: WallTime?
    /// The name of the peer in its last message, before the messages are loaded, or in its last offer; nil where it is not known.
    var claimedName: DisplayName?
    /// Whether the user has written in the conversation, as far as its messages were loaded.
    private(set) var hasLocalMessages = false
    /// Reasons of failed messages, by id.
    private(set) var reasons: [String: String] = [:]
    /// The ends of transfers among the items.
    private var transferEnds: [TransferStatus.ID: WallTime] = [:]
    private var lastSerial = 0
    /// The last items that were written as plain lines: of all items, and of notices; 0 before.
    private var writtenSerials = (all: 0, notice: 0)

    /// Limit on items; older ones are loaded again when the user scrolls up.
    private static let maximumItemCount = 3000

    init(_ subject: Subject) { self.subject = subject }

    var conversation: Conversation? { if case .conversation(let conversation) = subject { conversation } else { nil } }

    var lookup: Lookup? { if case .lookup(let lookup) = subject { lookup } else { nil } }

    /// Puts a line that was not sent back into the editor, for the user to press Enter again.
    mutating func putBack(_ line: String) {
        editor.replace(with: line)
        heldLine = line
    }

    /// Ends the hold of a line.
    /// - Returns: the line that was held back; nil where none was.
    mutating func removeHeldLine() -> String? {
        defer { heldLine = nil }
        return heldLine
    }

    /// Makes this the view of a search, or updates the search.
    mutating func setLookup(_ lookup: Lookup) { subject = .lookup(lookup) }

    /// Makes this the conversation with the peer that was found.
    mutating func resolve(as conversation: Conversation) { subject = .conversation(conversation) }

    /// Takes over the input line of a view of the same peer, and its history. A text that was begun here is reached with the Up
    /// key.
    mutating func adoptInput(of other: ConversationView) {
        editor.adopt(other.editor)
    }

    var hasRunningTransfers: Bool {
        items.contains {
            if case .transfer(let transfer) = $0.content { transfer.outcome == nil } else { false }
        }
    }

    /// The files that are being sent.
    var runningTransfers: [TransferStatus] {
        items.compactMap {
            guard case .transfer(let transfer) = $0.content, transfer.outcome == nil, !transfer.isIncoming else { return nil }
            return transfer
        }
    }

    var oldestNumber: Int? {
        for item in items {
            if case .message(let message) = item.content, message.number > 0 { return message.number }
        }
        return nil
    }

    var lastMessage: ChatMessage? {
        for item in items.reversed() {
            if case .message(let message) = item.content { return message }
        }
        return nil
    }

    var hasUnreadMessages: Bool {
        unreadCount > 0
            || items.contains {
                if case .message(let message) = $0.content { !message.isLocal && message.status < .read } else { false }
            }
    }

    /// Discards requests to a node that has stopped: replies will not arrive, and new messages are unknown.
    mutating func discardPendingRequests() { history = .notRequested }

    /// Begins to load the newest messages, unless that was done before.
    /// - Returns: whether they have to be requested now.
    mutating func beginLoading() -> Bool {
        guard history == .notRequested else { return false }
        history = .loadingNewest
        return true
    }

    /// Begins to load older messages. While the user reads the oldest ones, the limit on items is twice as high.
    /// - Returns: the number of the message before which more are to be requested; nil when none are.
    mutating func beginLoadingOlder(count: Int) -> Int? {
        guard history == .partial, items.count + count <= 2 * Self.maximumItemCount, let oldestNumber else { return nil }
        history = .loadingOlder
        return oldestNumber
    }

    /// Records the reply to a request for messages: the newest first, and whether no older ones are left.
    /// - Parameter reply: nil for a failed request, which can be repeated.
    mutating func endLoading(_ reply: (messages: [ChatMessage], isLast: Bool)?) {
        guard let reply else {
            switch history {
            case .loadingNewest: history = .notRequested
            case .loadingOlder: history = .partial
            case .notRequested, .partial, .complete: break
            }
            return
        }
        history = reply.isLast ? .complete : .partial
        for message in reply.messages.reversed() { insert(message, isStored: true) }
    }

    /// Inserts a message in the order of the node's numbers, unless it is among the items.
    /// - Parameter isStored: whether it is older than the notices that were added while it was loaded.
    /// - Returns: false for a known message.
    @discardableResult
    mutating func insert(_ message: ChatMessage, isStored: Bool = false) -> Bool {
        guard index(of: message.id) == nil else { return false }
        if message.isLocal { hasLocalMessages = true }
        var insertionIndex = items.count
        if message.number > 0 {
            for (index, item) in items.enumerated() {
                if case .message(let other) = item.content, other.number > message.number {
                    insertionIndex = index
                    break
                }
            }
        }
        while isStored, insertionIndex > 0, items[insertionIndex - 1].content.isNotice,
            items[insertionIndex - 1].when > message.when
        {
            insertionIndex -= 1
        }
        items.insert(makeItem(.message(message), message.when), at: insertionIndex)
        dropOldest()
        return true
    }

    /// Adds the question about an offer.
    /// - Parameter lines: escaped for a terminal.
    mutating func addQuestion(_ lines: [String], about offer: Int, at now: WallTime) {
        if position != .end { offersBelow.insert(offer) }
        for line in lines { addNotice(line, at: now) }
    }

    /// Adds a notice.
    /// - Parameter item: the path of the received item that it is about. The notice replaces the item from the history.
    mutating func addNotice(_ text: String, about item: String? = nil, at now: WallTime) {
        items.removeAll {
            if case .file(let file) = $0.content { file.hasArrived(at: item, when: now) } else { false }
        }
        if position != .end { newBelowCount += 1 }
        items.append(makeItem(.notice(text, about: item), now))
        dropOldest()
    }

    /// Inserts a file at its time, unless it is among the items.
    /// - Parameter isNew: whether it has just arrived.
    mutating func insert(_ file: SharedItem, isNew: Bool = false) {
        let item = makeItem(.file(file), file.when)
        let isPresent = items.contains { other in
            switch other.content {
            // After a change of the node they are listed again.
            case .file(let listed): listed == file
            case .notice(_, let item): file.hasArrived(at: item, when: other.when)
            case .transfer(let transfer):
                file.shownSentName == NameText.shown(transfer.name) && !transfer.isIncoming
                    && transferEnds[transfer.id].map { file.isRecorded(at: $0) } ?? false
            case .message, .qrCode: false
            }
        }
        guard !isPresent else { return }
        let isLoaded = isNew || history == .complete || items.contains { $0.when < file.when }
        // Messages that are not loaded yet may belong between an older item and the loaded ones.
        guard isLoaded else { return }
        items.insert(item, at: items.firstIndex { $0.when > file.when } ?? items.count)
        dropOldest()
    }

    /// Removes all items, after the node has removed the lines.
    mutating func removeAll() {
        items = []
        position = .end
        unreadCount = 0
        (reasons, transferEnds) = ([:], [:])
        history = .complete
    }

    /// Removes the lines that the node has removed because their lifetime is over. Files and notices stay.
    /// - Parameter end: the time of the latest line.
    mutating func removeExpired(until end: WallTime) {
        func isExpired(_ item: Item) -> Bool {
            switch item.content {
            case .message(let message): message.when <= end && !message.isPending
            case .file(let file): file.isSentText && file.when <= end
            case .notice, .transfer, .qrCode: false
            }
        }
        for item in items where isExpired(item) {
            guard case .message(let message) = item.content else { continue }
            reasons[message.id] = nil
            if message.isUnread { unreadCount = max(0, unreadCount - 1) }
        }
        if case .row(let serial, _) = position, let visible = items.firstIndex(where: { $0.serial == serial }),
            isExpired(items[visible])
        {
            // The user goes on reading below what is gone.
            let next = items[visible...].first { !isExpired($0) }
            position = next.map { Position.row(serial: $0.serial, index: 0) } ?? .end
        }
        items.removeAll { isExpired($0) }
    }

    mutating func addQRCode(_ rows: [String], at now: WallTime) {
        items.append(makeItem(.qrCode(rows), now))
        dropOldest()
    }

    /// Ends the transfers of a node that has stopped.
    mutating func interruptTransfers(at now: WallTime) {
        for (index, item) in items.enumerated() {
            guard case .transfer(var transfer) = item.content, transfer.outcome == nil else { continue }
            (transfer.outcome, transfer.detail) = (.interrupted, nil)
            items[index].content = .transfer(transfer)
            transferEnds[transfer.id] = now
        }
    }

    mutating func update(_ transfer: TransferStatus, at now: WallTime) {
        if transfer.outcome != nil { transferEnds[transfer.id] = now }
        for (index, item) in items.enumerated().reversed() {
            if case .transfer(let other) = item.content, other.id == transfer.id {
                items[index].content = .transfer(transfer)
                return
            }
        }
        items.append(makeItem(.transfer(transfer), now))
        dropOldest()
    }

    /// Updates the status of a message. An event that was overtaken by a later one is ignored.
    /// - Parameter reason: the reason of a failure, or of the wait of a message that still waits.
    mutating func updateStatus(of id: String, to status: MessageStatus, reason: String?) {
        guard let index = index(of: id), case .message(var message) = items[index].content,
            message.status.canChange(to: status) || (message.status == .waiting && status == .waiting && reason != nil)
        else { return }
        message.status = status
        items[index].content = .message(message)
        reasons[id] = reason
    }

    mutating func markReceivedRead() {
        unreadCount = 0
        for (index, item) in items.enumerated() {
            guard case .message(var message) = item.content, !message.isLocal else { continue }
            message.status = .read
            items[index].content = .message(message)
        }
    }

    func contains(_ id: String) -> Bool { index(of: id) != nil }

    private func index(of id: String) -> Int? {
        items.lastIndex {
            if case .message(let message) = $0.content { message.id == id } else { false }
        }
    }

    /// Whether notices were added since the last ones that were written as plain lines, as far as that is known without a search.
    var hasUnwrittenNotices: Bool { lastSerial > max(writtenSerials.all, writtenSerials.notice) }

    func isUnwritten(_ item: Item) -> Bool {
        if case .notice = item.content { return item.serial > max(writtenSerials.all, writtenSerials.notice) }
        return item.serial > writtenSerials.all
    }

    /// Records that new items, or only new notices where the view is not visible, were written as plain lines.
    mutating func recordWritten(isVisible: Bool) {
        writtenSerials.notice = lastSerial
        if isVisible { writtenSerials.all = lastSerial }
    }

    private mutating func makeItem(_ content: Content, _ when: WallTime) -> Item {
        lastSerial += 1
        return Item(serial: lastSerial, content: content, when: when)
    }

    private mutating func dropOldest() {
        guard items.count > Self.maximumItemCount else { return }
        if case .row(let serial, _) = position, let visible = items.firstIndex(where: { $0.serial == serial }),
            visible < items.count / 2
        {
            // The rows that the user reads stay, but a flood of new ones below them must end.
            guard items.count > 2 * Self.maximumItemCount else { return }
            position = .end
        }
        for item in items.prefix(Self.maximumItemCount / 3) {
            switch item.content {
            case .message(let message): reasons[message.id] = nil
            case .transfer(let transfer): transferEnds[transfer.id] = nil
            case .notice, .file, .qrCode: break
            }
        }
        items.removeFirst(Self.maximumItemCount / 3)
        if history == .complete { history = .partial }
    }
}
