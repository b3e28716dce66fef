internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The full-screen chat as a state machine: keys and events in, reactions and frames out. It has no clock, terminal or file.
struct ChatScreen: Sendable {
    /// The conversation that is opened first.
    enum Opening: Sendable, Hashable {
        /// The peer that the user has named.
        case peer(String)
        case publicRoom
        /// The most recent conversation.
        case latest
    }

    struct Settings: Sendable {
        var opening = Opening.latest
        /// The user's own name; nil where it is not known.
        var ownName: DisplayName?
        /// No bell.
        var isQuiet = false
        /// Whether the authors of lines that are shown learn it.
        var sendsReadReceipts = true
        /// The terminal shows colours; otherwise words replace them.
        var hasColor = true
        /// The terminal decodes UTF-8; otherwise output is limited to ASCII.
        var hasUTF8 = true
        /// Whether the terminal shows plain lines only, and a line is typed as a whole.
        var isPlain = false
        /// On such a terminal: limit on the stored lines of a conversation that are shown.
        var historyLimit = 10
        /// On such a terminal: the key that ends the chat.
        var endKey = "Ctrl-D"
        var localTime: @Sendable (WallTime) -> LocalTime
    }

    /// The request that a reply belongs to.
    enum RequestTag: Sendable, Hashable {
        case contacts
        case conversations
        case history(Conversation)
        case sendLine(Conversation, String)
        case markRead
        case lookup(String)
        case sendFile(Conversation, String)
        case cancel(Conversation)
        case clear(Conversation)
        /// A request that shows or sets the lifetime of lines.
        case lifetime(Conversation)
        case search(Conversation, String)
        /// The conversation is that in which the user has typed the command.
        /// - Parameter former: the trust in the peer before, as far as it is known.
        case setBlocked(Conversation?, Bool, former: TrustStatus? = nil)
        case setFriend(Conversation?, Bool)
        case ping(Conversation?, PeerID, showsPath: Bool)
        /// The neighbours, for the list of peers.
        case who(Conversation?)
        /// The link of this node, for the user of a peer to scan.
        case verificationLink(Conversation?)
        /// The proof of the peer whose link the user has pasted.
        case verify(Conversation?)
        /// The user's answer to an offer.
        /// - Parameters:
        ///   - subject: the item and its peer; escaped for a terminal.
        ///   - conversation: that of the question; nil where it has none.
        case answer(PromptAnswer, subject: String, in: Conversation?)

        /// Whether the user waits for the reply to a command, and nothing else says whether it was done. A transfer that is cancelled
        /// ends with its node.
        var isCommand: Bool {
            switch self {
            case .clear, .lifetime, .search, .setBlocked, .setFriend, .ping, .verificationLink, .verify, .answer: true
            case .contacts, .conversations, .history, .sendLine, .markRead, .lookup, .sendFile, .cancel, .who: false
            }
        }
    }

    /// How the recording of a voice note has ended.
    enum RecordingOutcome: Sendable {
        case saved(path: String)
        case discarded
        case failed(reason: String)
    }

    enum Input: Sendable {
        case key(TerminalKey)
        case event(ControlEvent)
        case replied(RequestTag, Result<ControlReply, ControlFailure>)
        case resized(TerminalSize)
        /// Completions of a path.
        case paths(String, [String])
        /// A conversation was written to a file, or could not be.
        case exported(Conversation, Result<String, ControlFailure>)
        /// The files of a conversation, the oldest first.
        case files(PeerID, [SharedItem])
        /// Peers of the files of this machine.
        case remembered([Contact])
        /// The peers that a name which is looked for selects in the files of this machine.
        case stored(name: String, Set<PeerID>)
        /// The recording of a voice note for a peer has ended.
        case recorded(PeerID, RecordingOutcome)
        /// This machine has lost its network, or has one again.
        case network(NetworkNotice.State)
        /// A voice note could not be played.
        case playbackFailed(Conversation?, reason: String)
        /// A picture could not be shown.
        case pictureFailed(Conversation?, reason: String)
        /// The user has ended the input of plain lines.
        case inputEnded
        /// The node has stopped for good.
        case nodeEnded
        /// The node has stopped, and another one has taken over.
        case nodeReplaced
    }

