internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A full-screen conversation as a value: keys and events in, pictures and wishes out. It reads no clock, terminal or file.
struct ChatScreen: Sendable {
    /// What is seen first.
    enum Opening: Sendable, Hashable {
        /// Whom the person has named.
        case person(String)
        case everybody
        /// The conversation that somebody spoke in last.
        case latest
    }

    /// A moment as people here read it.
    struct LocalTime: Sendable, Hashable {
        /// "Sat 21 Nov 2026"
        var day: String
        /// "14:05"
        var clock: String
    }

    struct Settings: Sendable {
        var opening = Opening.latest
        /// No bell.
        var isQuiet = false
        /// What can be told by colour is; otherwise by words.
        var hasColor = true
        /// Others get no sign that needs more than ASCII.
        var hasUTF8 = true
        var localTime: @Sendable (WallTime) -> LocalTime
    }

    /// What an answer belongs to.
    enum Ticket: Sendable, Hashable {
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
        case answered(Ticket, Result<ControlReply, ControlFailure>)
        case resized(TerminalSize)
        /// What a path could go on with, for the path that was asked about.
        case paths(String, [String])
        /// The recorder has ended: a path, or why there is none.
        case recorded(Conversation, path: String?, reason: String?)
        /// The node has ended, and nothing takes its place.
        case gone
        /// The node has ended, and another one is there instead.
        case reopened
    }

    enum Effect: Sendable, Hashable {
        case ask(ControlRequest, Ticket)
        /// Sends what the person calls so from where they are.
        case sendFile(String, PeerID, Ticket)
        case listPaths(String)
        /// Hands the terminal to the recorder.
        case record(PeerID, name: String)
        case bell
        /// Something else has written on the terminal.
        case redraw
        case suspend
        case quit
    }

    let settings: Settings
    /// A node has been asked already, this one or another.
    private(set) var hasStarted = false
    private(set) var columns = 80
    private(set) var rows = 24
    var people: [PeerID: Contact] = [:]
    /// Everybody's first, then persons' in the order in which they were opened.
    var rooms: [ConversationView] = [ConversationView(.everybody)]
    /// Where nothing is said: seen until a conversation is chosen.
    var lobby = ConversationView(nil)
    /// nil for the lobby.
    var current: Int?
    /// Who was looked for last: what was found later is not jumped to.
    var wanted: String?
    private var lastBell: WallTime?

    /// Lines that are fetched at once.
    static let page = 50
    /// Strangers with a key for each line open no more than these.
    static let maximumRooms = 300
    private static let bellInterval: Int64 = 3000
    /// Seconds that somebody is waited for.
    private static let findTimeout = Duration.seconds(5)

    init(_ settings: Settings) {
        self.settings = settings
    }

    /// What to ask at first.
    mutating func start(at now: WallTime) -> [Effect] {
        hasStarted = true
        var effects = Self.questions
        switch settings.opening {
        case .person(let name): effects += find(name, at: now)
        case .everybody: effects += open(.everybody)
        case .latest: lobby.note("/chat NAME begins a conversation; /help lists what else can be done", at: now)
        }
        return effects
    }

    private static let questions: [Effect] = [.ask(.contacts, .people), .ask(.conversations, .conversations)]

    /// What to ask another node. What was written and is being written stays.
    private mutating func startAgain(at now: WallTime) -> [Effect] {
        note("the node has ended; another one has taken over", in: active.conversation, at: now)
        for index in rooms.indices { rooms[index].forgetQuestions() }
        return Self.questions + (current.map { load($0) } ?? []) + (wanted.map { find($0, at: now) } ?? [])
    }

    mutating func handle(_ input: Input, at now: WallTime) -> [Effect] {
        switch input {
        case .key(let key): return press(key, at: now)
        case .event(let event): return take(event, at: now)
        case .answered(let ticket, let result): return answered(ticket, result, at: now)
        case .resized(let size):
            columns = max(1, size.columns)
            rows = max(1, size.rows)
            return []
        case .paths(let path, let candidates):
            complete(path, with: candidates)
            return []
        case .recorded(let conversation, let path, let reason):
            if let reason { note(reason, in: conversation, at: now) }
            guard let path, case .peer(let peer) = conversation else { return [] }
            return [.sendFile(path, peer, .sendFile(conversation, path))]
        case .gone:
            note("the node has ended; /quit, and start nearshare chat again", in: active.conversation, at: now)
            return []
        case .reopened: return startAgain(at: now)
        }
    }

