internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The full-screen chat as a state machine: keys and events in, effects and frames out. It has no clock, terminal or file.
struct ChatScreen: Sendable {
    /// The conversation that is opened first.
    enum Opening: Sendable, Hashable {
        /// The peer that the user has named.
        case person(String)
        case publicRoom
        /// The most recent conversation.
        case latest
    }

    struct Settings: Sendable {
        var opening = Opening.latest
        /// No bell.
        var isQuiet = false
        /// The terminal shows colours; otherwise words replace them.
        var hasColor = true
        /// The terminal decodes UTF-8; otherwise output is limited to ASCII.
        var hasUTF8 = true
        var localTime: @Sendable (WallTime) -> LocalTime
    }

    /// The request that a reply belongs to.
    enum RequestTag: Sendable, Hashable {
        case people
        case conversations
        case history(Conversation, isOlder: Bool)
        case say(Conversation, String)
        case markRead
        case find(String)
        case sendFile(Conversation, String)
    }

    enum Input: Sendable {
        case key(TerminalKey)
        case event(ControlEvent)
        case answered(RequestTag, Result<ControlReply, ControlFailure>)
        case resized(TerminalSize)
        /// Completions of a path.
        case paths(String, [String])
        /// The recording has ended: the path of the note, or a reason.
        case recorded(Conversation, path: String?, reason: String?)
        /// The node has stopped for good.
        case nodeEnded
        /// The node has stopped, and another one has taken over.
        case nodeReplaced
    }

    enum Effect: Sendable, Hashable {
        case ask(ControlRequest, RequestTag)
        /// Sends a file, by the path that the user typed.
        case sendFile(String, PeerID, RequestTag)
        case listPaths(String)
        /// Records a voice note on the terminal.
        case record(PeerID, name: String)
        case bell
        /// Draws all rows again.
        case redraw
        case suspend
        case quit
    }

    let settings: Settings
    /// Whether requests have been sent to a node, this one or an earlier one.
    private(set) var hasStarted = false
    private(set) var columns = 80
    private(set) var rows = 24
    var people: [PeerID: Contact] = [:]
    /// The public room first, then conversations in the order in which they were opened.
    var views: [ConversationView] = [ConversationView(.publicRoom)]
    /// The start page, shown until a conversation is opened.
    var startView = ConversationView(nil)
    /// Index of the visible view; nil for the start page.
    var current: Int?
    /// Whether the last frame that was drawn shows the public room.
    private var isPublicRoomShown = false
    /// Whether the user was told of lines that quitting drops.
    private var hasWarnedOfLines = false
    private var lastNotification: WallTime?
    private var useCount = 0

    /// Number of entries loaded at once.
    static let historyPageCount = 50
    /// Limit on views: an attacker may use a new key for each line. The view that was used least recently is removed for a new
    /// one (R6).
    static let maximumViewCount = 300
    /// Minimum time between bells.
    private static let bellInterval = Duration.seconds(3)
    /// Timeout of the search for a peer.
    private static let findTimeout = Duration.seconds(5)

    init(_ settings: Settings) {
        self.settings = settings
    }

    /// The first requests.
    mutating func start(at now: WallTime) -> [Effect] {
        hasStarted = true
        var effects = Self.initialRequests
        switch settings.opening {
        case .person(let name): effects += find(name, at: now)
        case .publicRoom: effects += open(.publicRoom, at: now)
        case .latest: startView.addNotice("/chat NAME opens a conversation; /help lists all commands", at: now)
        }
        return effects
    }

    private static let initialRequests: [Effect] = [.ask(.contacts, .people), .ask(.conversations, .conversations)]

    /// The requests to another node. Items and input lines are kept.
    private mutating func resume(at now: WallTime) -> [Effect] {
        addNotice("the node has stopped; another one has taken over", in: active.conversation, at: now)
        for index in views.indices { views[index].discardPendingRequests() }
        let names = views.compactMap(\.lookup).filter(\.isRunning).map(\.name)
        return Self.initialRequests + (current.map { load($0) } ?? []) + names.map(Self.search)
    }

    mutating func handle(_ input: Input, at now: WallTime) -> [Effect] {
        react(to: input, at: now) + markVisibleRead()
    }