    enum Reaction: Sendable, Hashable {
        case request(ControlRequest, RequestTag)
        /// Sends a file, by the path that the user typed.
        /// - Parameter isEncrypted: false for an app that takes only files that all relays can read.
        case sendFile(String, PeerID, isEncrypted: Bool = true, RequestTag)
        case listPaths(String)
        /// Writes a conversation to a new file in the inbox.
        case export(Conversation, name: String)
        /// Reads the files that were sent to or received from a peer before the screen was shown.
        case listFiles(PeerID, before: WallTime)
        /// Reads the names of peers that are in no list of the node, such as blocked ones.
        case recall(Set<PeerID>)
        /// Ends the command, and removes the key and everything that is stored.
        case erase
        /// Records a voice note on the terminal.
        case record(PeerID, name: String)
        /// Plays a voice note on the terminal.
        /// - Parameter note: the id or path that the user typed; nil for the newest received note of the conversation, or of all
        ///   peers where the conversation is not with a peer.
        case play(note: String?, in: Conversation?)
        /// Shows a received picture on the terminal, until a key is pressed: that of the name or path that the user typed, or else the
        /// newest one of the conversation, or of all peers where the conversation is not with a peer.
        case showPicture(String?, in: Conversation?)
        case bell
        /// Draws all rows again.
        case redraw
        case suspend
        case quit
    }

    let settings: Settings
    /// Whether a node, this one or an earlier one, was asked.
    private(set) var hasStarted = false
    private(set) var columns = 80
    private(set) var rows = 24
    var contacts: [PeerID: Contact] = [:]
    var views = ConversationViews()
    var offers = ChatOffers()
    private(set) var network = NetworkNotice.State.available
    /// Whether the last frame that was drawn shows the public room.
    private var isPublicRoomShown = false
    /// Whether the node has ended and no other one takes over: no line can be sent.
    private(set) var hasNodeEnded = false
    /// Whether the user was warned that quitting drops lines whose peer is not found yet; another such line resets it.
    var hasWarnedOfQuitting = false
    /// Whether the input of plain lines has ended, and the chat has not yet.
    private(set) var hasInputEnded = false
    /// The lines that were not sent after the end of the input; escaped for a terminal.
    private(set) var unsentLines: [String] = []
    /// The command that is done when the user enters it again, and its conversation.
    var unconfirmed: (command: String, conversation: Conversation?)?
    /// The typed commands to which the node has not replied yet.
    var pendingCommands: [(line: String, tag: RequestTag)] = []
    /// The items that were written as plain lines.
    var written = WrittenLines()
    private var bells = MinimumInterval(.seconds(3))
    /// The requests of the contacts.
    private var contactsRequests = MinimumInterval(.seconds(3))
    /// The peers of conversations that are in no list of the node, and were looked for in the files.
    private var recalled: Set<PeerID> = []
    var announcedPeers = AnnouncedPeers()

    /// Number of messages loaded at once on a full screen.
    static let historyPageCount = 50

    /// Number of messages loaded at once. Plain lines cannot be scrolled up to load more.
    var historyPageCount: Int { settings.isPlain ? max(Self.historyPageCount, settings.historyLimit) : Self.historyPageCount }

    init(_ settings: Settings) {
        self.settings = settings
    }

    /// The first requests.
    mutating func start(at now: WallTime) -> [Reaction] {
        hasStarted = true
        contactsRequests.record(at: now)
        var reactions = Self.initialRequests
        switch settings.opening {
        case .peer(let name): reactions += lookUp(name, at: now)
        case .publicRoom: reactions += show(.publicRoom, at: now)
        case .latest: views.visible.addNotice("/chat NAME opens a conversation; /help lists all commands", at: now)
        }
        return reactions
    }

