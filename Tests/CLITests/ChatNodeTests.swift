import Nearshare
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

/// Replies and events of the node, as the chat screen handles them.
@Suite("the chat screen and its node") struct ChatNodeTests {
    private static let anna = PeerID(hex: "1a2b3c4d5e6f7081")!
    private static let ben = PeerID(hex: "2b2b3c4d5e6f7081")!
    private static let start = WallTime(milliseconds: 1_000_000)

    private func screen(_ opening: ChatScreen.Opening = .publicRoom, isQuiet: Bool = false) -> ChatScreen {
        var settings = ChatScreen.Settings { _ in LocalTime(day: "today", clock: "12:00") }
        (settings.opening, settings.isQuiet) = (opening, isQuiet)
        var screen = ChatScreen(settings)
        _ = screen.handle(.resized(TerminalSize(columns: 90, rows: 30)), at: Self.start)
        _ = screen.start(at: Self.start)
        return screen
    }

    private func text(_ screen: ChatScreen) -> String { screen.render().lines.map(\.plainText).joined(separator: "\n") }

    private func line(_ number: Int, from author: PeerID? = anna, status: MessageStatus = .delivered) -> ChatMessage {
        ChatMessage(
            number: number, id: "l\(number)", conversation: .peer(author ?? Self.anna), author: author, authorName: nil,
            text: "text \(number)", when: Self.start, status: status)
    }

    @Test func `a line of another conversation rings the bell, at most every three seconds`() {
        var screen = screen()
        let bells = [0, 2_999, 3_000, 3_001, -60_000].enumerated().map { number, offset in
            let now = WallTime(milliseconds: Self.start.milliseconds + Int64(offset))
            return screen.handle(.event(.chatMessage(line(number + 1))), at: now).contains(.bell)
        }
        // A clock that was set back does not silence it.
        #expect(bells == [true, false, true, false, true])
        var quiet = self.screen(isQuiet: true)
        let reactions = quiet.handle(.event(.chatMessage(line(1))), at: Self.start)
        #expect(reactions == [.recall([Self.anna])])
    }

    @Test func `unread lines are counted from the node's summary, and cleared by opening the conversation`() {
        var screen = screen()
        let summary = ConversationSummary(conversation: .peer(Self.anna), last: line(9), unreadCount: 4)
        let opened = screen.handle(.replied(.conversations, .success(.conversations([summary]))), at: Self.start)
        #expect(opened == [.recall([Self.anna])] && screen.views.last?.unreadCount == 4)
        let reactions = screen.handle(.key(.control("n")), at: Self.start)
        #expect(reactions.contains(.request(.markRead(.peer(Self.anna)), .markRead)))
        #expect(screen.views.last?.unreadCount == 0)
    }

    @Test func `without a name the newest conversation with a peer is opened, not the public room`() {
        var screen = screen(.latest)
        let summaries = [
            ConversationSummary(conversation: .publicRoom, last: line(9), unreadCount: 0),
            ConversationSummary(conversation: .peer(Self.ben), last: line(8, from: Self.ben), unreadCount: 1),
            ConversationSummary(conversation: .peer(Self.anna), last: line(7), unreadCount: 1),
        ]
        _ = screen.handle(.replied(.conversations, .success(.conversations(summaries))), at: Self.start)
        #expect(screen.views.visible.conversation == .peer(Self.ben))
    }

    @Test func `history that could not be loaded is an error, and can be requested again`() {
        var screen = screen()
        let tag = ChatScreen.RequestTag.history(.publicRoom)
        #expect(screen.views.visible.history.isLoading)
        let failure = ControlFailure(.storage, "the disk is full")
        _ = screen.handle(.replied(tag, .failure(failure)), at: Self.start)
        #expect(!screen.views.visible.history.isLoading && text(screen).contains("the disk is full"))
        let again = screen.handle(.nodeReplaced, at: Self.start)
        #expect(again.contains(.request(.history(.publicRoom, before: nil, limit: ChatScreen.historyPageCount), tag)))
    }