    /// What is looked at.
    var active: ConversationView {
        get { current.map { rooms[$0] } ?? lobby }
        set {
            if let current { rooms[current] = newValue } else { lobby = newValue }
        }
    }

    mutating func note(_ text: String, in conversation: Conversation?, at now: WallTime) {
        if let index = rooms.firstIndex(where: { $0.conversation == conversation }) {
            rooms[index].note(text, at: now)
        } else {
            active.note(text, at: now)
        }
    }

    mutating func note(_ text: String, at now: WallTime) {
        active.note(text, at: now)
        active.position = .end
    }

    // MARK: Conversations

    mutating func find(_ name: String, at now: WallTime) -> [Effect] {
        wanted = name
        note("looking for \(TerminalText.escaped(name, columns: 40))…", at: now)
        return [.ask(.find(name: name, timeout: Self.findTimeout), .find(name))]
    }

    /// Shows a conversation.
    mutating func open(_ conversation: Conversation) -> [Effect] {
        guard let index = room(of: conversation) else { return [] }
        return select(index)
    }

    mutating func select(_ index: Int) -> [Effect] {
        guard rooms.indices.contains(index) else { return [] }
        current = index
        rooms[index].missedCount = 0
        wanted = nil
        return load(index) + markRead(index)
    }

    /// The next or the previous one.
    mutating func step(_ distance: Int) -> [Effect] {
        let count = rooms.count
        guard let current else { return select(distance > 0 ? 0 : count - 1) }
        return select((current + distance + count) % count)
    }

    /// - Returns: nil when there are too many.
    private mutating func room(of conversation: Conversation) -> Int? {
        if let index = rooms.firstIndex(where: { $0.conversation == conversation }) { return index }
        guard rooms.count < Self.maximumRooms else { return nil }
        rooms.append(ConversationView(conversation))
        return rooms.count - 1
    }

    /// The newest lines of a conversation that none were fetched of.
    private mutating func load(_ index: Int) -> [Effect] {
        guard let conversation = rooms[index].conversation, !rooms[index].isLoading, !rooms[index].isComplete,
            !rooms[index].wasLoaded
        else { return [] }
        rooms[index].isLoading = true
        rooms[index].wasLoaded = true
        return [.ask(.history(conversation, before: nil, limit: Self.page), .history(conversation, isOlder: false))]
    }

    private mutating func markRead(_ index: Int) -> [Effect] {
        guard let conversation = rooms[index].conversation, rooms[index].hasUnseenEntries else { return [] }
        rooms[index].markOthersRead()
        return [.ask(.markRead(conversation), .markRead)]
    }

    /// Older lines, when one looks at the oldest that are here.
    mutating func loadOlder() -> [Effect] {
        guard let conversation = active.conversation, !active.isLoading, !active.isComplete,
            let oldest = active.oldestNumber
        else { return [] }
        active.isLoading = true
        return [.ask(.history(conversation, before: oldest, limit: Self.page), .history(conversation, isOlder: true))]
    }

    // MARK: The node

    private mutating func take(_ event: ControlEvent, at now: WallTime) -> [Effect] {
        switch event {
        case .entry(let entry): return take(entry, at: now)
        case .marked(let id, let conversation, let mark, let reason):
            if let index = rooms.firstIndex(where: { $0.conversation == conversation }) {
                _ = rooms[index].mark(id, mark)
                rooms[index].reasons[id] = reason
            }
        case .contacts(let all): setPeople(all)
        case .transfer(let transfer):
            if let index = room(of: .peer(transfer.peer)) { rooms[index].show(transfer, at: now) }
        case .notice(let text): note(TerminalText.escaped(text, columns: 400), at: now)
        case .messageChanged, .received: break
        }
        return []
    }