    private static let initialRequests: [Reaction] = [.request(.contacts, .contacts), .request(.conversations, .conversations)]

    static let nodeEndedNotice = "the node has stopped; /quit, and start nearshare chat again"
    private static let interruptionNotice = "files that the former node was sending or receiving are interrupted"
    /// In the input line, the next thing that the user types would be appended to it.
    var unsentAdvice: String { settings.isPlain ? "enter the line again" : "Up brings the line back" }

    /// Ends what refers to a node that has ended by its numbers and ids, or waits for it: questions, transfers and commands. Messages
    /// have the numbers of the store, which the next node reads.
    private mutating func endNodeState(at now: WallTime) {
        var hasInterrupted = false
        for index in views.indices where views[index].hasRunningTransfers {
            views[index].interruptTransfers(at: now)
            hasInterrupted = true
        }
        // Those of other conversations are not on the screen.
        if hasInterrupted { addNotice(Self.interruptionNotice, in: views.visible.conversation, at: now) }
        for ended in offers.endAll(at: now) { addNotice(aboutEnded: ended, at: now) }
        for command in pendingCommands {
            addNotice(aboutUnconfirmed: command.line, reason: "the node ended before it replied", at: now)
        }
        pendingCommands = []
    }

    /// - Parameter reason: escaped for a terminal.
    private mutating func addNotice(aboutUnconfirmed command: String, reason: String, at now: WallTime) {
        let shown = TerminalText.escaped(command, columns: 200)
        addNotice("perhaps not done: \(shown): \(reason)", in: views.visible.conversation, at: now)
    }

    /// The requests to another node. Items and input lines are kept.
    private mutating func resume(at now: WallTime) -> [Reaction] {
        hasNodeEnded = false
        contactsRequests.record(at: now)
        addNotice("this chat goes on through another node of this machine", in: views.visible.conversation, at: now)
        endNodeState(at: now)
        views.discardPendingRequests()
        return Self.initialRequests + (views.visibleIndex.map { load($0) } ?? [])
            + views.openLookups.map { Self.request($0.name) }
    }

    mutating func handle(_ input: Input, at now: WallTime) -> [Reaction] {
        let reactions = react(to: input, at: now)
        addSharedNameNotice(at: now)
        return reactions + refreshContacts(after: input, at: now) + markVisibleRead() + recallPeers()
            + quitAfterInput(at: now)
    }

    /// Ends the command once its input has ended and no search runs for which lines wait: no further input can confirm that they are
    /// dropped.
    private mutating func quitAfterInput(at now: WallTime) -> [Reaction] {
        guard hasInputEnded, !views.openLookups.contains(where: { $0.isRunning && !$0.lines.isEmpty }) else { return [] }
        abandonLines(at: now)
        return [.quit]
    }

    /// Ends the searches, and records which lines are not sent: those that wait for a peer, and plain ones that were held back.
    mutating func abandonLines(at now: WallTime) {
        hasInputEnded = true
        for index in views.indices {
            if let lookup = views[index].lookup {
                views[index].setLookup(ConversationView.Lookup(name: lookup.name, isRunning: false))
                for line in lookup.lines { addUnsent(line, in: index, at: now) }
            }
            if settings.isPlain, let held = views[index].removeHeldLine() { addUnsent(held, in: index, at: now) }
        }
        hasInputEnded = false
    }

    /// Adds a notice that a line was not sent. Where the input has ended, the command ends with it, too.
    mutating func addUnsent(_ line: String, in index: Int, at now: WallTime) {
        let text = "not sent: \(TerminalText.escaped(line, columns: 200))"
        views[index].addNotice(text, at: now)
        recordUnsent(text)
    }

    /// Records the sentence about lines that were not sent, for the end of the command, where the input has ended.
    mutating func recordUnsent(_ sentence: String) {
        if hasInputEnded { unsentLines.append(sentence) }
    }