    private mutating func react(to input: Input, at now: WallTime) -> [Effect] {
        switch input {
        case .key(let key): return press(key, at: now)
        case .event(let event): return handle(event, at: now)
        case .answered(let tag, let result): return handle(result, for: tag, at: now)
        case .resized(let size):
            columns = max(1, size.columns)
            rows = max(1, size.rows)
            return []
        case .paths(let path, let candidates):
            complete(path, with: candidates)
            return []
        case .recorded(let conversation, let path, let reason):
            if let reason { addNotice(reason, in: conversation, at: now) }
            guard let path, case .peer(let peer) = conversation else { return [] }
            return [.sendFile(path, peer, .sendFile(conversation, path))]
        case .nodeEnded:
            addNotice("the node has stopped; /quit, and start nearshare chat again", in: active.conversation, at: now)
            return []
        case .nodeReplaced: return resume(at: now)
        }
    }

    /// The visible view.
    var active: ConversationView {
        get { current.map { views[$0] } ?? startView }
        set {
            if let current { views[current] = newValue } else { startView = newValue }
        }
    }

    /// - Parameter text: escaped for a terminal.
    mutating func addNotice(_ text: String, in conversation: Conversation?, at now: WallTime) {
        if let conversation, let index = views.firstIndex(where: { $0.conversation == conversation }) {
            views[index].addNotice(text, at: now)
        } else {
            active.addNotice(text, at: now)
        }
    }

    /// - Parameter text: escaped for a terminal.
    mutating func addNotice(_ text: String, at now: WallTime) {
        active.addNotice(text, at: now)
        active.position = .end
    }

    // MARK: Conversations

    /// Looks for a peer. Its conversation is visible at once, so that no line goes to the one before.
    mutating func find(_ name: String, at now: WallTime) -> [Effect] {
        let index: Int
        if let same = views.firstIndex(where: { $0.lookup?.name == name }) {
            index = same
        } else if let current, views[current].lookup?.isRunning == false, views[current].editor.isEmpty {
            // A name that was mistyped leaves no tab behind.
            index = current
        } else {
            guard makeRoom() else {
                addNotice("too many conversations are open", at: now)
                return []
            }
            views.append(ConversationView(lookingFor: name))
            index = views.count - 1
        }
        views[index].lookup = ConversationView.Lookup(name: name, lines: views[index].lookup?.lines ?? [])
        current = index
        return [Self.search(name)]
    }

    private static func search(_ name: String) -> Effect { .ask(.find(name: name, timeout: findTimeout), .find(name)) }

    /// Holds a line until its peer is found.
    mutating func hold(_ text: String, at now: WallTime) {
        guard var lookup = active.lookup else { return }
        let name = TerminalText.escaped(lookup.name, columns: 40)
        guard lookup.isRunning else {
            active.editor.replace(with: text)
            return addNotice("\(name) was not found: /chat NAME looks for a peer", at: now)
        }
        lookup.lines.append(text)
        active.lookup = lookup
        addNotice("sent when \(name) is found: \(TerminalText.escaped(text, columns: 200))", at: now)
    }

    /// Makes the view of a name the conversation with the peer that was found, and sends its lines.
    private mutating func resolve(_ name: String, as peer: PeerID) -> [Effect] {
        guard let index = views.firstIndex(where: { $0.lookup?.name == name && $0.lookup?.isRunning == true }) else {
            return []
        }
        let conversation = Conversation.peer(peer)
        let lines = views[index].lookup?.lines ?? []
        var target = index
        if var existing = views.firstIndex(where: { $0.conversation == conversation }) {
            let pending = views.remove(at: index)
            if existing > index { existing -= 1 }
            views[existing].adoptInput(of: pending)
            target = existing
        } else {
            views[index].resolve(as: conversation)
        }
        let isVisible = current == index
        if let current, target != index, current > index { self.current = current - 1 }
        return (isVisible ? select(target) : [])
            + lines.map { .ask(.say($0, in: conversation), .say(conversation, $0)) }
    }

    /// Ends the command, unless lines would be lost of which the user has not been told.
    mutating func quit(at now: WallTime) -> [Effect] {
        let waiting = views.compactMap(\.lookup).first { $0.isRunning && !$0.lines.isEmpty }
        guard let waiting, !hasWarnedOfLines else { return [.quit] }
        hasWarnedOfLines = true
        addNotice(
            "lines for \(TerminalText.escaped(waiting.name, columns: 40)) are not sent yet; quit again to drop them", at: now)
        return []
    }

    /// Records that the present state has been drawn.
    mutating func recordDrawn() {
        isPublicRoomShown = active.conversation == .publicRoom
    }

    /// Whether a line may go to the visible conversation: the public room must have been on the screen when Enter was pressed.
    var mayWrite: Bool { active.conversation != .publicRoom || isPublicRoomShown }