    private mutating func take(_ entry: ChatMessage, at now: WallTime) -> [Effect] {
        guard let index = room(of: entry.conversation), rooms[index].insert(entry) else { return [] }
        let isLookedAt = index == current
        if rooms[index].position != .end { rooms[index].missedCount += 1 }
        if entry.isOurs { return [] }
        if isLookedAt { return markRead(index) }
        if entry.status < .read { rooms[index].unreadCount += 1 }
        return entry.conversation == .everybody ? [] : ring(at: now)
    }

    /// Not for everybody's room, where any stranger could ring.
    private mutating func ring(at now: WallTime) -> [Effect] {
        guard !settings.isQuiet else { return [] }
        if let lastBell {
            let passed = now.milliseconds - lastBell.milliseconds
            // The clock may have been set back.
            guard passed >= Self.bellInterval || passed < 0 else { return [] }
        }
        lastBell = now
        return [.bell]
    }

    private mutating func setPeople(_ all: [Contact]) {
        people = Dictionary(all.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
    }

    private mutating func answered(
        _ ticket: Ticket, _ result: Result<ControlReply, ControlFailure>, at now: WallTime
    ) -> [Effect] {
        switch result {
        case .success(let reply): return succeeded(ticket, reply, at: now)
        case .failure(let failure):
            failed(ticket, TerminalText.escaped(failure.description, columns: 400), at: now)
            return []
        }
    }

    private mutating func succeeded(_ ticket: Ticket, _ reply: ControlReply, at now: WallTime) -> [Effect] {
        switch (ticket, reply) {
        case (.people, .contacts(let all)): setPeople(all)
        case (.conversations, .conversations(let all)): return take(all)
        case (.history(let conversation, let isOlder), .entries(let entries)):
            return take(entries, of: conversation, isOlder: isOlder)
        case (.find(let name), .contact(let person)):
            if people[person.id] == nil { people[person.id] = person }
            // Somebody who has gone on to something else is not called back.
            guard wanted == name else { return [] }
            return open(.peer(person.id))
        default: break
        }
        return []
    }

    private mutating func failed(_ ticket: Ticket, _ reason: String, at now: WallTime) {
        switch ticket {
        case .say(let conversation, let text):
            note("not sent: \(reason)", in: conversation, at: now)
            // What was written is not lost, unless something else is being written.
            if let index = rooms.firstIndex(where: { $0.conversation == conversation }), rooms[index].editor.isEmpty {
                rooms[index].editor.replace(with: text)
            }
        case .history(let conversation, _):
            if let index = rooms.firstIndex(where: { $0.conversation == conversation }) { rooms[index].isLoading = false }
            note(reason, in: conversation, at: now)
        case .sendFile(let conversation, let path):
            note("\(TerminalText.escaped(path, columns: 200)) is not sent: \(reason)", in: conversation, at: now)
        case .find(let name):
            if wanted == name { wanted = nil }
            note(reason, at: now)
        case .people, .conversations, .markRead: note(reason, at: now)
        }
    }

    private mutating func take(_ summaries: [ConversationSummary]) -> [Effect] {
        for summary in summaries {
            guard let index = room(of: summary.conversation), !rooms[index].contains(summary.last.id) else { continue }
            rooms[index].unreadCount = index == current ? 0 : summary.unreadCount
        }
        guard settings.opening == .latest, current == nil, wanted == nil, lobby.editor.isEmpty,
            let newest = summaries.first(where: { $0.conversation != .everybody })
        else { return [] }
        return open(newest.conversation)
    }

    private mutating func take(_ entries: [ChatMessage], of conversation: Conversation, isOlder: Bool) -> [Effect] {
        guard let index = rooms.firstIndex(where: { $0.conversation == conversation }) else { return [] }
        rooms[index].isLoading = false
        if entries.count < Self.page { rooms[index].isComplete = true }
        for entry in entries.reversed() { rooms[index].insert(entry) }
        return index == current ? markRead(index) : []
    }
}