    /// Adds a notice, once, that lines of the visible conversation wait for a peer that is away, while another device with its name
    /// is near: the key that is away may have been replaced (K2).
    private mutating func addSharedNameNotice(at now: WallTime) {
        guard case .peer(let id)? = views.visible.conversation, !announcedPeers.isSharedNameNoticeSuppressed(for: id),
            let contact = contacts[id], !contact.isNear,
            let notice = SharedName.notice(for: contact, among: Array(contacts.values))
        else { return }
        announcedPeers.suppressSharedNameNotice(for: id)
        addNotice(notice, in: .peer(id), at: now)
    }

    /// Reads the names of the peers of conversations that the node has not listed, or that have left under another one's name, once.
    private mutating func recallPeers() -> [Reaction] {
        var unlisted: Set<PeerID> = []
        for view in views {
            guard case .peer(let peer)? = view.conversation else { continue }
            if contacts[peer].map(Self.mayBeOutdated) ?? true { unlisted.insert(peer) }
        }
        defer { recalled = unlisted }
        return unlisted.isSubset(of: recalled) ? [] : [.recall(unlisted.subtracting(recalled))]
    }

    /// Whether a contact is what the node has last listed of a peer that claimed another one's name, and has left: its stored name may
    /// be its own.
    private static func mayBeOutdated(_ contact: Contact) -> Bool {
        if case .nameClash = contact.trustStatus { !contact.isNear } else { false }
    }

    /// Requests the contacts again while the user types: another command that renames a peer causes no event of the node.
    private mutating func refreshContacts(after input: Input, at now: WallTime) -> [Reaction] {
        guard case .key = input, hasStarted, !hasNodeEnded, contactsRequests.admit(at: now) else { return [] }
        return [.request(.contacts, .contacts)]
    }

    private mutating func react(to input: Input, at now: WallTime) -> [Reaction] {
        switch input {
        case .key(let key): return handle(key, at: now)
        case .event(let event): return handle(event, at: now)
        case .replied(let tag, let result):
            if let index = pendingCommands.firstIndex(where: { $0.tag == tag }) {
                let command = pendingCommands.remove(at: index)
                if case .failure(let failure) = result, failure.kind == .gone {
                    addNotice(aboutUnconfirmed: command.line, reason: TextLayout.sanitized(failure.description), at: now)
                    return []
                }
            }
            return handle(result, for: tag, at: now)
        case .resized(let size):
            columns = max(1, size.columns)
            rows = max(1, size.rows)
            return []
        case .paths(let path, let candidates):
            completePath(path, with: candidates, at: now)
            return []
        case .files(let peer, let files):
            if let index = views.index(of: .peer(peer)) { for file in files { views[index].insert(file) } }
            return []
        case .remembered(let peers):
            // The node knows more about those that it has listed meanwhile. The warning about a key that is not stored stays.
            for peer in peers {
                let isWanted = contacts[peer.id].map { Self.mayBeOutdated($0) && peer.trustStatus.isKnown } ?? true
                if isWanted { contacts[peer.id] = peer }
            }
            return []
        case .stored(let name, let peers):
            // A later answer may have the name that a peer has taken since.
            if let index = views.index(ofLookup: name), var lookup = views[index].lookup, lookup.peersStoredOnDisk == nil {
                lookup.peersStoredOnDisk = peers
                views[index].setLookup(lookup)
            }
            return []
        case .recorded(let peer, .saved(let path)): return [.sendFile(path, peer, .sendFile(.peer(peer), path))]
        case .exported(let conversation, .success(let path)):
            addNotice("written to \(TerminalText.escaped(path, columns: 1_000))", in: conversation, at: now)
            return []
        case .exported(let conversation, .failure(let failure)):
            addNotice("not written: \(TextLayout.sanitized(failure.description))", in: conversation, at: now)
            return []
        case .recorded(_, .discarded): return []
        case .recorded(let peer, .failed(let reason)):
            addNotice(reason, in: .peer(peer), at: now)
            return []
        case .playbackFailed(let conversation, let reason):
            addReply("not played: \(TextLayout.sanitized(reason))", in: conversation, at: now)
            return []
        case .pictureFailed(let conversation, let reason):
            addReply("not shown: \(TextLayout.sanitized(reason))", in: conversation, at: now)
            return []
        case .network(let state):
            if state != network { addNotice(state.text, in: views.visible.conversation, at: now) }
            network = state
            return []
        case .inputEnded:
            hasInputEnded = true
            return []
        case .nodeEnded:
            for lookup in views.openLookups { failed(.lookup(lookup.name), "the node has stopped", at: now) }
            hasNodeEnded = true
            addNotice(Self.nodeEndedNotice, in: views.visible.conversation, at: now)
            endNodeState(at: now)
            return []
        case .nodeReplaced: return resume(at: now)
        }
    }

