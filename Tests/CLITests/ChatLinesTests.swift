import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("the chat in plain lines") struct ChatLinesTests {
    private let anna = Conversation.peer(ChatTyping.peerID)

    /// - Parameter stored: the stored messages; nil while they are not loaded.
    private func makeChat(stored: [ChatMessage]? = []) -> ChatTyping {
        var chat = ChatTyping(isPlain: true)
        chat.meet("anna", status: .known(.seen, isFriend: false))
        if let stored { chat.handle(.replied(.history(anna), .success(.chatMessages(stored)))) }
        return chat
    }

    private func message(_ number: Int, _ text: String, at time: WallTime) -> ChatMessage {
        ChatMessage(
            number: number, id: "m\(number)", conversation: anna, author: nil, authorName: nil, text: text, when: time,
            status: .waiting)
    }

    @Test func `each item is written once, and a delivery state when it changes`() {
        var chat = makeChat()
        let opening = chat.screen.drainLines(at: chat.now)
        #expect(opening.contains("each line goes to anna; Ctrl-D ends the chat, /help lists commands"))
        chat.handle(.event(.chatMessage(message(1, "hello", at: chat.now))))
        let sent = chat.screen.drainLines(at: chat.now)
        #expect(sent.last == "12:00 you: hello waiting")
        let unchanged = chat.screen.drainLines(at: chat.now)
        #expect(unchanged.isEmpty)
        chat.handle(
            .event(.chatMessageChanged(id: "m1", conversation: anna, status: .waiting, reason: "the clocks differ")))
        let delayed = chat.screen.drainLines(at: chat.now)
        #expect(delayed == ["12:00 * waiting: the clocks differ: hello"])
        for status in [MessageStatus.delivered, .read] {
            chat.handle(.event(.chatMessageChanged(id: "m1", conversation: anna, status: status, reason: nil)))
            let changed = chat.screen.drainLines(at: chat.now)
            #expect(changed == ["12:00 * \(status == .read ? "read" : "delivered"): hello"])
        }
    }

    @Test func `commands are not sent to the peer, unknown ones are refused, and a second slash sends one`() {
        var chat = makeChat()
        func isSending(_ reactions: [ChatScreen.Reaction]) -> Bool {
            reactions.contains { if case .request(.sendLine, _) = $0 { true } else { false } }
        }
        let blocking = chat.type("/block anna")
        #expect(blocking.contains { if case .request(.block(ChatTyping.peerID), _) = $0 { true } else { false } })
        #expect(!isSending(blocking))
        _ = chat.screen.drainLines(at: chat.now)
        let unknown = chat.type("/nonsense")
        let lines = chat.screen.drainLines(at: chat.now)
        #expect(!isSending(unknown) && lines.joined().contains("unknown command /nonsense"))
        let quitting = chat.type("/quit")
        #expect(quitting.contains(.quit))
        let escaped = chat.type("//text")
        #expect(escaped.contains(.request(.sendLine("/text", in: anna), .sendLine(anna, "/text"))))
    }

    @Test func `the heading of a conversation is written when it opens, not when its peer gets a tag`() throws {
        var chat = makeChat()
        func headingCount() -> Int {
            chat.screen.drainLines(at: chat.now).count(where: { $0.hasPrefix("each line goes to") })
        }
        let first = headingCount()
        var other = contact("anna")
        other.id = try #require(PeerID(hex: "2b2b3c4d5e6f7081"))
        chat.handle(.event(.contacts([contact("anna", .known(.seen, isFriend: false)), other])))
        let second = headingCount()
        chat.type("/public")
        let room = headingCount()
        #expect((first, second, room) == (1, 0, 1))
    }

    @Test func `an answer to an offer of another conversation is told once`() {
        var chat = makeChat()
        chat.type("/public")
        chat.handle(.replied(.history(.publicRoom), .success(.chatMessages([]))))
        _ = chat.screen.drainLines(at: chat.now)
        let tag = ChatScreen.RequestTag.answer(.yes, subject: "a.txt from anna", in: anna)
        chat.handle(.replied(tag, .success(.done)))
        let lines = chat.screen.drainLines(at: chat.now)
        #expect(lines == ["[anna] accepted: a.txt from anna"])
        chat.handle(.replied(tag, .failure(ControlFailure(.refused, "this question is no longer open"))))
        let failed = chat.screen.drainLines(at: chat.now)
        #expect(failed == ["[anna] not answered: a.txt from anna: this question is no longer open"])
    }

    private func sentLines(_ reactions: [ChatScreen.Reaction]) -> [String] {
        reactions.compactMap { if case .request(.sendLine(let text, _), _) = $0 { text } else { nil } }
    }

    private func contact(_ name: String, _ status: TrustStatus = .new) -> Contact {
        Contact(
            id: ChatTyping.peerID, name: DisplayName(truncating: name)!, trustStatus: status, isNear: true,
            software: .nearshare, hasKeys: true)
    }

    /// A chat with a peer that was not found.
    private func makeWaitingChat() -> ChatTyping {
        var chat = ChatTyping(.peer("anna"), columns: 200, isPlain: true)
        chat.handle(.replied(.lookup("anna"), .failure(ControlFailure(.peerNotFound, "anna was not found"))))
        return chat
    }

    @Test("K2: a line that may have been begun before a new peer took the name is sent once an empty line confirms it")
    func newPeerMeanwhile() {
        var chat = makeWaitingChat()
        chat.handle(.event(.contacts([contact("anna")])))
        chat.handle(.replied(.history(anna), .success(.chatMessages([]))))
        // Each was begun before the name was taken.
        for line in ["the code is 1234", "/send plan.txt", "/fav", "keep it secret"] {
            let reactions = chat.type(line)
            #expect(reactions.isEmpty)
        }
        let lines = chat.screen.drainLines(at: chat.now).joined(separator: "\n")
        #expect(lines.contains("is new here, and was found meanwhile"), "\(lines)")
        let confirmed = chat.type("")
        #expect(sentLines(confirmed) == ["keep it secret"])
        let next = chat.type("next")
        #expect(sentLines(next) == ["next"])
    }

    @Test("K2: behind a line that waited for a name, the next one is held back from a new peer as well")
    func newPeerForWaitingLines() {
        var chat = makeWaitingChat()
        chat.type("one")
        let found = chat.handle(.event(.contacts([contact("anna")])))
        let second = chat.type("one more")
        #expect(sentLines(found + second).isEmpty)
        let confirmed = chat.type("")
        #expect(sentLines(confirmed) == ["one more"])
        var known = makeWaitingChat()
        known.handle(.stored(name: "anna", [ChatTyping.peerID]))
        known.type("two")
        let sent = known.handle(.event(.contacts([contact("anna", .known(.seen, isFriend: false))])))
        let next = known.type("three")
        #expect(sentLines(sent) == ["two"] && sentLines(next) == ["three"])
    }

    @Test("K2: an equal line that is typed again is no confirmation to a new peer")
    func repeatedLineToNewPeer() {
        var chat = makeWaitingChat()
        chat.type("hello?")
        let found = chat.handle(.event(.contacts([contact("anna")])))
        chat.handle(.replied(.history(anna), .success(.chatMessages([]))))
        _ = chat.screen.drainLines(at: chat.now)
        // The first of them may have been begun before the name was taken.
        let repeated = chat.type("hello?") + chat.type("hello?")
        #expect(sentLines(found + repeated).isEmpty)
        let lines = chat.screen.drainLines(at: chat.now).joined(separator: "\n")
        #expect(lines.contains("was found meanwhile") && !lines.contains("is dropped"), "\(lines)")
        let confirmed = chat.type("")
        #expect(sentLines(confirmed) == ["hello?"])
        let next = chat.type("hello?")
        #expect(sentLines(next) == ["hello?"])
    }

    @Test func `the end of the input waits for a running search, and drops no line in silence`() {
        let found = contact("anna", .known(.seen, isFriend: false))
        let missing = ControlFailure(.peerNotFound, "anna was not found")
        let outcomes: [(Result<ControlReply, ControlFailure>, sent: [String], unsent: [String])] = [
            (.success(.contact(found)), ["one"], []), (.success(.contact(contact("anna"))), [], ["not sent: one"]),
            (.failure(missing), [], ["not sent: one"]),
            (.failure(ControlFailure(.ambiguous, "anna matches several peers")), [], ["not sent: one"]),
        ]
        for (result, sent, unsent) in outcomes {
            var chat = ChatTyping(.peer("anna"), columns: 200, isPlain: true)
            chat.type("one")
            let ending = chat.handle(.inputEnded)
            #expect(!ending.contains(.quit))
            let reactions = chat.handle(.replied(.lookup("anna"), result))
            #expect(reactions.last == .quit && sentLines(reactions) == sent)
            #expect(chat.screen.unsentLines == unsent)
        }
        var waiting = makeWaitingChat()
        waiting.type("two")
        let ending = waiting.handle(.inputEnded)
        #expect(ending == [.quit] && waiting.screen.unsentLines == ["not sent: two"])
        var idle = makeChat()
        let end = idle.handle(.inputEnded)
        #expect(end == [.quit] && idle.screen.unsentLines.isEmpty)
    }

    @Test func `a line that is held back is told when another one replaces it, and when the chat ends`() {
        var chat = makeChat()
        let question = OpenPrompt(
            number: 1, title: "accept from anna?", lines: [], yes: "Accept", no: "Decline", conversation: anna)
        chat.handle(.event(.receiving(.prompt(question))))
        for line in ["y 1", "no 1"] { chat.type(line) }
        let lines = chat.screen.drainLines(at: chat.now)
        #expect(lines.contains { $0.hasSuffix("the line that was held back is dropped: y 1") }, "\(lines)")
        var interrupted = chat
        let end = chat.handle(.inputEnded)
        #expect(end == [.quit] && chat.screen.unsentLines == ["not sent: no 1"])
        interrupted.type("")
        interrupted.screen.hold("half a li")
        interrupted.screen.abandonLines(at: interrupted.now)
        #expect(interrupted.screen.unsentLines == ["not sent: half a li"])
    }

    @Test func `an interrupt names the lines that wait for a peer`() {
        var chat = makeWaitingChat()
        chat.type("one")
        chat.screen.abandonLines(at: chat.now)
        #expect(chat.screen.unsentLines == ["not sent: one"])
    }

    @Test func `a line that the terminal may have cut is sent when an empty line confirms it`() {
        var chat = makeChat()
        let whole = String(repeating: "a", count: ChatScreen.typedLineByteCount - 1)
        let first = chat.type(whole)
        #expect(sentLines(first) == [whole])
        let cut = whole + "z"
        let second = chat.type(cut)
        let lines = chat.screen.drainLines(at: chat.now).joined(separator: "\n")
        #expect(sentLines(second).isEmpty && lines.contains("may have cut this line, which ends with: aaa"), "\(lines)")
        let confirmed = chat.type("")
        #expect(sentLines(confirmed) == [cut])
    }

    @Test("K2: the confirmation of a line that may be cut is not one of a new peer")
    func cutLineToNewPeer() {
        var chat = makeWaitingChat()
        chat.handle(.event(.contacts([contact("anna")])))
        let reactions = chat.type(String(repeating: "a", count: ChatScreen.typedLineByteCount))
        let lines = chat.screen.drainLines(at: chat.now).joined(separator: "\n")
        #expect(sentLines(reactions).isEmpty)
        let confirmed = chat.type("")
        #expect(sentLines(confirmed).count == 1)
        chat.handle(.replied(.history(anna), .success(.chatMessages([]))))
        let notices = lines + chat.screen.drainLines(at: chat.now).joined(separator: "\n")
        #expect(notices.contains("may have cut this line") && notices.contains("was found meanwhile"), "\(notices)")
    }

    @Test func `unread lines are written however many there are, because their authors learn that they were read`() {
        let stored = (1...30).map { number in
            ChatMessage(
                number: number, id: "m\(number)", conversation: anna, author: ChatTyping.peerID,
                authorName: DisplayName(truncating: "anna"), text: "line \(number)",
                when: WallTime(milliseconds: Int64(number)),
                status: number > 10 ? .delivered : .read)
        }
        var chat = makeChat(stored: stored)
        let shown = chat.screen.drainLines(at: chat.now).filter { $0.contains("anna: line") }
        #expect(shown.count == 20 && shown.first?.contains("line 11") == true, "\(shown)")
    }

    @Test func `stored lines are marked as read once they are loaded`() {
        func isMarking(_ reactions: [ChatScreen.Reaction]) -> Bool {
            reactions.contains { if case .request(.markRead, _) = $0 { true } else { false } }
        }
        var chat = makeChat(stored: nil)
        let received = ChatMessage(
            number: 2, id: "m2", conversation: anna, author: ChatTyping.peerID, authorName: DisplayName(truncating: "anna"),
            text: "hi", when: chat.now, status: .delivered)
        let early = chat.handle(.event(.chatMessage(received)))
        #expect(!isMarking(early))
        let loaded = chat.handle(.replied(.history(anna), .success(.chatMessages([received]))))
        #expect(isMarking(loaded))
    }

    @Test("K2: a line typed for a peer that turns out to be blocked goes to no other conversation")
    func blockedPeer() {
        var chat = makeChat()
        chat.type("/chat carl")
        chat.handle(.replied(.lookup("carl"), .failure(ControlFailure(.blocked, "carl is blocked"))))
        let reactions = chat.type("secret")
        #expect(sentLines(reactions).isEmpty)
    }

    @Test func `lines that arrive while the stored ones are loaded are written behind them`() {
        var chat = makeChat(stored: nil)
        chat.handle(.event(.chatMessage(message(2, "new", at: chat.now))))
        let early = chat.screen.drainLines(at: chat.now)
        #expect(!early.contains { $0.contains("new") })
        chat.handle(
            .replied(.history(anna), .success(.chatMessages([message(1, "old", at: WallTime(milliseconds: 1))]))))
        let lines = chat.screen.drainLines(at: chat.now).filter { $0.contains("you: ") }
        #expect(lines.map { $0.contains("old") } == [true, false], "\(lines)")
    }

    @Test(
        "as many stored lines are requested as shown, and older unread ones are mentioned",
        arguments: [(0, 50), (50, 50), (300, 300)])
    func historyCount(_ limit: Int, _ count: Int) {
        var settings = ChatScreen.Settings { _ in LocalTime(day: "today", clock: "12:00") }
        (settings.isPlain, settings.opening, settings.historyLimit) = (true, .publicRoom, limit)
        var screen = ChatScreen(settings)
        let now = WallTime(milliseconds: 1_000_000)
        let tag = ChatScreen.RequestTag.history(.publicRoom)
        let reactions = screen.start(at: now)
        #expect(reactions.contains(.request(.history(.publicRoom, before: nil, limit: count), tag)))
        let stored = (1...count).map { number in
            ChatMessage(
                number: number, id: "m\(number)", conversation: .publicRoom, author: ChatTyping.peerID, authorName: nil,
                text: "line", when: WallTime(milliseconds: Int64(number)), status: .delivered)
        }
        _ = screen.handle(.replied(tag, .success(.chatMessages(stored))), at: now)
        let lines = screen.drainLines(at: now)
        #expect(lines.count(where: { $0.contains("older lines are not shown") }) == 1)
        #expect(lines.count(where: { $0.hasSuffix(": line") }) == count)
    }

    @Test("R4: an answer in plain lines needs a number, as an offer may have come after the line was begun")
    func answerWithoutNumber() {
        var chat = makeChat()
        let question = OpenPrompt(
            number: 1, title: "accept from anna?", lines: [], yes: "Accept", no: "Decline", conversation: anna)
        chat.handle(.event(.receiving(.prompt(question))))
        let later = WallTime(milliseconds: chat.now.milliseconds + 10_000)
        func answers(_ line: String) -> Bool {
            chat.screen.enter(line: line, at: later).contains { if case .request(.answer, _) = $0 { true } else { false } }
        }
        let bare = answers("/accept")
        let lines = chat.screen.drainLines(at: later)
        #expect(!bare && lines.contains { $0.contains("which one? /accept 1") }, "\(lines)")
        let numbered = answers("/accept 1")
        #expect(numbered)
    }

    @Test("R4: plain lines name the questions and transfers that end with a node when another one takes over")
    func formerNode() {
        var chat = makeChat()
        let question = OpenPrompt(
            number: 1, title: "accept from anna?", subject: "a.txt from anna", lines: [], yes: "Accept", no: "Decline",
            conversation: anna)
        chat.handle(.event(.receiving(.prompt(question))))
        chat.handle(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: ChatTyping.peerID, name: "b.bin",
                        done: 5, total: 10))))
        _ = chat.screen.drainLines(at: chat.now)
        chat.handle(.nodeReplaced)
        chat.handle(.replied(.history(anna), .success(.chatMessages([]))))
        let lines = chat.screen.drainLines(at: chat.now)
        #expect(lines.contains { $0.hasSuffix("not sent: b.bin: interrupted") }, "\(lines)")
        #expect(lines.contains { $0.hasSuffix("no longer open: a.txt from anna") }, "\(lines)")
        chat.handle(.event(.receiving(.prompt(question))))
        let answers = chat.type("/accept 1")
        let hints = chat.screen.drainLines(at: chat.now)
        #expect(answers.isEmpty && hints.contains { $0.hasSuffix("offer 1 is not open") }, "\(hints)")
    }

    @Test func `what has arrived in another conversation is mentioned once, also where it is no line`() {
        var chat = makeChat()
        chat.type("/public")
        chat.handle(.replied(.history(.publicRoom), .success(.chatMessages([]))))
        _ = chat.screen.drainLines(at: chat.now)
        let arrival = Arrival(
            kind: .folder, path: "/inbox/trip", name: "trip", size: 1, sender: ChatTyping.peerID, senderName: "anna")
        for lines in [["[anna] unread items: /chat \(ChatTyping.peerID.hex) shows them"], []] {
            chat.handle(.event(.receiving(.arrived(arrival, nil))))
            let written = chat.screen.drainLines(at: chat.now)
            #expect(written == lines)
        }
    }

    @Test func `no advice names a key or command that plain lines do not have`() {
        var chat = makeWaitingChat()
        for line in ["one", "two", "/clear", "three", "four"] { chat.type(line) }
        chat.handle(.event(.contacts([contact("anna")])))
        chat.handle(.replied(.history(anna), .success(.chatMessages([]))))
        for line in ["", "/help", "/send"] { chat.type(line) }
        chat.handle(.replied(.sendLine(anna, "five"), .failure(ControlFailure(.gone, "the node has ended"))))
        let lines = chat.screen.drainLines(at: chat.now)
        let all = lines.joined(separator: "\n")
        for words in ["Up ", "Tab", "Ctrl-C", "/voice", "/play", "/show"] { #expect(!all.contains(words), "\(all)") }
        #expect(lines.contains { $0.contains("An empty line sends the first of these") }, "\(all)")
        #expect(lines.contains { $0.contains("missing file: /send FILE") }, "\(all)")
    }

    @Test func `the last stored lines are written, and the notices of other conversations`() {
        var chat = makeChat()
        _ = chat.screen.drainLines(at: chat.now)
        let stored = (1...15).map { message($0, "line \($0)", at: WallTime(milliseconds: Int64($0))) }
        chat.handle(.replied(.history(anna), .success(.chatMessages(stored))))
        let shown = chat.screen.drainLines(at: chat.now).filter { $0.contains("line") }
        #expect(shown.count == 10 && shown.last == "12:00 you: line 15 waiting")
        chat.handle(.event(.notice("a question", in: .publicRoom)))
        let notices = chat.screen.drainLines(at: chat.now)
        #expect(notices == ["[everyone] a question"])
        chat.screen.addNotice("one\ntwo", in: .publicRoom, at: chat.now)
        let rows = chat.screen.drainLines(at: chat.now)
        #expect(rows == ["[everyone] one", "[everyone] two"])
    }
}