    @Test func `history that could not be loaded is requested again when the conversation is shown again`() {
        var screen = screen()
        let tag = ChatScreen.RequestTag.history(.publicRoom)
        _ = screen.handle(.replied(tag, .failure(ControlFailure(.storage, "the disk is full"))), at: Self.start)
        let again = screen.handle(.key(.alt("1")), at: Self.start)
        #expect(again == [.request(.history(.publicRoom, before: nil, limit: ChatScreen.historyPageCount), tag)])
        // A failure to load older messages does not load the newest again.
        _ = screen.handle(.replied(tag, .success(.chatMessages([line(1)]))), at: Self.start)
        let older = ChatScreen.RequestTag.history(.publicRoom)
        _ = screen.handle(.replied(older, .failure(ControlFailure(.storage, "the disk is full"))), at: Self.start)
        let shown = screen.handle(.key(.alt("1")), at: Self.start)
        #expect(shown.isEmpty)
    }

    @Test func `fewer messages than a page are the whole history`() {
        var screen = screen()
        let tag = ChatScreen.RequestTag.history(.publicRoom)
        let messages = (1...3).map { line($0) }
        _ = screen.handle(.replied(tag, .success(.chatMessages(messages))), at: Self.start)
        #expect(screen.views.visible.history == .complete)
        let older = screen.loadOlder()
        #expect(older.isEmpty)
    }

    @Test("T1: a file that cannot be sent is named in its conversation, escaped")
    func fileFailure() {
        var screen = screen()
        _ = screen.handle(.event(.chatMessage(line(1))), at: Self.start)
        let tag = ChatScreen.RequestTag.sendFile(.peer(Self.anna), "a\u{1b}.jpg")
        _ = screen.handle(.replied(tag, .failure(ControlFailure(.tooLarge, "too large"))), at: Self.start)
        #expect(!text(screen).contains("too large"))
        _ = screen.handle(.key(.control("n")), at: Self.start)
        #expect(text(screen).contains("could not be sent: too large"))
        #expect(!text(screen).unicodeScalars.contains("\u{1b}"))
    }

    @Test func `completions that come after more was typed change nothing`() {
        var screen = screen()
        _ = screen.handle(.key(.text("/send ph")), at: Self.start)
        let asked = screen.handle(.key(.tab), at: Self.start)
        #expect(asked == [.listPaths("ph")])
        _ = screen.handle(.key(.text("x")), at: Self.start)
        _ = screen.handle(.paths("ph", ["photo.jpg"]), at: Self.start)
        #expect(screen.views.visible.editor.text == "/send phx")
        _ = screen.handle(.key(.backspace), at: Self.start)
        _ = screen.handle(.paths("ph", ["photo.jpg", "photos/"]), at: Self.start)
        #expect(screen.views.visible.editor.text == "/send photo")
    }

    @Test func `another node is asked for everything that was open`() {
        var screen = screen(.peer("anna"))
        let reactions = screen.handle(.nodeReplaced, at: Self.start)
        #expect(
            reactions.contains(.request(.contacts, .contacts)) && reactions.contains(.request(.conversations, .conversations)))
        #expect(reactions.contains(.request(.find(name: "anna", timeout: .seconds(5)), .lookup("anna"))))
        #expect(text(screen).contains("goes on through another node"))
    }

    @Test func `the reason of a failed line is kept for its conversation`() {
        var screen = screen()
        _ = screen.handle(.event(.chatMessage(line(1, from: nil, status: .waiting))), at: Self.start)
        let failed = ControlEvent.chatMessageChanged(
            id: "l1", conversation: .peer(Self.anna), status: .failed, reason: "too old")
        let reactions = screen.handle(.event(failed), at: Self.start)
        #expect(reactions.isEmpty && screen.views.last?.reasons["l1"] == "too old")
        #expect(screen.views.last?.lastMessage?.status == .failed)
        // Nothing is stored for a conversation that is not open.
        let unknown = ControlEvent.chatMessageChanged(id: "l9", conversation: .peer(Self.ben), status: .sent, reason: nil)
        _ = screen.handle(.event(unknown), at: Self.start)
        #expect(screen.views.count == 2)
    }
}