    /// Adds a notice to the view of a conversation; to the visible one where it has none.
    /// - Parameter text: escaped for a terminal.
    mutating func addNotice(_ text: String, in conversation: Conversation?, at now: WallTime) {
        if let conversation, let index = views.index(of: conversation) {
            views[index].addNotice(text, at: now)
        } else {
            views.visible.addNotice(text, at: now)
        }
    }

    /// Adds a reply of the node about a peer to the view in which the user has typed the command, and shows it there: it is all that
    /// the command prints.
    mutating func addReply(_ text: String, in conversation: Conversation?, at now: WallTime) {
        addNotice(text, in: conversation, at: now)
        if views.visible.conversation == conversation { views.visible.position = .end }
    }

    /// Adds a reply to what the user has done to the visible view, and shows it.
    /// - Parameter text: escaped for a terminal.
    mutating func addNotice(_ text: String, at now: WallTime) {
        views.visible.addNotice(text, at: now)
        views.visible.position = .end
    }

    // MARK: Conversations

    /// Ends the command, unless lines would be lost of which the user has not been warned.
    mutating func quit(at now: WallTime) -> [Reaction] {
        let waiting = views.openLookups.first { !$0.lines.isEmpty }
        guard let waiting, !hasWarnedOfQuitting else { return [.quit] }
        hasWarnedOfQuitting = true
        addNotice(
            "lines for \(TerminalText.escaped(waiting.name, columns: 40)) are not sent yet; quit again to drop them", at: now)
        return []
    }

    /// Records that the present state has been drawn.
    mutating func recordDrawn() {
        isPublicRoomShown = views.visible.conversation == .publicRoom
    }

    /// Whether a line may go to the visible conversation: the public room must have been on the screen when Enter was pressed.
    var canSend: Bool { views.visible.conversation != .publicRoom || isPublicRoomShown }

    /// Makes a conversation visible.
    mutating func show(_ conversation: Conversation, at now: WallTime) -> [Reaction] {
        guard let index = open(conversation) else {
            addNotice("too many conversations are open", at: now)
            return []
        }
        return showView(index)
    }

    mutating func showView(_ index: Int) -> [Reaction] {
        guard views.indices.contains(index) else { return [] }
        views.show(index)
        return load(index)
    }

    /// Switches to the next or previous conversation.
    mutating func step(_ distance: Int) -> [Reaction] {
        let count = views.count
        guard let visible = views.visibleIndex else { return showView(distance > 0 ? 0 : count - 1) }
        return showView((visible + distance + count) % count)
    }

    /// The view of a conversation, which is added where there is none; nil when too many are open.
    mutating func open(_ conversation: Conversation) -> Int? { views.open(conversation, isProtected: isFriend) }

    func isFriend(_ peer: PeerID) -> Bool { contacts[peer]?.isFriend == true }