    /// Makes a conversation visible.
    mutating func open(_ conversation: Conversation, at now: WallTime) -> [Effect] {
        guard let index = view(of: conversation) else {
            addNotice("too many conversations are open", at: now)
            return []
        }
        return select(index)
    }

    mutating func select(_ index: Int) -> [Effect] {
        guard views.indices.contains(index) else { return [] }
        current = index
        recordUse(of: index)
        return load(index)
    }

    /// Switches to the next or previous conversation.
    mutating func step(_ distance: Int) -> [Effect] {
        let count = views.count
        guard let current else { return select(distance > 0 ? 0 : count - 1) }
        return select((current + distance + count) % count)
    }

    /// The index of the view of a conversation, which is added if necessary.
    /// - Returns: nil when the limit is reached and every view is needed.
    private mutating func view(of conversation: Conversation) -> Int? {
        if let index = views.firstIndex(where: { $0.conversation == conversation }) {
            recordUse(of: index)
            return index
        }
        guard makeRoom() else { return nil }
        views.append(ConversationView(conversation))
        recordUse(of: views.count - 1)
        return views.count - 1
    }

    /// Removes a view that can be replaced when there are too many.
    /// - Returns: whether another view may be added.
    private mutating func makeRoom() -> Bool {
        guard views.count >= Self.maximumViewCount else { return true }
        guard let index = replaceableView else { return false }
        views.remove(at: index)
        if let current, index < current { self.current = current - 1 }
        return true
    }

    private mutating func recordUse(of index: Int) {
        useCount += 1
        views[index].lastUse = useCount
    }

    /// The view that a new one replaces, whose lines stay stored at the node: the one that was used least recently, but neither
    /// the visible one, nor a friend's, nor one with a draft. Those in which the user has written are last.
    private var replaceableView: Int? {
        func isNeeded(_ index: Int) -> Bool {
            guard index != current, case .peer(let peer)? = views[index].conversation else { return true }
            return people[peer]?.isFriend == true || !views[index].editor.isEmpty
        }
        func rank(_ index: Int) -> (Int, Int) { (views[index].hasLocalEntries ? 1 : 0, views[index].lastUse) }
        return views.indices.filter { !isNeeded($0) }.min { rank($0) < rank($1) }
    }

    /// Loads the newest entries, once.
    private mutating func load(_ index: Int) -> [Effect] {
        guard let conversation = views[index].conversation, !views[index].isLoading, !views[index].isComplete,
            !views[index].hasLoadedNewest
        else { return [] }
        views[index].isLoading = true
        views[index].hasLoadedNewest = true
        return [
            .ask(.history(conversation, before: nil, limit: Self.historyPageCount), .history(conversation, isOlder: false))
        ]
    }

    /// Marks the lines of the visible conversation as read, unless the newest are below the visible rows.
    private mutating func markVisibleRead() -> [Effect] {
        guard let conversation = active.conversation, active.position == .end, active.hasUnseenEntries else { return [] }
        active.markReceivedRead()
        return [.ask(.markRead(conversation), .markRead)]
    }

    /// Loads entries older than those of the visible view.
    mutating func loadOlder() -> [Effect] {
        guard let conversation = active.conversation, !active.isLoading, !active.isComplete, !active.isFull,
            let oldest = active.oldestNumber
        else { return [] }
        active.isLoading = true
        return [
            .ask(.history(conversation, before: oldest, limit: Self.historyPageCount), .history(conversation, isOlder: true))
        ]
    }

    // MARK: The node

    private mutating func handle(_ event: ControlEvent, at now: WallTime) -> [Effect] {
        switch event {
        case .entry(let entry, _): return insert(entry, at: now)
        case .marked(let id, let conversation, let mark, let reason):
            if let index = views.firstIndex(where: { $0.conversation == conversation }) {
                _ = views[index].setMark(mark, of: id)
                views[index].reasons[id] = reason
            }
        case .contacts(let all): setPeople(all)
        case .transfer(let transfer):
            if let index = view(of: .peer(transfer.peer)) { views[index].update(transfer, at: now) }
        case .notice(let text): addNotice(TerminalText.sanitized(text), at: now)
        case .messageChanged, .received: break
        }
        return []
    }

