internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The chat on a terminal without cursor movement: each new item of a conversation is written once, as lines.
extension ChatScreen {
    /// The items that ``drainLines(at:)`` has returned, as far as they can change.
    struct WrittenLines: Sendable {
        /// A delivery state, and its reason where it has one.
        fileprivate struct Delivery: Sendable, Hashable {
            var status: MessageStatus
            var reason: String?
        }

        /// The time of the first lines; nil before.
        fileprivate var start: WallTime?
        fileprivate var heading = ""
        /// The conversation of the heading; nil for a search.
        fileprivate var headedConversation: Conversation?
        /// The written delivery states of the user's messages that can still change.
        fileprivate var deliveries: [String: Delivery] = [:]
        /// The stored messages that were unread when they were loaded, and are not written yet.
        fileprivate var unread: Set<String> = []
        /// The transfers whose end was not written.
        fileprivate var transfers: Set<TransferStatus.ID> = []
        /// The conversations whose unread items were mentioned.
        fileprivate var mentioned: Set<Conversation> = []

        /// Records which messages are unread. They are written, however many there are: read receipts are sent to their authors.
        mutating func recordUnread(among messages: [ChatMessage]) {
            for message in messages where message.isUnread { unread.insert(message.id) }
        }

        /// Records that a stored message is written or left out.
        /// - Returns: whether it was unread.
        fileprivate mutating func removeUnread(_ item: ConversationView.Item) -> Bool {
            guard case .message(let message) = item.content else { return false }
            return unread.remove(message.id) != nil
        }
    }

    /// The lines of what is new since the last call: all of the visible conversation, and the notices of the others, which may
    /// be questions.
    mutating func drainLines(at now: WallTime) -> [String] {
        let start = written.start ?? now
        written.start = start
        var lines: [String] = []
        let heading = self.heading
        if heading != written.heading {
            let conversation = views.visible.conversation
            // Another peer with the name adds a tag, which the lines show as well.
            let isRenamed = conversation != nil && conversation == written.headedConversation
            (written.heading, written.headedConversation) = (heading, conversation)
            if !heading.isEmpty, !isRenamed { lines.append(heading) }
        }
        if views.visibleIndex == nil {
            lines += drainLines(of: views.visible, isVisible: true, since: start, at: now)
            views.visible.recordWritten(isVisible: true)
        }
        for index in views.indices {
            let isVisible = index == views.visibleIndex
            // Behind the stored messages, which are older.
            if isVisible, views[index].history == .loadingNewest { continue }
            lines += drainLines(of: views[index], isVisible: isVisible, since: start, at: now)
            views[index].recordWritten(isVisible: isVisible)
        }
        return lines
    }

    /// Where the next line goes; empty before a peer is looked for.
    private var heading: String {
        let view = views.visible
        let advice = "\(settings.endKey) ends the chat, /help lists commands"
        switch view.conversation {
        case .publicRoom?: return "each line goes to everyone in range, who can read it; \(advice)"
        case .peer(let peer)?: return "each line goes to \(name(of: peer)); \(advice)"
        case nil:
            guard let lookup = view.lookup, lookup.isRunning else { return "" }
            return "looking for \(TerminalText.escaped(lookup.name, columns: 40))…"
        }
    }

    private mutating func drainLines(
        of view: ConversationView, isVisible: Bool, since start: WallTime, at now: WallTime
    ) -> [String] {
        guard isVisible || view.hasUnwrittenNotices || view.unreadCount > 0 else {
            if let conversation = view.conversation { written.mentioned.remove(conversation) }
            return []
        }
        var fresh: [Int] = []
        var storedCount = 0
        var lines: [String] = []
        for (index, item) in view.items.enumerated() {
            if view.isUnwritten(item) {
                guard isVisible || item.content.isSentence else { continue }
                fresh.append(index)
                if !item.content.isSentence, item.when < start { storedCount += 1 }
            } else if isVisible, let line = change(of: item, in: view, at: now) {
                lines.append(line)
            }
        }
        // Earlier lines are read in the full screen by scrolling.
        var skippedCount = max(0, storedCount - settings.historyLimit)
        for index in fresh {
            let item = view.items[index]
            record(item, in: view)
            let isUnread = written.removeUnread(item)
            let isSkipped = skippedCount > 0 && !item.content.isSentence && item.when < start
            if isSkipped { skippedCount -= 1 }
            if isSkipped, !isUnread {
                continue
            } else if isVisible {
                lines += self.lines(of: index, in: view, columns: columns).map(\.plainText)
            } else if case .notice(let text, _) = item.content {
                let prefix = "[\(title(of: view))] "
                lines += text.split(separator: "\n", omittingEmptySubsequences: false).map { prefix + $0 }
            }
        }
        return lines + mention(view, isVisible: isVisible)
    }

    /// Records a written item that can change.
    private mutating func record(_ item: ConversationView.Item, in view: ConversationView) {
        switch item.content {
        case .message(let message) where message.isLocal && !message.status.isFinal:
            written.deliveries[message.id] = .init(status: message.status, reason: view.reasons[message.id])
        case .transfer(let transfer) where transfer.outcome == nil: written.transfers.insert(transfer.id)
        default: break
        }
    }

    /// The line about a written item that has changed since; nil for none.
    private mutating func change(of item: ConversationView.Item, in view: ConversationView, at now: WallTime) -> String? {
        let text: String
        switch item.content {
        case .message(let message):
            let delivery = WrittenLines.Delivery(status: message.status, reason: view.reasons[message.id])
            guard let former = written.deliveries[message.id], former != delivery else { return nil }
            written.deliveries[message.id] = message.status.isFinal ? nil : delivery
            text = "\(deliveryMark(message, view).plainText): \(TerminalText.escaped(message.text, columns: 40))"
        case .transfer(let transfer):
            guard transfer.outcome != nil, written.transfers.remove(transfer.id) != nil else { return nil }
            text = Self.sentence(transfer)
        case .notice, .file, .qrCode: return nil
        }
        return "\(settings.localTime(now).clock) * \(text)"
    }

    /// The line about unread items of another conversation, once, with a peer that is known or that the user has written to: a flood
    /// by new keys writes nothing.
    private mutating func mention(_ view: ConversationView, isVisible: Bool) -> [String] {
        guard case .peer(let peer)? = view.conversation else { return [] }
        let conversation = Conversation.peer(peer)
        guard !isVisible, view.unreadCount > 0 else {
            written.mentioned.remove(conversation)
            return []
        }
        guard contacts[peer]?.trustStatus.isKnown == true || view.hasLocalMessages,
            written.mentioned.insert(conversation).inserted
        else { return [] }
        return ["[\(title(of: view))] unread items: /chat \(peer.hex) shows them"]
    }
}

extension ConversationView.Content {
    /// Whether it is a sentence of this program.
    fileprivate var isSentence: Bool { if case .notice = self { true } else { false } }
}

extension ChatMessage {
    /// Whether it is a message of another author that was not shown.
    var isUnread: Bool { !isLocal && status < .read }
}

extension MessageStatus {
    /// Whether no other state follows.
    fileprivate var isFinal: Bool { self == .read || self == .failed }
}