    /// Loads the newest messages, once.
    private mutating func load(_ index: Int) -> [Reaction] {
        guard let conversation = views[index].conversation, views[index].beginLoading() else { return [] }
        return [
            .request(.history(conversation, before: nil, limit: historyPageCount), .history(conversation))
        ]
    }

    /// Marks the lines of the visible conversation as read, unless the newest are below the visible rows.
    private mutating func markVisibleRead() -> [Reaction] {
        guard let conversation = views.visible.conversation, views.visible.position == .end, views.visible.hasUnreadMessages
        else {
            return []
        }
        // Which of the stored lines are unread, and have to be written, is known once they are loaded.
        if settings.isPlain, [.notRequested, .loadingNewest].contains(views.visible.history) { return [] }
        views.visible.markReceivedRead()
        return [.request(.markRead(conversation, notifiesAuthors: settings.sendsReadReceipts), .markRead)]
    }

    /// Loads messages older than those of the visible view.
    mutating func loadOlder() -> [Reaction] {
        guard let conversation = views.visible.conversation,
            let oldest = views.visible.beginLoadingOlder(count: historyPageCount)
        else { return [] }
        return [
            .request(
                .history(conversation, before: oldest, limit: historyPageCount), .history(conversation))
        ]
    }

    // MARK: The node

    private mutating func handle(_ event: ControlEvent, at now: WallTime) -> [Reaction] {
        switch event {
        case .chatMessage(let message, _): return insert(message, at: now)
        case .chatMessageChanged(let id, let conversation, let status, let reason):
            if let index = views.index(of: conversation) {
                views[index].updateStatus(of: id, to: status, reason: reason)
            }
        case .lifetimeChanged(let conversation, let lifetime):
            if let index = views.index(of: conversation) { views[index].lifetime = lifetime.current }
        case .messagesExpired(let conversation, let end):
            if let index = views.index(of: conversation) { views[index].removeExpired(until: end) }
        case .contacts(let all): return setContacts(all, at: now)
        case .transfer(let transfer):
            if let index = open(transfer.conversation) { views[index].update(transfer, at: now) }
        // Not at the end of a view in which the user reads further up.
        case .notice(let text, nil, _): views.visible.addNotice(TextLayout.sanitized(text), at: now)
        case .notice(let text, let conversation?, let item):
            addNotice(TextLayout.sanitized(text), about: item, in: conversation, at: now)
        case .receiving(.prompt(let question)): return show(question, at: now)
        case .receiving(.promptEnded(let number)):
            if let ended = offers.end(number, at: now) { addNotice(aboutEnded: ended, at: now) }
        case .receiving(.arrived(let arrival, _)): return handle(arrival, at: now)
        case .messageChanged, .received, .receiving: break
        }
        return []
    }

    /// Adds a notice about what a peer sends to its conversation, also where another one is visible.
    /// - Parameter item: the path of the received item; nil for other notices.
    private mutating func addNotice(_ text: String, about item: String?, in conversation: Conversation, at now: WallTime) {
        let index = open(conversation)
        // The start page, where its question was asked.
        if index == nil || views.visibleIndex == nil { views.visible.addNotice(text, at: now) }
        if let index { views[index].addNotice(text, about: item, at: now) }
    }

    /// Lists a file or text in the conversation to which it belongs: a node without this screen sends no notices of it.
    private mutating func handle(_ arrival: Arrival, at now: WallTime) -> [Reaction] {
        guard let conversation = arrival.conversation ?? arrival.sender.map({ .peer($0) }),
            let index = views.index(of: conversation)
        else { return [] }
        let isVisible = index == views.visibleIndex
        if !isVisible { views[index].unreadCount += 1 }
        let reactions = isVisible || conversation == .publicRoom ? [] : notify(at: now)
        guard case .peer(let sender) = conversation else {
            // The history does not tell what was sent to everyone.
            if !arrival.path.isEmpty { views[index].insert(SharedItem(arrival, at: now), isNew: true) }
            return reactions
        }
        guard views[index].opened != nil else { return reactions }
        return reactions + [.listFiles(sender, before: WallTime(milliseconds: .max))]
    }