    private mutating func insert(_ entry: ChatMessage, at now: WallTime) -> [Effect] {
        guard let index = view(of: entry.conversation), views[index].insert(entry) else { return [] }
        if views[index].position != .end { views[index].newBelowCount += 1 }
        if entry.isOurs { return [] }
        if index == current {
            if views[index].position == .end { return [] }
        } else if entry.status < .read {
            views[index].unreadCount += 1
        }
        return entry.conversation == .publicRoom ? [] : notify(at: now)
    }

    /// The bell for a received line. Lines of the public room are not addressed to the user and do not ring it.
    private mutating func notify(at now: WallTime) -> [Effect] {
        guard !settings.isQuiet else { return [] }
        if let lastNotification {
            let passed = Duration.milliseconds(now.milliseconds - lastNotification.milliseconds)
            // The wall clock may have been set back.
            guard passed >= Self.bellInterval || passed < .zero else { return [] }
        }
        lastNotification = now
        return [.bell]
    }

    private mutating func setPeople(_ all: [Contact]) {
        people = Dictionary(all.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
    }

    private mutating func handle(
        _ result: Result<ControlReply, ControlFailure>, for tag: RequestTag, at now: WallTime
    ) -> [Effect] {
        switch result {
        case .success(let reply): return succeeded(tag, reply, at: now)
        case .failure(let failure):
            failed(tag, TerminalText.sanitized(failure.description), at: now)
            return []
        }
    }

    private mutating func succeeded(_ tag: RequestTag, _ reply: ControlReply, at now: WallTime) -> [Effect] {
        switch (tag, reply) {
        case (.people, .contacts(let all)): setPeople(all)
        case (.conversations, .conversations(let all)): return handle(all, at: now)
        case (.history(let conversation, let isOlder), .entries(let entries)):
            return insert(entries, of: conversation, isOlder: isOlder)
        case (.find(let name), .contact(let person)):
            if people[person.id] == nil { people[person.id] = person }
            return resolve(name, as: person.id)
        default: break
        }
        return []
    }

    private mutating func failed(_ tag: RequestTag, _ reason: String, at now: WallTime) {
        switch tag {
        case .say(let conversation, let text):
            addNotice("not sent: \(reason)", in: conversation, at: now)
            // The text returns to the input line, unless the user has begun another.
            if let index = views.firstIndex(where: { $0.conversation == conversation }), views[index].editor.isEmpty {
                views[index].editor.replace(with: text)
            }
        case .history(let conversation, let isOlder):
            if let index = views.firstIndex(where: { $0.conversation == conversation }) {
                views[index].isLoading = false
                // Requested again when the conversation is shown the next time.
                if !isOlder { views[index].hasLoadedNewest = false }
            }
            addNotice(reason, in: conversation, at: now)
        case .sendFile(let conversation, let path):
            addNotice("\(TerminalText.escaped(path, columns: 200)) could not be sent: \(reason)", in: conversation, at: now)
        case .find(let name):
            guard let index = views.firstIndex(where: { $0.lookup?.name == name && $0.lookup?.isRunning == true }) else {
                return
            }
            let lines = views[index].lookup?.lines ?? []
            views[index].lookup = ConversationView.Lookup(name: name, isRunning: false)
            views[index].addNotice(reason, at: now)
            for line in lines { views[index].addNotice("not sent: \(TerminalText.escaped(line, columns: 200))", at: now) }
        case .people, .conversations, .markRead: addNotice(reason, at: now)
        }
    }

    /// - Parameter summaries: the most recent first. Those beyond the limit of views have none until a line arrives.
    private mutating func handle(_ summaries: [ConversationSummary], at now: WallTime) -> [Effect] {
        for (age, summary) in summaries.enumerated() {
            let isKnown = views.contains { $0.conversation == summary.conversation }
            guard isKnown || views.count < Self.maximumViewCount, let index = view(of: summary.conversation) else { continue }
            if !isKnown { views[index].lastUse = -age }
            guard !views[index].contains(summary.last.id) else { continue }
            views[index].unreadCount = index == current ? 0 : summary.unreadCount
        }
        guard settings.opening == .latest, current == nil, startView.editor.isEmpty,
            let newest = summaries.first(where: { $0.conversation != .publicRoom })
        else { return [] }
        return open(newest.conversation, at: now)
    }

    private mutating func insert(_ entries: [ChatMessage], of conversation: Conversation, isOlder: Bool) -> [Effect] {
        guard let index = views.firstIndex(where: { $0.conversation == conversation }) else { return [] }
        views[index].isLoading = false
        if entries.count < Self.historyPageCount { views[index].isComplete = true }
        for entry in entries.reversed() { views[index].insert(entry) }
        return []
    }
}