    private mutating func addNotice(aboutEnded question: OpenPrompt, at now: WallTime) {
        addNotice("no longer open: \(Self.subject(of: question))", in: question.conversation, at: now)
    }

    /// Asks about an offer, in the conversation to which it belongs.
    /// - Parameter question: as the node has asked it.
    private mutating func show(_ question: OpenPrompt, at now: WallTime) -> [Reaction] {
        let question = offers.add(question, at: now)
        let index = question.conversation.flatMap { open($0) } ?? views.visibleIndex
        // The start page, where the user has no other conversation, is gone once one is opened.
        if views.visibleIndex == nil { addNotices(about: question, in: nil, at: now) }
        if let index {
            addNotices(about: question, in: index, at: now)
            if index != views.visibleIndex { views[index].unreadCount += 1 }
            if case .peer? = question.conversation, let name = question.peerName { views[index].claimedName = name }
        }
        return notify(at: now)
    }

    /// - Parameter index: of the view; nil for the visible one.
    private mutating func addNotices(about question: OpenPrompt, in index: Int?, at now: WallTime) {
        var lines = (["number \(question.number): \(question.title)"] + question.lines).map { TextLayout.sanitized($0) }
        lines.append(Self.answers(to: question))
        if let index {
            views[index].addQuestion(lines, about: question.number, at: now)
        } else {
            views.visible.addQuestion(lines, about: question.number, at: now)
        }
    }

    /// The item and the peer of a question, escaped for a terminal.
    static func subject(of question: OpenPrompt) -> String { TextLayout.sanitized(question.subject ?? question.title) }

    private static func answers(to question: OpenPrompt) -> String {
        "/accept \(question.number) or /decline \(question.number)"
    }

    /// Asks about the open offers again, of which only the start page, which is gone, has asked.
    mutating func showOpenOffers(at now: WallTime) {
        for question in offers.open {
            let isShown = views.contains { view in view.items.contains { $0.content == .notice(Self.answers(to: question)) } }
            if !isShown { addNotices(about: question, in: nil, at: now) }
        }
    }

    private mutating func insert(_ message: ChatMessage, at now: WallTime) -> [Reaction] {
        guard let index = open(message.conversation), views[index].insert(message) else { return [] }
        if views[index].position != .end { views[index].newBelowCount += 1 }
        if message.isLocal { return [] }
        if index == views.visibleIndex, views[index].position == .end { return [] }
        if message.status < .read { views[index].unreadCount += 1 }
        return message.conversation == .publicRoom ? [] : notify(at: now)
    }

    /// The bell for a received line. Lines of the public room are not addressed to the user and do not ring it.
    private mutating func notify(at now: WallTime) -> [Reaction] {
        guard !settings.isQuiet, bells.admit(at: now) else { return [] }
        return [.bell]
    }

    /// Records the contacts that the node lists.
    mutating func setContacts(_ all: [Contact], at now: WallTime) -> [Reaction] {
        // No list of the node has blocked peers, nor new ones that are away: conversations with them may be open.
        var others = contacts.filter { views.index(of: .peer($0.key)) != nil || $0.value.trustStatus.isBlocked }
        for id in others.keys { others[id]?.isNear = false }
        let listed = all.map { contact in
            // The node knows the name of a peer that has never written only while it is in range.
            var named = contact
            if contact.name.claimed == contact.id.hex, let known = others[contact.id] { named.name = known.name }
            return (contact.id, named)
        }
        let formerlyNear = Set(contacts.values.filter(\.isNear).map(\.id))
        contacts = Dictionary(listed, uniquingKeysWith: { $1 }).merging(others) { listed, _ in listed }
        let hasNewPeer = contacts.values.contains { $0.isNear && !formerlyNear.contains($0.id) }
        return resolvePausedLookups(at: now) + (hasNewPeer ? repeatedRequests : [])
    }
}
