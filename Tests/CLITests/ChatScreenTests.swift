import Nearshare
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

/// A chat screen with scripted input and a clock.
private final class ChatHarness {
    var screen: ChatScreen
    var reactions: [ChatScreen.Reaction] = []
    var now = WallTime(milliseconds: day + 14 * hour)

    static let hour: Int64 = 3_600_000
    static let day: Int64 = 20_000 * 24 * hour
    static let anna = PeerID(hex: "1a2b3c4d5e6f7081")!
    static let ben = PeerID(hex: "2b2b3c4d5e6f7081")!

    init(
        _ opening: ChatScreen.Opening = .peer("anna"), columns: Int = 80, rows: Int = 24, hasColor: Bool = true,
        hasUTF8: Bool = true, isQuiet: Bool = false, ownName: String? = nil
    ) {
        var settings = ChatScreen.Settings { time in
            let minutes = time.milliseconds / 60_000
            let (hour, minute) = (minutes / 60 % 24, minutes % 60)
            return LocalTime(
                day: "day \(minutes / 1440)", clock: "\(hour < 10 ? "0" : "")\(hour):\(minute < 10 ? "0" : "")\(minute)")
        }
        settings.opening = opening
        settings.ownName = ownName.map(ChatHarness.claim)
        settings.hasColor = hasColor
        settings.hasUTF8 = hasUTF8
        settings.isQuiet = isQuiet
        screen = ChatScreen(settings)
        handle(.resized(TerminalSize(columns: columns, rows: rows)))
        reactions += screen.start(at: now)
        if case .peer = opening {
            handle(.event(.contacts([Self.contact(Self.anna, "anna"), Self.contact(Self.ben, "ben", isNear: false)])))
            handle(.replied(.lookup("anna"), .success(.contact(Self.contact(Self.anna, "anna")))))
        }
    }

    /// The longest valid prefix of a name.
    static func claim(_ name: String) -> DisplayName {
        var kept = ""
        for scalar in name.unicodeScalars where kept.utf8.count + String(scalar).utf8.count <= 63 {
            kept.unicodeScalars.append(scalar)
        }
        return try! DisplayName(kept)
    }

    static func contact(
        _ id: PeerID, _ name: String, isNear: Bool = true, trustStatus: TrustStatus = .known(.seen, isFriend: false)
    ) -> Contact {
        Contact(
            id: id, name: claim(name), trustStatus: trustStatus, isNear: isNear, software: .nearshare, hasKeys: true)
    }

    static func message(
        _ number: Int, _ text: String, from author: PeerID? = anna, named name: String = "anna",
        in conversation: Conversation = .peer(anna), status: MessageStatus = .delivered, minutesEarlier delay: Int64 = 0
    ) -> ChatMessage {
        let arrival = day + 12 * hour + Int64(number) * 60_000
        return ChatMessage(
            number: number, id: "id-\(number)", conversation: conversation, author: author,
            authorName: author == nil ? nil : claim(name), text: text, when: WallTime(milliseconds: arrival), status: status,
            written: WallTime(milliseconds: arrival - delay * 60_000))
    }

    /// - Returns: the new reactions.
    @discardableResult
    func handle(_ input: ChatScreen.Input) -> [ChatScreen.Reaction] {
        let new = screen.handle(input, at: now)
        reactions += new
        screen.recordDrawn()
        return new
    }

    @discardableResult
    func press(_ keys: TerminalKey...) -> [ChatScreen.Reaction] {
        keys.flatMap { handle(.key($0)) }
    }

    @discardableResult
    func write(_ text: String) -> [ChatScreen.Reaction] { press(.text(text), .enter) }

    /// The rows of the screen, without styles.
    var lines: [String] { screen.render().lines.map(\.plainText) }
    var text: String { lines.joined(separator: "\n") }
}

@Suite struct ChatScreenTests {
    @Test("a named peer is looked for, and its conversation is loaded")
    func opening() {
        let chat = ChatHarness()
        #expect(
            chat.reactions == [
                .request(.contacts, .contacts), .request(.conversations, .conversations),
                .request(.find(name: "anna", timeout: .seconds(5)), .lookup("anna")),
                .request(
                    .history(.peer(ChatHarness.anna), before: nil, limit: 50), .history(.peer(ChatHarness.anna))
                ),
            ])
        #expect(chat.lines[0].contains("[2 anna]"))
    }

    @Test("a line is sent to its conversation's peer, and the input line is cleared")
    func saying() {
        let chat = ChatHarness()
        #expect(
            chat.write("hi there") == [
                .request(.sendLine("hi there", in: .peer(ChatHarness.anna)), .sendLine(.peer(ChatHarness.anna), "hi there"))
            ])
        #expect(chat.lines.last == "> ")
        #expect(chat.write("   ").isEmpty)
        #expect(
            chat.write("//etc") == [
                .request(.sendLine("/etc", in: .peer(ChatHarness.anna)), .sendLine(.peer(ChatHarness.anna), "/etc"))
            ])
    }

    @Test("after another node takes over, everything is requested again, the input line stays, and no line is shown twice")
    func reopened() {
        let chat = ChatHarness()
        let history = ChatScreen.RequestTag.history(.peer(ChatHarness.anna))
        chat.handle(.replied(history, .success(.chatMessages([ChatHarness.message(1, "one")]))))
        chat.press(.text("half a li"))
        let asked = chat.handle(.nodeReplaced)
        #expect(
            asked == [
                .request(.contacts, .contacts), .request(.conversations, .conversations),
                .request(.history(.peer(ChatHarness.anna), before: nil, limit: 50), history),
            ])
        chat.handle(
            .replied(history, .success(.chatMessages([ChatHarness.message(1, "one"), ChatHarness.message(2, "meanwhile")]))))
        #expect(chat.lines.last == "> half a li")
        #expect(chat.lines.filter { $0.hasSuffix("anna: one") }.count == 1)
        #expect(chat.text.contains("meanwhile"))
        #expect(chat.text.contains("goes on through another node") && !chat.text.contains("interrupted"))
    }

    @Test("a line that has waited shows when it was written, and stands where it arrived", arguments: [(80, 24), (40, 12)])
    func written(columns: Int, rows: Int) {
        let chat = ChatHarness(columns: columns, rows: rows)
        let history = ChatScreen.RequestTag.history(.peer(ChatHarness.anna))
        chat.handle(
            .replied(
                history,
                .success(
                    .chatMessages([
                        ChatHarness.message(3, "after"), ChatHarness.message(2, "from yesterday", minutesEarlier: 1_380),
                        ChatHarness.message(1, "carried here", minutesEarlier: 60),
                    ]))))
        let words = chat.text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(
            words.contains(
                "12:01 anna: carried here (written 11:01) 12:02 anna: from yesterday (written day 19999 13:02) 12:03 anna: after"
            ),
            "\(chat.text)")
    }

    @Test("a line shows its delivery state, which only rises")
    func statuses() {
        let chat = ChatHarness()
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: nil, status: .waiting))))
        #expect(chat.text.contains("12:01 you: hi ·"))
        chat.handle(
            .event(.chatMessageChanged(id: "id-1", conversation: .peer(ChatHarness.anna), status: .delivered, reason: nil)))
        #expect(chat.text.contains("you: hi ✓✓"))
        chat.handle(.event(.chatMessageChanged(id: "id-1", conversation: .peer(ChatHarness.anna), status: .sent, reason: nil)))
        #expect(chat.text.contains("you: hi ✓✓"))
        // Read looks different from delivered, by colour.
        let delivered = chat.screen.render()
        chat.handle(.event(.chatMessageChanged(id: "id-1", conversation: .peer(ChatHarness.anna), status: .read, reason: nil)))
        #expect(chat.screen.render() != delivered)
    }

    @Test("without colours or UTF-8 marks are words", arguments: [(false, true), (true, false)])
    func wordMarks(_ hasColor: Bool, _ hasUTF8: Bool) {
        let chat = ChatHarness(hasColor: hasColor, hasUTF8: hasUTF8)
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: nil, status: .waiting))))
        for (status, word) in [(MessageStatus.sent, "sent"), (.delivered, "delivered"), (.read, "read")] {
            chat.handle(
                .event(.chatMessageChanged(id: "id-1", conversation: .peer(ChatHarness.anna), status: status, reason: nil)))
            #expect(chat.text.contains("you: hi \(word)"))
        }
    }

    @Test("a line that waits shows the reason, until it is sent")
    func waitingReason() {
        let chat = ChatHarness()
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: nil, status: .waiting))))
        chat.handle(
            .event(
                .chatMessageChanged(
                    id: "id-1", conversation: .peer(ChatHarness.anna), status: .waiting, reason: "the clocks\u{1b}[2J")))
        #expect(chat.text.contains("you: hi waiting: the clocks\\u{1b}[2J"))
        chat.handle(.event(.chatMessageChanged(id: "id-1", conversation: .peer(ChatHarness.anna), status: .sent, reason: nil)))
        #expect(chat.text.contains("you: hi ✓") && !chat.text.contains("clocks"))
    }

    @Test("a failed line shows its reason")
    func failed() {
        let chat = ChatHarness()
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: nil, status: .waiting))))
        chat.handle(
            .event(
                .chatMessageChanged(
                    id: "id-1", conversation: .peer(ChatHarness.anna), status: .failed, reason: "too old\u{1b}[2J")))
        #expect(chat.text.contains("you: hi not sent: too old\\u{1b}[2J"))
    }

    @Test("a rejected text is not before what the user types next; the Up key brings it back")
    func refused() {
        let chat = ChatHarness()
        chat.write("hi")
        let tag = ChatScreen.RequestTag.sendLine(.peer(ChatHarness.anna), "hi")
        chat.handle(.replied(tag, .failure(ControlFailure(.refused, "no keys of anna; meet first"))))
        #expect(chat.text.contains("not sent: no keys of anna; meet first; Up brings the line back"))
        #expect(chat.lines.last == "> ")
        chat.press(.text("other"))
        chat.handle(.replied(tag, .failure(ControlFailure(.refused, "no"))))
        #expect(chat.lines.last == "> other")
        chat.press(.up)
        #expect(chat.lines.last == "> hi")
    }

    @Test("a line that a node may have stored before it ended is not said to be unsent; the Up key brings it back")
    func unconfirmed() {
        let chat = ChatHarness()
        chat.write("hi")
        let tag = ChatScreen.RequestTag.sendLine(.peer(ChatHarness.anna), "hi")
        chat.handle(.replied(tag, .failure(ControlFailure(.gone, "the node ended before it replied; try again"))))
        #expect(chat.text.contains("* perhaps not sent: the node ended") && chat.lines.last == "> ", "\(chat.text)")
        chat.press(.up)
        #expect(chat.lines.last == "> hi")
    }

    @Test("a repeated entry is shown once, and late entries are sorted in")
    func order() {
        let chat = ChatHarness()
        for number in [3, 1, 3, 2] { chat.handle(.event(.chatMessage(ChatHarness.message(number, "text \(number)")))) }
        #expect(chat.lines.filter { $0.contains("text") }.map { $0.suffix(6) } == ["text 1", "text 2", "text 3"])
    }

    @Test("lines of the visible conversation are read; others count as unread until they are visible")
    func unread() {
        let chat = ChatHarness()
        #expect(
            chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi")))) == [
                .request(.markRead(.peer(ChatHarness.anna)), .markRead)
            ]
        )
        let fromBen = { ChatHarness.message($0, "psst", from: ChatHarness.ben, named: "ben", in: .peer(ChatHarness.ben)) }
        #expect(chat.handle(.event(.chatMessage(fromBen(2)))) == [.bell])
        #expect(chat.handle(.event(.chatMessage(fromBen(3)))).isEmpty)
        #expect(chat.lines[0].contains(" 3 ben (2)"))
        chat.now = WallTime(milliseconds: chat.now.milliseconds + 3000)
        #expect(chat.handle(.event(.chatMessage(fromBen(4)))) == [.bell])
        let wished = chat.press(.control("n"))
        #expect(wished.contains(.request(.markRead(.peer(ChatHarness.ben)), .markRead)))
        #expect(chat.lines[0].contains("[3 ben]"))
        #expect(chat.text.contains("ben: psst"))
    }

    @Test("--quiet and the public room do not ring the bell")
    func quiet() {
        let chat = ChatHarness(isQuiet: true)
        let message = ChatHarness.message(1, "psst", from: ChatHarness.ben, in: .peer(ChatHarness.ben))
        #expect(chat.handle(.event(.chatMessage(message))).isEmpty)
        let loud = ChatHarness()
        #expect(loud.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: ChatHarness.ben, in: .publicRoom)))).isEmpty)
        #expect(loud.lines[0].contains("1 everyone (1)"))
    }

    @Test("Tab, Ctrl-N, Ctrl-P and Alt with a digit switch conversations, each with its own input line")
    func switching() {
        let chat = ChatHarness()
        chat.press(.text("draft"), .control("p"))
        #expect(chat.lines[0].contains("[1 everyone]"))
        #expect(chat.lines.last == "to everyone> ")
        chat.press(.tab)
        #expect(chat.lines.last == "> draft")
        chat.press(.alt("1"))
        #expect(chat.lines[0].contains("[1 everyone]"))
        chat.press(.alt("9"))
        #expect(chat.lines[0].contains("[1 everyone]"))
        chat.press(.backTab)
        #expect(chat.lines[0].contains("[2 anna]"))
    }

    @Test("with many conversations, the visible one has its tab on the screen", arguments: [20, 40, 80])
    func manyConversations(_ columns: Int) {
        let chat = ChatHarness(columns: columns)
        for number in 1...60 {
            let id = PeerID(bytes: [9, 9, 9, 9, 9, 9, 9, UInt8(number)])!
            chat.handle(.event(.chatMessage(ChatHarness.message(number, "x", from: id, named: "p\(number)", in: .peer(id)))))
        }
        for _ in 0..<62 {
            chat.press(.control("n"))
            #expect(chat.lines[0].contains("["))
            #expect(chat.lines[0].contains("]"))
        }
    }

    @Test("without a name, the latest conversation is opened, unless the user is typing")
    func latest() {
        let summary = ConversationSummary(
            conversation: .peer(ChatHarness.anna), last: ChatHarness.message(7, "hi"), unreadCount: 3)
        let chat = ChatHarness(.latest)
        #expect(chat.lines[0].contains("[nearshare chat]"))
        chat.handle(.replied(.conversations, .success(.conversations([summary]))))
        #expect(chat.lines[0].contains("[2 "))
        let busy = ChatHarness(.latest)
        busy.press(.text("/wh"))
        busy.handle(.replied(.conversations, .success(.conversations([summary]))))
        #expect(busy.lines[0].contains("(3)"))
        #expect(busy.lines.last == "> /wh")
    }

    @Test("a conversation keeps the name of a peer that has left, also where the last line is the user's")
    func nameOfOneThatHasLeft() {
        let chat = ChatHarness(.publicRoom)
        let last = ChatHarness.message(7, "see you", from: nil)
        let summary = ConversationSummary(
            conversation: .peer(ChatHarness.anna), last: last, unreadCount: 0, peerName: ChatHarness.claim("anna"))
        chat.handle(.replied(.conversations, .success(.conversations([summary]))))
        #expect(chat.lines[0].contains(" 2 anna "), "\(chat.text)")
        // One that has never written.
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.ben, "ben")])))
        chat.write("/chat ben")
        chat.handle(.replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.ben, ChatHarness.ben.hex, isNear: false)])))
        #expect(chat.lines[0].contains("[3 ben]") && chat.text.contains("ben is away"), "\(chat.text)")
    }

    @Test("without a conversation nothing is sent")
    func startView() {
        let chat = ChatHarness(.latest)
        #expect(chat.write("hello").isEmpty)
        #expect(chat.lines.last == "> ")
        #expect(chat.text.contains("no conversation is open"))
        // In the conversation that is opened then, its line is reached with the Up key.
        #expect(chat.write("/chat anna") == [.request(.find(name: "anna", timeout: .seconds(5)), .lookup("anna"))])
        #expect(chat.lines.last == "> ")
        chat.press(.up, .up)
        #expect(chat.lines.last == "> hello")
    }

    @Test("each day has a heading")
    func days() {
        let chat = ChatHarness()
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "before"))))
        chat.handle(.event(.chatMessage(ChatHarness.message(1 + 24 * 60, "after"))))
        let picture = chat.lines.filter { $0.contains("day ") || $0.contains("anna:") }
        #expect(picture.suffix(4) == ["── day 20000 ──", "12:01 anna: before", "── day 20001 ──", "12:01 anna: after"])
    }

    @Test("scrolling up has no gaps, and loads older entries")
    func scrolling() {
        let chat = ChatHarness(rows: 14)
        let newer = (51...100).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(newer))))
        var seen: Set<Int> = []
        func look() {
            for line in chat.lines {
                if let number = line.split(separator: " ").last.flatMap({ Int($0) }) { seen.insert(number) }
            }
        }
        look()
        #expect(seen.contains(100))
        var wished: [ChatScreen.Reaction] = []
        for _ in 0..<10 {
            wished += chat.press(.pageUp)
            look()
        }
        #expect(seen.isSuperset(of: 51...100))
        #expect(
            wished == [
                .request(
                    .history(.peer(ChatHarness.anna), before: 51, limit: 50), .history(.peer(ChatHarness.anna)))
            ])
        let top = chat.lines
        let older = (41...50).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(older))))
        // The visible lines do not move.
        #expect(chat.lines.dropFirst(3).dropLast(2) == top.dropFirst(3).dropLast(2))
        for _ in 0..<5 {
            chat.press(.pageUp)
            look()
        }
        #expect(seen.isSuperset(of: 41...100))
        #expect(chat.press(.pageUp).isEmpty)
        // New lines are announced, and stand below.
        chat.handle(.event(.chatMessage(ChatHarness.message(101, "text 101"))))
        #expect(chat.text.contains("1 new below"))
        #expect(!chat.text.contains("text 101"))
        for _ in 0..<20 { chat.press(.pageDown) }
        #expect(chat.text.contains("text 101"))
        #expect(!chat.text.contains("new below"))
    }

    @Test("a message longer than the screen can be read from its start")
    func longMessage() {
        let chat = ChatHarness(rows: 8)
        chat.handle(.event(.chatMessage(ChatHarness.message(1, (1...40).map { "row \($0)." }.joined(separator: "\n")))))
        #expect(chat.text.contains("row 40."))
        for _ in 0..<20 { chat.press(.pageUp) }
        #expect(chat.text.contains("row 1."))
        chat.handle(.resized(TerminalSize(columns: 30, rows: 6)))
        for _ in 0..<30 { chat.press(.pageDown) }
        #expect(chat.text.contains("row 40."))
    }

    @Test("after the terminal has become wider, Page Down skips no row")
    func widened() {
        let chat = ChatHarness(columns: 40, rows: 14)
        let long = ChatHarness.message(1, (1...300).map { "w\($0)" }.joined(separator: " "), status: .read)
        let short = (2...41).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages([long] + short))))
        // The rows of the short messages and some of the long one, which has fewer in all on the wider screen.
        for _ in 0..<6 { chat.press(.pageUp) }
        #expect(!chat.text.contains("w300") && !chat.text.contains("text"), "\(chat.text)")
        chat.handle(.resized(TerminalSize(columns: 160, rows: 14)))
        #expect(chat.text.contains("w300") && !chat.text.contains("text"), "\(chat.text)")
        // A row of each page is also on the next.
        chat.press(.pageDown)
        #expect(chat.text.contains("w300") && chat.text.contains("text 11"), "\(chat.text)")
    }

    @Test("the status line shows whether the peer is near, and that messages wait")
    func status() {
        let chat = ChatHarness()
        #expect(chat.text.contains("anna is near"))
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.anna, "anna", isNear: false)])))
        #expect(chat.text.contains("anna is away: messages wait until the peer is near"))
        chat.handle(
            .event(
                .contacts([
                    ChatHarness.contact(
                        ChatHarness.anna, "anna",
                        trustStatus: .nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 9, count: 32))!))
                ])))
        #expect(chat.text.contains("anna  THE KEY HAS CHANGED, compare it first: /verify  is near"))
        chat.press(.alt("1"))
        #expect(chat.text.contains("everyone in range can read this"))
    }

    @Test("peers with the same name are told apart by their ids")
    func sameName() {
        let chat = ChatHarness()
        chat.handle(
            .event(.contacts([ChatHarness.contact(ChatHarness.anna, "anna"), ChatHarness.contact(ChatHarness.ben, "Anna")])))
        #expect(chat.lines[0].contains("anna#1a2b"))
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "hi", from: ChatHarness.ben, named: "you", in: .publicRoom))))
        chat.press(.alt("1"))
        #expect(chat.text.contains("\"you\"#2b2b: hi"))
    }

    @Test(arguments: ["anna", "ANNA", " anna"])
    func `K2: a peer with the user's own name is shown with the tag of its key`(ownName: String) {
        let chat = ChatHarness(ownName: ownName)
        #expect(chat.lines[0].contains("anna#1a2b") && chat.text.contains("anna#1a2b is near"), "\(chat.text)")
        #expect(!chat.lines[0].contains("ben#"))
    }

    @Test("from 100 columns, the peers nearby are listed beside the conversation, otherwise above it")
    func side() {
        let wide = ChatHarness(columns: 100)
        #expect(wide.lines[1].hasSuffix("│ nearby"))
        #expect(wide.lines[2].hasSuffix("│ anna"))
        let narrow = ChatHarness(columns: 99)
        #expect(narrow.lines[1] == "nearby: anna")
    }

    @Test("the list of peers counts those without a row, but no heading and no blank row", arguments: 5...16)
    func sideCount(rows: Int) {
        let chat = ChatHarness(columns: 100, rows: rows)
        let ids = (1...5).map { PeerID(hex: "\($0)a2b3c4d5e6f7081")! }
        let contacts = ids.enumerated().map { index, id in
            ChatHarness.contact(id, "peer \(index)", isNear: index < 3, trustStatus: .known(.seen, isFriend: true))
        }
        chat.handle(.event(.contacts(contacts)))
        let side = chat.lines.compactMap { $0.contains("│ ") ? String($0.split(separator: "│").last!) : nil }
        let shown = side.filter { $0.hasPrefix(" peer ") }.count
        let more = side.first { $0.hasSuffix(" more") }
        #expect(more == (shown == 5 ? nil : " \(5 - shown) more"))
    }

    @Test(
        "every frame has the terminal's size, for any text and any size",
        arguments: [1, 2, 3, 5, 10, 20, 29, 30, 39, 40, 80, 99, 100, 200])
    func sizes(_ columns: Int) {
        for rows in [1, 2, 3, 4, 5, 9, 10, 24, 60] {
            let chat = ChatHarness(columns: columns, rows: rows)
            for (number, text) in hostileTexts.enumerated() {
                chat.handle(.event(.chatMessage(ChatHarness.message(number + 1, text, named: text))))
                chat.handle(
                    .event(
                        .chatMessage(
                            ChatHarness.message(number + 100, text, from: ChatHarness.ben, named: text, in: .publicRoom))))
            }
            chat.handle(.event(.chatMessage(ChatHarness.message(60, "mine", from: nil, status: .waiting))))
            chat.handle(
                .event(
                    .chatMessageChanged(
                        id: "id-60", conversation: .peer(ChatHarness.anna), status: .failed, reason: hostileTexts.joined()))
            )
            chat.press(.paste("a draft 漢字\nof three\nlines \u{1b}[2J \u{301}\u{301}\u{301}"), .pageUp, .pageUp, .left)
            for key in [TerminalKey.alt("1"), .alt("2"), .pageDown] {
                chat.press(key)
                let picture = chat.screen.render()
                #expect(picture.lines.count == rows)
                #expect((0..<rows).contains(picture.cursorRow))
                #expect((0..<columns).contains(picture.cursorColumn))
                for line in picture.lines {
                    #expect(line.width <= columns, "\(columns)x\(rows): \(line.plainText)")
                    #expect(line.width == TerminalText.width(of: line.plainText))
                }
            }
        }
    }

    @Test("T1, T2, T3, T4: names and texts of peers emit no control sequences")
    func hostile() {
        for hasUTF8 in [true, false] {
            let chat = ChatHarness(.latest, columns: 120, rows: 40, hasUTF8: hasUTF8)
            let contacts = hostileTexts.enumerated().map { number, text in
                ChatHarness.contact(PeerID(bytes: [UInt8(number), 1, 1, 1, 1, 1, 1, 1])!, text)
            }
            chat.handle(.event(.contacts(contacts)))
            for (number, text) in hostileTexts.enumerated() {
                let id = contacts[number].id
                chat.handle(.event(.chatMessage(ChatHarness.message(number + 1, text, from: id, named: text, in: .peer(id)))))
                chat.handle(.event(.notice(text)))
                chat.handle(
                    .event(
                        .transfer(
                            TransferStatus(
                                id: .transfer(TransferID(rawValue: UInt64(number))), isIncoming: true, peer: id, name: text,
                                done: 1, total: 2, outcome: .interrupted,
                                detail: text))))
                chat.handle(.replied(.lookup(text), .failure(ControlFailure(.peerNotFound, text))))
                chat.press(.control("n"))
                chat.write("/who")
                chat.write("/verify")
                chat.write("/send \(text)")
                chat.handle(.replied(.sendFile(.peer(id), text), .failure(ControlFailure(.refused, text))))
                chat.press(.paste(text))
                for line in chat.screen.render().lines {
                    var code = line.encoded(hasColor: true, hasUTF8: hasUTF8)
                    // The control sequences of this program: styles, and the column of a row.
                    code.replace(#/\x1b\[[0-9;]*[mG]/#, with: "")
                    for scalar in code.unicodeScalars {
                        let category = scalar.properties.generalCategory
                        #expect(
                            ![.control, .format, .lineSeparator, .paragraphSeparator, .privateUse].contains(category)
                                && (hasUTF8 || scalar.isASCII),
                            "U+\(String(scalar.value, radix: 16)) in \(TerminalText.escaped(code))")
                    }
                }
                chat.press(.control("u"))
            }
        }
    }

    private let hostileTexts: [String] = [
        "\u{1b}[2J\u{1b}[31mred", "\u{1b}]0;title\u{7}", "\u{9b}5n", "\u{1b}Pq\u{1b}\\", "abc\u{202e}fed\u{2066}x",
        String(repeating: "\u{200b}", count: 500), "e" + String(repeating: "\u{301}", count: 500),
        String(repeating: "W", count: 5000), String(repeating: "漢", count: 5000), "\r\u{8}\u{7f}overwritten",
        "\u{e000}\u{fff9}\u{feff}\u{2028}", "👨\u{200d}👩\u{200d}👧 👋🏽 🇩🇪", "\\u{1b}[2J", "\u{301}\u{302}",
        String(repeating: "\n", count: 2000) + "x", "\t\tx",
    ]

    // MARK: Commands

    @Test("a file is sent to the conversation's peer, also with a quoted path")
    func sendFile() {
        let chat = ChatHarness()
        let tag = ChatScreen.RequestTag.sendFile(.peer(ChatHarness.anna), "my photo.jpg")
        #expect(chat.write("/send 'my photo.jpg'") == [.sendFile("my photo.jpg", ChatHarness.anna, tag)])
        #expect(chat.write("/send").isEmpty)
        chat.handle(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: ChatHarness.anna, name: "p.jpg",
                        done: 5,
                        total: 10))))
        #expect(chat.text.contains("sending p.jpg: 5 B of 10 B, 50%"))
        chat.handle(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: ChatHarness.anna, name: "p.jpg",
                        done: 10,
                        total: 10,
                        outcome: .completed))))
        #expect(chat.text.contains("sent p.jpg of 10 B"))
        #expect(!chat.text.contains("50%"))
        chat.press(.alt("1"))
        #expect(chat.write("/voice").isEmpty)
        #expect(chat.text.contains("a voice note needs a single receiver"))
    }

    @Test("Tab completes the common prefix of commands, names and paths")
    func completion() {
        let chat = ChatHarness()
        chat.press(.text("/sen"), .tab)
        #expect(chat.lines.last == "> /send ")
        #expect(chat.press(.text("do"), .tab) == [.listPaths("do")])
        chat.handle(.paths("do", ["docs/one", "docs/two"]))
        #expect(chat.lines.last == "> /send docs/")
        chat.press(.text("t"))
        chat.handle(.paths("docs/", ["docs/one"]))
        #expect(chat.lines.last == "> /send docs/t")
        chat.press(.control("u"))
        #expect(chat.press(.text("/send --allow-unencrypted do"), .tab) == [.listPaths("do")])
        chat.handle(.paths("do", ["docs/one"]))
        #expect(chat.lines.last == "> /send --allow-unencrypted docs/one")
        chat.press(.control("u"), .text("/chat b"), .tab)
        #expect(chat.lines.last == "> /chat ben")
        let other = PeerID(hex: "3c2b3c4d5e6f7081")!
        chat.handle(
            .event(
                .contacts([
                    ChatHarness.contact(ChatHarness.anna, "anna"), ChatHarness.contact(ChatHarness.ben, "ben"),
                    ChatHarness.contact(other, "Ben", trustStatus: .new),
                ])))
        chat.press(.control("u"), .text("/chat b"), .tab, .text("2"), .tab)
        #expect(chat.lines.last == "> /chat ben#2b2b")
        let reactions = chat.press(.control("u"), .text("/ping Ben#3c2b"), .enter)
        #expect(reactions.contains { if case .request(.ping(other), _) = $0 { true } else { false } })
    }

    @Test("where several candidates go on differently, Tab lists them, once and in few rows")
    func candidates() {
        let chat = ChatHarness(columns: 40, rows: 12)
        chat.press(.text("/unf"), .tab)
        #expect(!chat.text.contains("*") && chat.lines.last == "> /unfav ")
        chat.press(.control("u"), .text("/un"), .tab, .tab)
        #expect(chat.lines.filter { $0.contains("* /unblock, /unfav") }.count == 1, "\(chat.text)")
        #expect(chat.lines.last == "> /un")
        chat.press(.control("u"), .text("/send docs/"))
        chat.handle(.paths("docs/", ["docs/one", "docs/other/"]))
        #expect(chat.lines.last == "> /send docs/o" && !chat.text.contains("one, other/"), "\(chat.text)")
        chat.handle(.paths("docs/o", ["docs/one", "docs/other/"]))
        #expect(chat.text.contains("* one, other/"), "\(chat.text)")
        chat.press(.control("u"), .text("/send f"))
        chat.handle(.paths("f", (100..<400).map { "f\($0)" } + ["f"]))
        #expect(chat.text.contains("* f100, f101,") && chat.text.contains("f115, and 285 more"), "\(chat.text)")
        let rows = chat.lines.filter { $0.contains("f1") }
        #expect((1...5).contains(rows.count), "\(chat.text)")
        chat.press(.control("u"), .text("/msg "), .tab)
        #expect(chat.text.contains("* anna, ben"), "\(chat.text)")
    }

    @Test("a voice note is recorded, and sent as a file")
    func voice() {
        let chat = ChatHarness()
        #expect(chat.write("/voice") == [.record(ChatHarness.anna, name: "anna")])
        let tag = ChatScreen.RequestTag.sendFile(.peer(ChatHarness.anna), "/n.opus")
        #expect(
            chat.handle(.recorded(ChatHarness.anna, .saved(path: "/n.opus")))
                == [.sendFile("/n.opus", ChatHarness.anna, tag)])
        #expect(chat.handle(.recorded(ChatHarness.anna, .failed(reason: "no microphone"))).isEmpty)
        #expect(chat.text.contains("no microphone"))
    }

    @Test("an unknown command is not sent, and can be corrected")
    func unknownCommand() {
        let chat = ChatHarness()
        #expect(chat.write("/usr/bin is full").isEmpty)
        #expect(chat.text.contains("unknown command /usr/bin; /help lists all commands"))
        #expect(chat.lines.last == "> ")
        #expect(chat.write("/block").count == 1)
        chat.press(.up, .up)
        #expect(chat.lines.last == "> /usr/bin is full")
        let mistyping = ChatHarness()
        #expect(mistyping.write("/sned photo.jpg").isEmpty)
        #expect(mistyping.text.contains("unknown command /sned; did you mean /send?"))
    }

    @Test("a late search result does not switch the conversation")
    func lateFind() {
        let chat = ChatHarness()
        #expect(chat.write("/chat ben") == [.request(.find(name: "ben", timeout: .seconds(5)), .lookup("ben"))])
        chat.press(.alt("1"))
        chat.handle(.replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
        #expect(chat.lines[0].contains("[1 everyone]"))
    }

    @Test("lines that are written while a peer is looked for go to that peer, in their order, or wait for it")
    func pendingConversation() {
        for isFound in [true, false] {
            let chat = ChatHarness()
            chat.press(.text("a draft for anna"))
            chat.press(.control("u"), .text("/chat ben"), .enter)
            #expect(chat.lines[0].contains("[3 ben?]") && chat.lines.last == "> ")
            #expect(chat.write("one").isEmpty && chat.write("two").isEmpty)
            #expect(chat.write("/voice").isEmpty && chat.write("/send x").isEmpty)
            chat.press(.text("a draft for ben"))
            guard isFound else {
                chat.handle(.replied(.lookup("ben"), .failure(ControlFailure(.peerNotFound, "ben was not found"))))
                for words in ["ben was not found", "waits until ben is near", "ben is not near: messages wait"] {
                    #expect(chat.text.contains(words), "\(chat.text)")
                }
                #expect(chat.press(.enter).isEmpty && chat.text.contains("sent when ben is found: a draft for ben"))
                let later = chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.ben, "ben")])))
                #expect(Self.sentLines(later) == ["one", "two", "a draft for ben"])
                continue
            }
            let reactions = chat.handle(
                .replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
            let ben = Conversation.peer(ChatHarness.ben)
            #expect(
                reactions.suffix(2) == [
                    .request(.sendLine("one", in: ben), .sendLine(ben, "one")),
                    .request(.sendLine("two", in: ben), .sendLine(ben, "two")),
                ])
            #expect(chat.lines[0].contains("[3 ben]") && chat.lines.last == "> a draft for ben")
            #expect(chat.press(.enter) == [.request(.sendLine("a draft for ben", in: ben), .sendLine(ben, "a draft for ben"))])
        }
    }

    /// The lines that reactions send.
    private static func sentLines(_ reactions: [ChatScreen.Reaction]) -> [String] {
        reactions.compactMap { if case .request(.sendLine(let text, _), _) = $0 { text } else { nil } }
    }

    @Test("the node is asked again for a peer that was not found when another peer appears, and a definite answer ends that")
    func waitingLookup() {
        let chat = ChatHarness()
        let find = ChatScreen.Reaction.request(.find(name: "be", timeout: .seconds(5)), .lookup("be"))
        let missing = ChatScreen.Input.replied(.lookup("be"), .failure(ControlFailure(.peerNotFound, "be was not found")))
        chat.write("/chat be")
        chat.write("hello")
        chat.handle(missing)
        let near = ChatScreen.Input.event(.contacts([ChatHarness.contact(ChatHarness.ben, "ben")]))
        #expect(chat.handle(near).contains(find))
        #expect(!chat.handle(near).contains(find), "the peer is in range already")
        let count = chat.lines.count(where: { $0.contains("be was not found") })
        chat.handle(missing)
        #expect(count == 1 && chat.lines.count(where: { $0.contains("be was not found") }) == 1, "said once")
        #expect(chat.write("/quit").isEmpty && chat.text.contains("lines for be are not sent yet"))
        let found = chat.handle(.replied(.lookup("be"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
        #expect(Self.sentLines(found) == ["hello"])
        chat.write("/chat zoe")
        chat.write("a secret")
        chat.handle(.replied(.lookup("zoe"), .failure(ControlFailure(.peerNotFound, "zoe was not found"))))
        chat.write("/clear")
        chat.press(.up, .up)
        #expect(chat.text.contains("the lines that waited are dropped") && chat.lines.last == "> a secret", "\(chat.text)")
        #expect(chat.screen.views.visible.lookup?.lines.isEmpty == true)
        let ambiguous = ChatHarness()
        ambiguous.write("/chat be")
        ambiguous.write("hello")
        ambiguous.handle(.replied(.lookup("be"), .failure(ControlFailure(.ambiguous, "be matches several peers"))))
        #expect(ambiguous.text.contains("not sent: hello"))
        #expect(!ambiguous.handle(near).contains(find))
    }

    @Test("K2: the user is told once of a new peer, and what is written to it later is sent at once")
    func newPeerTwice() {
        let chat = ChatHarness()
        let found = ChatHarness.contact(ChatHarness.ben, "bne", trustStatus: .new)
        chat.write("/msg bne one")
        #expect(Self.sentLines(chat.handle(.replied(.lookup("bne"), .success(.contact(found))))).isEmpty)
        #expect(chat.text.contains("is new here; nothing was sent"))
        #expect(Self.sentLines(chat.press(.enter)) == ["one"])
        chat.press(.alt("2"))
        chat.write("/msg bne two")
        #expect(Self.sentLines(chat.handle(.replied(.lookup("bne"), .success(.contact(found))))) == ["two"])
        #expect(chat.lines.count(where: { $0.contains("is new here") }) == 1)
        let other = ChatHarness.contact(PeerID(hex: "3b2b3c4d5e6f7081")!, "bne", trustStatus: .new)
        chat.write("/msg bne three")
        #expect(Self.sentLines(chat.handle(.replied(.lookup("bne"), .success(.contact(other))))).isEmpty)
    }

    @Test(
        "that this machine has no network is said once, and shown until it has one", arguments: [(80, 24), (120, 24), (40, 12)])
    func network(columns: Int, rows: Int) {
        let chat = ChatHarness(.publicRoom, columns: columns, rows: rows)
        #expect(chat.text.contains("no peers"))
        chat.handle(.network(.absent))
        chat.handle(.network(.absent))
        #expect(chat.lines.count(where: { $0.contains("no network:") }) == 1, "\(chat.text)")
        #expect(chat.lines.contains { $0.contains("no network") && !$0.contains("no network:") }, "\(chat.text)")
        chat.handle(.network(.available))
        #expect(chat.text.contains("the network is available") && chat.text.contains("no peers"), "\(chat.text)")
    }

    @Test("K2: lines that wait for a name are not sent to a new peer that has it before the user has seen which one that is")
    func linesForANewPeer() {
        let chat = ChatHarness()
        let ben = Conversation.peer(ChatHarness.ben)
        chat.write("/chat bne")
        #expect(chat.write("one").isEmpty && chat.write("two").isEmpty)
        let found = ChatHarness.contact(ChatHarness.ben, "bne", trustStatus: .new)
        let reactions = chat.handle(.replied(.lookup("bne"), .success(.contact(found))))
        #expect(!reactions.contains { if case .request(.sendLine, _) = $0 { true } else { false } })
        for words in ["is new here; nothing was sent", "not sent: one", "not sent: two"] {
            #expect(chat.text.contains(words))
        }
        #expect(chat.lines.last == "> one")
        #expect(chat.press(.enter) == [.request(.sendLine("one", in: ben), .sendLine(ben, "one"))])
        chat.press(.up, .up)
        #expect(chat.lines.last == "> two")
    }

    @Test func `a line to the user's own name waits for another peer of that name`() {
        let chat = ChatHarness(.publicRoom, ownName: "cleo")
        chat.write("/chat cleo")
        chat.handle(.replied(.lookup("cleo"), .failure(ControlFailure(.peerNotFound, "cleo is this machine itself"))))
        #expect(chat.text.contains("waits until another peer called cleo is near"), "\(chat.text)")
    }

    @Test("K2: lines that wait for a name are not sent to a known peer that takes it later", arguments: [true, false])
    func linesForARenamedPeer(_ isStored: Bool) {
        let chat = ChatHarness()
        chat.write("/msg zed one")
        chat.handle(.stored(name: "zed", isStored ? [ChatHarness.ben] : []))
        chat.handle(.replied(.lookup("zed"), .failure(ControlFailure(.peerNotFound, "zed was not found"))))
        chat.handle(.stored(name: "zed", [ChatHarness.ben]))
        let near = chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.ben, "zed")])))
        #expect(Self.sentLines(near) == (isStored ? ["one"] : []))
        #expect(chat.text.contains("was not known by that name; nothing was sent") == !isStored)
        guard !isStored else { return }
        #expect(Self.sentLines(chat.press(.enter)) == ["one"])
    }

    @Test("K2: a chat with a key that is away tells once of another device with its name") func replacedKey() {
        let chat = ChatHarness()
        let other = ChatHarness.contact(ChatHarness.ben, "anna", trustStatus: .new)
        let contacts = ChatScreen.Input.event(
            .contacts([ChatHarness.contact(ChatHarness.anna, "anna", isNear: false), other]))
        chat.handle(contacts)
        chat.handle(contacts)
        #expect(chat.lines.count(where: { $0.contains("another device nearby is called") }) == 1, "\(chat.text)")
        #expect(chat.text.contains(ChatHarness.ben.hex), "\(chat.text)")
    }

    @Test("K2: lines that wait for a name join the history of a view that the new peer has already")
    func linesForANewPeerWithAView() {
        let chat = ChatHarness()
        chat.write("/chat bne")
        #expect(chat.write("one").isEmpty && chat.write("two").isEmpty)
        chat.handle(
            .event(
                .chatMessage(
                    ChatHarness.message(2, "psst", from: ChatHarness.ben, named: "bne", in: .peer(ChatHarness.ben)))))
        let found = ChatHarness.contact(ChatHarness.ben, "bne", trustStatus: .new)
        chat.handle(.replied(.lookup("bne"), .success(.contact(found))))
        #expect(chat.text.contains("is new here; nothing was sent"))
        #expect(chat.lines.last == "> one")
        chat.press(.up)
        #expect(chat.lines.last == "> two")
    }

    @Test("lines that wait for an id are sent to the new peer that has it")
    func linesForAnID() {
        let chat = ChatHarness()
        let (ben, id) = (Conversation.peer(ChatHarness.ben), ChatHarness.ben.hex)
        chat.write("/chat \(id)")
        chat.write("one")
        let found = ChatHarness.contact(ChatHarness.ben, "ben", trustStatus: .new)
        let reactions = chat.handle(.replied(.lookup(id), .success(.contact(found))))
        #expect(reactions.last == .request(.sendLine("one", in: ben), .sendLine(ben, "one")))
    }

    @Test("a peer that is found again keeps its one conversation, and no draft is lost")
    func foundAgain() {
        let chat = ChatHarness()
        chat.press(.text("first"))
        chat.press(.alt("1"))
        chat.press(.text("/chat 1a2b"), .enter, .text("second"))
        #expect(chat.lines[0].contains("[3 1a2b?]"))
        chat.handle(.replied(.lookup("1a2b"), .success(.contact(ChatHarness.contact(ChatHarness.anna, "anna")))))
        #expect(chat.lines[0].contains("[2 anna]") && !chat.lines[0].contains("1a2b"))
        #expect(chat.lines.last == "> second")
        chat.press(.up)
        #expect(chat.lines.last == "> first")
    }

    @Test("a view that is merged with the peer's own one leaves the visible one visible", arguments: [2, 3])
    func mergedBesideTheVisibleView(_ visible: Int) {
        let chat = ChatHarness(.publicRoom)
        chat.write("/chat anna")
        // The view of that peer, and another peer's, are opened by their lines behind the one that waits for the peer.
        chat.handle(.event(.chatMessage(ChatHarness.message(1, "here I am"))))
        chat.handle(
            .event(
                .chatMessage(
                    ChatHarness.message(2, "psst", from: ChatHarness.ben, named: "ben", in: .peer(ChatHarness.ben)))))
        chat.press(.alt(Character("\(visible + 1)")))
        let conversation = chat.screen.views.visible.conversation
        chat.handle(.replied(.lookup("anna"), .success(.contact(ChatHarness.contact(ChatHarness.anna, "anna")))))
        #expect(chat.screen.views.visible.conversation == conversation && conversation != nil)
        #expect(chat.lines[0].contains("[\(visible) \(visible == 2 ? "anna" : "ben")]"))
    }

    @Test("a name that is being looked for is not looked for again")
    func repeatedFind() {
        let chat = ChatHarness(.publicRoom)
        #expect(chat.write("/chat ben").count == 1)
        #expect(chat.write("hello").isEmpty)
        #expect(chat.write("/chat ben").isEmpty)
        #expect(chat.lines[0].contains("[2 ben?]"))
        let found = chat.handle(.replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
        let ben = Conversation.peer(ChatHarness.ben)
        #expect(found.last == .request(.sendLine("hello", in: ben), .sendLine(ben, "hello")))
    }

    @Test("lines that arrive below what is shown are unread, also after another conversation was shown")
    func unreadBelow() {
        let chat = ChatHarness()
        let messages = (1...60).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(messages))))
        chat.press(.pageUp)
        chat.handle(.event(.chatMessage(ChatHarness.message(61, "below"))))
        chat.press(.alt("1"))
        #expect(chat.lines[0].contains("2 anna (1)"))
    }

    @Test func `notices are announced to a user who reads further up, and mark nothing as read`() {
        let chat = ChatHarness()
        let messages = (1...60).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(messages))))
        chat.press(.pageUp)
        let shown = chat.lines.dropFirst(3).dropLast(2)
        chat.handle(.event(.chatMessage(ChatHarness.message(61, "below"))))
        let reactions = chat.handle(.event(.notice("an adapter has appeared")))
        chat.handle(.replied(.search(.peer(ChatHarness.anna), "foo"), .success(.chatMessages([]))))
        #expect(!reactions.contains { if case .request(.markRead, _) = $0 { true } else { false } })
        #expect(chat.lines.dropFirst(3).dropLast(2) == shown)
        #expect(chat.text.contains("3 new below"))
    }

    @Test func `lines that wait for a peer survive a change of the node, whichever of its ends comes first`() {
        for isReplyFirst in [true, false] {
            let chat = ChatHarness()
            chat.write("/chat ben")
            chat.write("hello")
            let failure = ChatScreen.Input.replied(.lookup("ben"), .failure(ControlFailure(.gone, "the node has stopped")))
            if isReplyFirst { chat.handle(failure) }
            let asked = chat.handle(.nodeReplaced)
            #expect(asked.contains { if case .request(.find(name: "ben", _), _) = $0 { true } else { false } })
            if !isReplyFirst { chat.handle(failure) }
            let found = chat.handle(.replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
            let ben = Conversation.peer(ChatHarness.ben)
            #expect(found.last == .request(.sendLine("hello", in: ben), .sendLine(ben, "hello")))
        }
    }

    @Test func `lines that wait for a peer are told as not sent when no node takes over`() {
        let chat = ChatHarness()
        chat.write("/chat ben")
        chat.write("hello")
        chat.handle(.replied(.lookup("ben"), .failure(ControlFailure(.gone, "the node has stopped"))))
        chat.handle(.nodeEnded)
        #expect(chat.text.contains("not sent: hello"))
    }

    @Test(
        "files that a node was sending are interrupted when it ends, also where another one takes over",
        arguments: [true, false])
    func interruptedTransfer(isReplaced: Bool) {
        let chat = ChatHarness()
        chat.handle(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: ChatHarness.anna, name: "a.bin",
                        done: 38_000, total: 110_000))))
        #expect(chat.text.contains("sending a.bin"), "\(chat.text)")
        let ending = isReplaced ? ChatScreen.Input.nodeReplaced : .nodeEnded
        chat.handle(ending)
        #expect(chat.text.contains("a.bin: interrupted") && !chat.text.contains("sending a.bin"), "\(chat.text)")
        #expect(chat.write("/cancel").isEmpty && chat.text.contains("no file is being sent here"), "\(chat.text)")
        // The notice stands in the visible conversation, once.
        chat.handle(ending)
        #expect(chat.lines.count(where: { $0.contains("receiving are interrupted") }) == 1, "\(chat.text)")
    }

    @Test("lines held for a peer are sent when it is found while another conversation is visible")
    func foundInBackground() {
        let chat = ChatHarness()
        chat.write("/chat ben")
        chat.write("hello")
        chat.press(.alt("2"))
        let reactions = chat.handle(.replied(.lookup("ben"), .success(.contact(ChatHarness.contact(ChatHarness.ben, "ben")))))
        let ben = Conversation.peer(ChatHarness.ben)
        #expect(reactions == [.request(.sendLine("hello", in: ben), .sendLine(ben, "hello"))])
        #expect(chat.lines[0].contains("[2 anna]"))
        let anna = Conversation.peer(ChatHarness.anna)
        #expect(chat.write("for anna") == [.request(.sendLine("for anna", in: anna), .sendLine(anna, "for anna"))])
    }

    @Test("quitting tells of lines that would be lost, once")
    func quitWithHeldLines() {
        let chat = ChatHarness()
        chat.write("/chat ben")
        chat.write("hello")
        #expect(chat.write("/quit").isEmpty && chat.text.contains("lines for ben are not sent yet"))
        #expect(chat.press(.control("c")) == [.quit])
    }

    @Test("no line goes to the public room before its prompt was on the screen")
    func publicRoomPrompt() {
        let chat = ChatHarness(.latest)
        var reactions = chat.screen.handle(.key(.control("n")), at: chat.now)
        #expect(!reactions.isEmpty)
        _ = chat.screen.handle(.key(.text("secret")), at: chat.now)
        reactions = chat.screen.handle(.key(.enter), at: chat.now)
        #expect(reactions.isEmpty)
        #expect(chat.lines.last == "to everyone> secret")
        chat.screen.recordDrawn()
        // Text that is typed blindly behind a line that was held back is not sent with it.
        #expect(chat.write("/msg ben my PIN").isEmpty)
        #expect(chat.text.contains("the line that was held back"), "\(chat.text)")
        chat.press(.control("u"))
        #expect(chat.write("secret") == [.request(.sendLine("secret", in: .publicRoom), .sendLine(.publicRoom, "secret"))])
        chat.press(.alt("2"))
        #expect(chat.lines.last?.hasPrefix("to everyone>") == true, "there is no second conversation")
    }

    @Test("a notice that names a peer is escaped once")
    func noticeEscaping() {
        let chat = ChatHarness()
        chat.handle(.event(.notice("a\\u{1b}da is blocked")))
        #expect(chat.text.contains("a\\u{1b}da is blocked") && !chat.text.contains("\\\\u"))
    }

    @Test("a paste is one message with line breaks, which do not send it")
    func paste() {
        let chat = ChatHarness()
        #expect(chat.press(.paste("one\ntwo")).isEmpty)
        #expect(chat.lines.suffix(2) == ["> one", "  two"])
        let tag = ChatScreen.RequestTag.sendLine(.peer(ChatHarness.anna), "one\ntwo")
        #expect(chat.press(.enter) == [.request(.sendLine("one\ntwo", in: .peer(ChatHarness.anna)), tag)])
    }

    @Test("the cursor is at the position of the next character")
    func cursor() {
        let chat = ChatHarness(columns: 20)
        chat.press(.text("漢字ab"), .left)
        #expect(chat.screen.render().cursorColumn == 2 + 4 + 1)
        #expect(chat.screen.render().cursorRow == 23)
        chat.press(.control("u"), .text(String(repeating: "x", count: 16)))
        #expect(chat.screen.render().cursorColumn == 18)
        #expect(chat.screen.render().cursorRow == 22 || chat.screen.render().cursorRow == 23)
    }

    @Test("Ctrl-C and /quit quit; Ctrl-D does on an empty line")
    func quitting() {
        let chat = ChatHarness()
        #expect(chat.press(.text("x"), .control("d")).isEmpty)
        #expect(chat.press(.control("u"), .control("d")) == [.quit])
        #expect(chat.press(.control("c")) == [.quit])
        #expect(chat.write("/quit") == [.quit])
    }

    /// Each line comes from a new key.
    private func flood(_ chat: ChatHarness, from first: Int = 0) {
        for number in first..<first + 2000 {
            let id = PeerID(bytes: [7, 7, 7, 7, 7, 7, UInt8(number >> 8), UInt8(number & 255)])!
            chat.handle(.event(.chatMessage(ChatHarness.message(number + 1, "x", from: id, in: .peer(id)))))
        }
    }

    @Test("R6: after lines of 2,000 made-up peers, /chat NAME still opens a conversation, and new lines are shown")
    func conversationFlood() {
        let chat = ChatHarness()
        flood(chat)
        #expect(chat.screen.views.count == ConversationViews.maximumCount)
        #expect(chat.lines[0].contains("[2 anna]"))
        let ben = ChatHarness.contact(ChatHarness.ben, "ben")
        chat.handle(.event(.contacts([ben])))
        chat.now = WallTime(milliseconds: chat.now.milliseconds + ChatHarness.hour)
        let line = ChatHarness.message(9_000, "psst", from: ChatHarness.ben, named: "ben", in: .peer(ChatHarness.ben))
        #expect(chat.handle(.event(.chatMessage(line))) == [.bell])
        chat.write("/chat ben")
        chat.handle(.replied(.lookup("ben"), .success(.contact(ben))))
        #expect(chat.screen.views.visible.conversation == .peer(ChatHarness.ben))
        #expect(chat.text.contains("ben: psst"))
    }

    @Test("R6: a flood replaces neither the visible conversation, nor a friend's, nor a draft")
    func neededConversations() {
        let chat = ChatHarness()
        let cleo = PeerID(hex: "3b2b3c4d5e6f7081")!
        let contacts = [
            ChatHarness.contact(ChatHarness.anna, "anna"),
            ChatHarness.contact(ChatHarness.ben, "ben", trustStatus: .known(.seen, isFriend: true)),
            ChatHarness.contact(cleo, "cleo"),
        ]
        chat.handle(.event(.contacts(contacts)))
        for (name, contact) in zip(["ben", "cleo"], contacts.dropFirst()) {
            chat.write("/chat \(name)")
            chat.handle(.replied(.lookup(name), .success(.contact(contact))))
        }
        chat.press(.text("a draft"), .alt("2"))
        flood(chat)
        let open = Set(chat.screen.views.map(\.conversation))
        #expect(chat.screen.views.visible.conversation == .peer(ChatHarness.anna))
        #expect(open.isSuperset(of: [.publicRoom, .peer(ChatHarness.anna), .peer(ChatHarness.ben), .peer(cleo)]))
    }

    @Test func `a conversation that cannot be opened is a notice`() {
        let chat = ChatHarness()
        let friends = (0..<ConversationViews.maximumCount).map { number in
            ChatHarness.contact(
                PeerID(bytes: [8, 8, 8, 8, 8, 8, UInt8(number >> 8), UInt8(number & 255)])!, "f\(number)",
                trustStatus: .known(.seen, isFriend: true))
        }
        let ben = ChatHarness.contact(ChatHarness.ben, "ben")
        chat.handle(.event(.contacts(friends + [ben])))
        for (number, friend) in friends.enumerated() {
            chat.handle(.event(.chatMessage(ChatHarness.message(number + 1, "x", from: friend.id, in: .peer(friend.id)))))
        }
        chat.write("/chat ben")
        chat.handle(.replied(.lookup("ben"), .success(.contact(ben))))
        #expect(chat.text.contains("too many conversations are open"))
    }

    @Test("R6: stored conversations of a flood leave room for others after a restart")
    func storedFlood() {
        let chat = ChatHarness(.publicRoom)
        let summaries = (0..<1000).map { number in
            let id = PeerID(bytes: [7, 7, 7, 7, 7, 7, UInt8(number >> 8), UInt8(number & 255)])!
            return ConversationSummary(
                conversation: .peer(id), last: ChatHarness.message(2000 - number, "x", from: id, in: .peer(id)), unreadCount: 1)
        }
        chat.handle(.replied(.conversations, .success(.conversations(summaries))))
        #expect(chat.screen.views.count == ConversationViews.maximumCount)
        let line = ChatHarness.message(9_000, "psst", from: ChatHarness.ben, named: "ben", in: .peer(ChatHarness.ben))
        #expect(chat.handle(.event(.chatMessage(line))) == [.bell, .recall([ChatHarness.ben])])
        // The oldest made room, not the newest.
        #expect(chat.screen.views.contains { $0.conversation == summaries[0].conversation })
    }

    // MARK: Scroll position

    /// A screen of 10 rows with 100 lines, scrolled up by a page.
    private func scrolled() -> ChatHarness {
        let chat = ChatHarness(rows: 14)
        let messages = (51...100).map { ChatHarness.message($0, "text \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(messages))))
        chat.press(.pageUp)
        return chat
    }

    @Test func `a line below the visible rows is not marked as read until the user has scrolled to it`() {
        let chat = scrolled()
        let read = ChatScreen.Reaction.request(.markRead(.peer(ChatHarness.anna)), .markRead)
        #expect(chat.handle(.event(.chatMessage(ChatHarness.message(101, "below")))) == [.bell])
        #expect(chat.text.contains("1 new below"))
        // Another conversation, and back: the line is still not visible.
        let switched = chat.press(.alt("1"), .alt("2"))
        #expect(!switched.contains(read))
        #expect(chat.text.contains("1 new below"))
        var reactions: [ChatScreen.Reaction] = []
        for _ in 0..<3 { reactions += chat.press(.pageDown) }
        #expect(reactions == [read])
        #expect(chat.text.contains("anna: below"))
    }

    @Test func `a notice scrolls to the end, where no line counts as new`() {
        let chat = scrolled()
        chat.handle(.event(.chatMessage(ChatHarness.message(101, "below"))))
        chat.write("/who")
        chat.press(.pageUp)
        #expect(!chat.text.contains("new below"))
    }

    // MARK: Notices

    @Test func `a notice has its time, and a narrow screen keeps what matters of it and of the state`() {
        let chat = ChatHarness()
        chat.handle(.event(.notice("hello")))
        #expect(chat.lines.contains("14:00 * hello"))
        let away = ChatHarness.contact(
            ChatHarness.anna, "a name that is longer than it needs to be", isNear: false,
            trustStatus: .known(.verified, isFriend: true))
        chat.handle(.event(.contacts([away])))
        chat.handle(.resized(TerminalSize(columns: 40, rows: 12)))
        #expect(chat.lines.contains { $0.contains(" is away  verified friend") })
        chat.handle(.resized(TerminalSize(columns: 32, rows: 12)))
        #expect(chat.lines.contains { $0.contains(" is away  verified") && !$0.contains("friend") })
        chat.handle(.resized(TerminalSize(columns: 28, rows: 12)))
        #expect(chat.lines.contains("* hello"))
    }

    @Test func `a file that is being sent can be cancelled, and of several the named ones`() {
        func file(_ number: UInt64, _ name: String, _ outcome: TransferOutcome? = nil, isIncoming: Bool = false)
            -> ChatScreen.Input
        {
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: number)), isIncoming: isIncoming, peer: ChatHarness.anna, name: name,
                        done: 1, total: 9, outcome: outcome)))
        }
        func cancels(_ numbers: UInt64...) -> [ChatScreen.Reaction] {
            numbers.map {
                .request(.cancelTransfer(.transfer(TransferID(rawValue: $0))), .cancel(.peer(ChatHarness.anna)))
            }
        }
        let chat = ChatHarness()
        chat.handle(file(1, "done", .completed))
        chat.handle(file(2, "theirs", isIncoming: true))
        #expect(chat.write("/cancel").isEmpty && chat.text.contains("no file is being sent here"))
        chat.handle(file(3, "a.jpg"))
        #expect(chat.write("/cancel") == cancels(3))
        chat.handle(file(4, "b1.jpg"))
        chat.handle(file(5, "b2.jpg"))
        #expect(chat.write("/cancel").isEmpty && chat.text.contains("which one? /cancel NAME: a.jpg, b1.jpg, b2.jpg"))
        #expect(chat.write("/cancel B") == cancels(4, 5))
        chat.handle(file(6, "b1.jpg.bak"))
        #expect(chat.write("/cancel B1.jpg") == cancels(4), "a whole name means only that file")
        #expect(chat.write("/cancel c").isEmpty && chat.text.contains("no file of this name is being sent"))
    }

    @Test func `a line of /msg whose peer cannot be looked for is reached with the Up key`() {
        let chat = ChatHarness(.publicRoom)
        chat.write("/msg ben hello")
        chat.handle(.replied(.lookup("ben"), .failure(ControlFailure(.unavailable, "the store is damaged"))))
        #expect(chat.text.contains("not sent: hello"))
        chat.press(.up)
        #expect(chat.lines.last == "> hello")
    }

    @Test("a peer that has only made an offer keeps its name when another node takes over")
    func nameFromAnOffer() {
        let chat = ChatHarness(.publicRoom)
        let question = OpenPrompt(
            number: 1, title: "accept from \"ben\"?", lines: [], yes: "Accept", no: "Decline",
            conversation: .peer(ChatHarness.ben), peerName: ChatHarness.claim("ben"))
        chat.handle(.event(.receiving(.prompt(question))))
        chat.handle(.replied(.conversations, .failure(ControlFailure(.gone, "the node has stopped"))))
        chat.handle(.nodeReplaced)
        let last = ChatHarness.message(7, "hello", from: nil, in: .peer(ChatHarness.ben))
        let summary = ConversationSummary(conversation: .peer(ChatHarness.ben), last: last, unreadCount: 0)
        chat.handle(.replied(.conversations, .success(.conversations([summary]))))
        #expect(chat.lines[0].contains(" 2 ben") && !chat.text.contains("the node has stopped"), "\(chat.text)")
    }

    @Test(
        "R4: the questions of a node end with it, and an answer to one means none of the next node", arguments: [true, false])
    func formerQuestions(isReplaced: Bool) {
        let chat = ChatHarness()
        func ask(_ name: String) {
            let question = OpenPrompt(
                number: 1, title: "accept from \"\(name)\"?", subject: "a.jpg from \"\(name)\"", lines: [], yes: "Accept",
                no: "Decline", conversation: .peer(ChatHarness.anna))
            chat.handle(.event(.receiving(.prompt(question))))
        }
        ask("ben")
        chat.handle(isReplaced ? .nodeReplaced : .nodeEnded)
        #expect(chat.text.contains("no longer open: a.jpg from \"ben\""), "\(chat.text)")
        guard isReplaced else {
            #expect(chat.write("/accept 1").isEmpty && chat.text.contains("no offer is open"), "\(chat.text)")
            return
        }
        ask("cleo")
        #expect(chat.text.contains("/accept 2 or /decline 2"), "\(chat.text)")
        #expect(chat.write("/accept 1").isEmpty && chat.text.contains("offer 1 is not open"), "\(chat.text)")
        #expect(chat.write("/accept").isEmpty && chat.text.contains("which one? /accept 2"), "\(chat.text)")
        let asked = chat.write("/accept 2")
        guard case .request(.answer(1, .yes), let tag)? = asked.first else {
            Issue.record("\(asked)")
            return
        }
        chat.handle(.replied(tag, .success(.done)))
        #expect(chat.text.contains("accepted: a.jpg from \"cleo\""), "\(chat.text)")
    }

    @Test func `offers that are open before a conversation is shown are asked about below its stored messages, once`() {
        let question = OpenPrompt(
            number: 3, title: "accept from \"ben\"?", lines: ["\"b.txt\"  3 B"], yes: "Accept", no: "Decline")
        for comesEarly in [true, false] {
            let chat = ChatHarness(.latest)
            if comesEarly { chat.handle(.event(.receiving(.prompt(question)))) }
            let stored = ChatHarness.message(1, "stored", status: .read)
            let summary = ConversationSummary(conversation: .peer(ChatHarness.anna), last: stored, unreadCount: 0)
            chat.handle(.replied(.conversations, .success(.conversations([summary]))))
            if !comesEarly { chat.handle(.event(.receiving(.prompt(question)))) }
            chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages([stored]))))
            let rows = chat.lines.filter { $0.contains("stored") || $0.contains("ben") || $0.contains("/accept") }
            #expect(
                rows.map { String($0.dropFirst(6)) } == [
                    "anna: stored", "* number 3: accept from \"ben\"?", "* /accept 3 or /decline 3",
                ])
        }
    }

    @Test("a question below the visible rows is told from new lines, until it is seen or has ended", arguments: [80, 40])
    func questionBelow(columns: Int) {
        let chat = ChatHarness(columns: columns, rows: 12)
        let lines = (1...30).reversed().map { ChatHarness.message($0, "line \($0)", status: .read) }
        chat.handle(.replied(.history(.peer(ChatHarness.anna)), .success(.chatMessages(lines))))
        func ask(_ number: Int) {
            let question = OpenPrompt(
                number: number, title: "accept from \"ben\"?", lines: ["\"b.txt\"  3 B"], yes: "Accept", no: "Decline")
            chat.handle(.event(.receiving(.prompt(question))))
        }
        chat.press(.pageUp)
        chat.handle(.event(.chatMessage(ChatHarness.message(31, "newer"), isShownAsBundle: false)))
        #expect(chat.text.contains("[1 new below]"), "\(chat.text)")
        ask(1)
        #expect(chat.text.contains("[a question below]"), "\(chat.text)")
        chat.handle(.event(.receiving(.promptEnded(number: 1))))
        #expect(!chat.text.contains("question below") && chat.text.contains("new below"), "\(chat.text)")
        ask(2)
        #expect(chat.text.contains("[a question below]"), "\(chat.text)")
        chat.press(.pageDown, .pageDown, .pageDown)
        #expect(!chat.text.contains("below]") && chat.text.contains("/accept 2 or /decline 2"), "\(chat.text)")
        ask(3)
        chat.press(.pageUp)
        #expect(!chat.text.contains("question below"), "\(chat.text)")
    }

    @Test("an answer as at other terminals is held back while its offer is open, and sent as a text when repeated")
    func answerAsText() {
        let chat = ChatHarness()
        let sent: [ChatScreen.Reaction] = [
            .request(.sendLine("ye 1", in: .peer(ChatHarness.anna)), .sendLine(.peer(ChatHarness.anna), "ye 1"))
        ]
        #expect(chat.write("ye 1") == sent)
        let question = OpenPrompt(number: 1, title: "accept?", lines: [], yes: "Accept", no: "Decline")
        chat.handle(.event(.receiving(.prompt(question))))
        #expect(chat.write("ye 1").isEmpty && chat.lines.last == "> ye 1")
        #expect(chat.text.contains("write /accept 1 to accept the offer; press Enter again to send"), "\(chat.text)")
        #expect(chat.press(.enter) == sent)
        #expect(chat.write("n 1").isEmpty)
        #expect(chat.text.contains("write /decline 1 to decline the offer"), "\(chat.text)")
        // Another line counts as a correction.
        chat.press(.control("u"))
        #expect(chat.write("never mind").count == 1)
        #expect(chat.write("n 1").isEmpty)
    }

    @Test("a peer that another command has renamed is shown under its new name while the user types")
    func renamed() {
        let chat = ChatHarness()
        #expect(chat.press(.text("a")).isEmpty)
        chat.now = WallTime(milliseconds: chat.now.milliseconds + 3_000)
        #expect(chat.press(.text("b")) == [.request(.contacts, .contacts)] && chat.press(.text("c")).isEmpty)
        chat.handle(.replied(.contacts, .failure(ControlFailure(.gone, "the node has stopped"))))
        #expect(!chat.text.contains("the node has stopped"))
        chat.handle(.replied(.contacts, .success(.contacts([ChatHarness.contact(ChatHarness.anna, "Anja")]))))
        #expect(chat.text.contains("Anja is near") && chat.lines[0].contains("[2 Anja]"), "\(chat.text)")
    }

    @Test("T4: a name is escaped once in a notice, and a sentence of the node not at all")
    func escapedOnce() {
        let chat = ChatHarness()
        let tag = ChatScreen.RequestTag.sendFile(.peer(ChatHarness.anna), "a\\b\u{1b}")
        chat.handle(.replied(tag, .failure(ControlFailure(.tooLarge, "a\\\\b.jpg is too large"))))
        #expect(chat.text.contains("* a\\\\b\\u{1b} could not be sent: a\\\\b.jpg is too large"), "\(chat.text)")
        chat.handle(.event(.notice("x\\u{1b}y")))
        #expect(chat.text.contains("* x\\u{1b}y"), "\(chat.text)")
    }

    @Test("an answer and the end of an offer name the item and the peer; Tab lists the open offers")
    func answeredOffers() {
        let chat = ChatHarness()
        for (number, subject) in [(1, "a.txt from \"ben\""), (2, "b.txt from \"cleo\"")] {
            let question = OpenPrompt(
                number: number, title: "accept?", subject: subject, lines: [], yes: "Accept", no: "Decline")
            chat.handle(.event(.receiving(.prompt(question))))
            #expect(chat.text.contains("* number \(number): accept?"), "\(chat.text)")
        }
        chat.press(.text("/accept "), .tab)
        #expect(chat.text.contains("1: a.txt from \"ben\", 2: b.txt from \"cleo\""), "\(chat.text)")
        let asked = chat.press(.text("1"), .enter)
        guard case .request(.answer(1, .yes), let tag)? = asked.first else {
            Issue.record("\(asked)")
            return
        }
        chat.handle(.replied(tag, .success(.done)))
        #expect(chat.text.contains("* accepted: a.txt from \"ben\""), "\(chat.text)")
        chat.press(.text("/decline "), .tab)
        #expect(chat.lines.last == "> /decline 2")
        chat.handle(.event(.receiving(.promptEnded(number: 2))))
        #expect(chat.text.contains("* no longer open: b.txt from \"cleo\""), "\(chat.text)")
    }

    @Test(
        "a blocked peer is said to have lost only what it had",
        arguments: [
            (TrustStatus.new, "blocked"), (.known(.seen, isFriend: true), "blocked, and no longer a friend"),
            (.known(.verified, isFriend: false), "blocked, and no longer verified"),
            (.known(.verified, isFriend: true), "blocked, and no longer a friend or verified"),
        ])
    func lostTrust(_ former: TrustStatus, _ words: String) {
        let chat = ChatHarness()
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.anna, "anna", trustStatus: former)])))
        guard case .request(_, let tag)? = chat.write("/block").first else {
            Issue.record("no request")
            return
        }
        chat.handle(.event(.contacts([])))
        let blocked = ChatHarness.contact(ChatHarness.anna, "anna", trustStatus: .known(.blocked, isFriend: false))
        chat.handle(.replied(tag, .success(.contact(blocked))))
        #expect(chat.lines.contains("14:00 * anna is \(words)"), "\(chat.text)")
    }

    @Test("a blocked peer that the user names opens no tab, and nothing is sent to another one")
    func blockedName() {
        let refusal = Result<ControlReply, ControlFailure>.failure(ControlFailure(.blocked, "ben is blocked"))
        let chat = ChatHarness()
        chat.write("/chat ben")
        #expect(chat.lines[0].contains("[3 ben?]"))
        chat.handle(.replied(.lookup("ben"), refusal))
        #expect(chat.lines[0].contains("[2 anna]") && !chat.lines[0].contains("ben"), "\(chat.text)")
        #expect(chat.lines.contains("14:00 * ben is blocked; /unblock ben"), "\(chat.text)")
        chat.write("/msg ben hello")
        chat.handle(.replied(.lookup("ben"), refusal))
        #expect(chat.lines.contains("14:00 * ben is blocked; /unblock ben; not sent: hello"), "\(chat.text)")
        #expect(chat.lines.last == "> ")
        // A text that is being written keeps its tab.
        chat.write("/chat ben")
        chat.press(.text("dear ben"))
        chat.handle(.replied(.lookup("ben"), refusal))
        #expect(chat.lines[0].contains("[3 ben?]") && chat.lines.last == "> dear ben", "\(chat.text)")
        let start = ChatHarness(.latest)
        start.write("/chat ben")
        start.handle(.replied(.lookup("ben"), refusal))
        #expect(start.lines[0].contains("[nearshare chat]") && start.text.contains("ben is blocked"), "\(start.text)")
    }

    @Test(
        "the advice to unblock a peer whose name is escaped or cut can be copied",
        arguments: [#"b\n"#, String(repeating: "b", count: 50)])
    func blockedLongName(_ name: String) {
        let refusal = Result<ControlReply, ControlFailure>.failure(ControlFailure(.blocked, "blocked"))
        let chat = ChatHarness(columns: 200)
        chat.write("/chat \(name)")
        chat.handle(.replied(.lookup(name), refusal))
        #expect(chat.text.contains("`nearshare peers`"), "\(chat.text)")
        chat.screen.contacts[ChatHarness.ben] = ChatHarness.contact(
            ChatHarness.ben, name, trustStatus: .known(.blocked, isFriend: false))
        chat.write("/chat \(name)")
        chat.handle(.replied(.lookup(name), refusal))
        #expect(chat.text.contains("/unblock \(ChatHarness.ben.hex)"), "\(chat.text)")
    }

    @Test("a text, a file and a voice note for a blocked peer are refused in the same words")
    func blockedConversation() {
        let chat = ChatHarness()
        chat.screen.contacts[ChatHarness.anna] = ChatHarness.contact(
            ChatHarness.anna, "anna", trustStatus: .known(.blocked, isFriend: false))
        for line in ["hello", "/send a.txt", "/voice"] { #expect(chat.write(line).isEmpty) }
        let notices = chat.lines.filter { $0.contains("not sent: anna is blocked; /unblock") }
        #expect(notices.count == 3, "\(chat.text)")
        #expect(notices.first?.hasSuffix("; Up brings the line back") == true && chat.lines.last == "> ")
    }

    @Test("a name that was not found becomes the conversation with the peer that has it later")
    func foundLater() {
        let missing = Result<ControlReply, ControlFailure>.failure(ControlFailure(.peerNotFound, "ben was not found"))
        let near = ChatHarness.contact(ChatHarness.ben, "Ben")
        let history = ChatScreen.Reaction.request(
            .history(.peer(ChatHarness.ben), before: nil, limit: 50), .history(.peer(ChatHarness.ben)))
        for isVisible in [true, false] {
            let chat = ChatHarness()
            chat.write("/chat ben")
            chat.handle(.replied(.lookup("ben"), missing))
            if !isVisible { chat.press(.alt("2")) }
            let reactions = chat.handle(.event(.contacts([near])))
            #expect(reactions.contains(history) == isVisible)
            #expect(chat.lines[0].contains(isVisible ? "[3 Ben]" : " 3 Ben "), "\(chat.text)")
            chat.press(.alt("3"))
            #expect(chat.text.contains("* \"Ben\" (2b2b3c4d5e6f7081) is near now; this is the"), "\(chat.text)")
        }
    }

    @Test("K2: a name that was not found stays one while it is doubtful whose it is, or a text could go to a new peer")
    func doubtfulNameLater() {
        let missing = Result<ControlReply, ControlFailure>.failure(ControlFailure(.peerNotFound, "ben was not found"))
        let owner = Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!
        let cleo = PeerID(hex: "3b2b3c4d5e6f7081")!
        let (near, away) = (ChatHarness.contact(ChatHarness.ben, "ben"), ChatHarness.contact(cleo, "ben", isNear: false))
        let doubtful: [[Contact]] = [
            [ChatHarness.contact(ChatHarness.ben, "ben", trustStatus: .nameClash(knownAs: owner))], [near, away], [away],
            [ChatHarness.contact(ChatHarness.ben, "ben", trustStatus: .known(.blocked, isFriend: false))],
            [ChatHarness.contact(ChatHarness.ben, "benjamin")],
        ]
        let chat = ChatHarness()
        chat.screen.contacts = [:]
        chat.write("/chat ben")
        chat.handle(.replied(.lookup("ben"), missing))
        for contacts in doubtful {
            chat.screen.contacts = [:]
            chat.handle(.event(.contacts(contacts)))
            #expect(chat.lines[0].contains("[3 ben?]"), "\(contacts)")
        }
        chat.screen.contacts = [:]
        chat.press(.text("secret"))
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.ben, "ben", trustStatus: .new)])))
        #expect(chat.lines[0].contains("[3 ben?]"), "\(chat.text)")
    }

    @Test("the peer of a conversation that the node does not list has its name from the files, or from its last message")
    func unlistedNames() {
        let (ben, cleo) = (ChatHarness.ben, PeerID(hex: "3b2b3c4d5e6f7081")!)
        let chat = ChatHarness(.publicRoom)
        let messages = [
            ChatHarness.message(1, "hi", from: nil, in: .peer(ben)),
            ChatHarness.message(2, "hi", from: cleo, named: "Cleo", in: .peer(cleo)),
        ]
        let summaries = messages.map { ConversationSummary(conversation: $0.conversation, last: $0, unreadCount: 0) }
        let reactions = chat.handle(.replied(.conversations, .success(.conversations(summaries))))
        #expect(reactions.contains(.recall([ben, cleo])))
        #expect(chat.lines[0].contains("2 \(ben.hex)") && chat.lines[0].contains("3 Cleo"), "\(chat.text)")
        let blocked = ChatHarness.contact(ben, "ben", isNear: false, trustStatus: .known(.blocked, isFriend: false))
        #expect(chat.handle(.remembered([blocked])).isEmpty)
        chat.press(.alt("2"))
        #expect(chat.lines[0].contains("[2 ben]") && chat.text.contains("ben is blocked:"), "\(chat.text)")
        // The list of the node counts for more.
        chat.handle(.event(.contacts([ChatHarness.contact(ben, "Benny")])))
        chat.handle(.remembered([blocked]))
        #expect(chat.lines[0].contains("[2 Benny]"), "\(chat.text)")
    }

    @Test func `K2: a known peer that has left under another one's name is shown as it is stored`() throws {
        let chat = ChatHarness()
        let owner = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 32)))
        chat.handle(
            .event(.contacts([ChatHarness.contact(ChatHarness.anna, "ben", trustStatus: .nameClash(knownAs: owner))])))
        #expect(chat.handle(.event(.contacts([]))).contains(.recall([ChatHarness.anna])))
        chat.handle(.remembered([ChatHarness.contact(ChatHarness.anna, "anna", isNear: false, trustStatus: .new)]))
        #expect(chat.text.contains("ben  THE KEY HAS CHANGED, compare it first: /verify  is away"), "\(chat.text)")
        chat.handle(.remembered([ChatHarness.contact(ChatHarness.anna, "anna", isNear: false)]))
        #expect(chat.text.contains("anna is away") && !chat.text.contains("THE KEY HAS CHANGED"), "\(chat.text)")
    }

    @Test("at any width, a word that fits a row is not cut", arguments: [(80, 40), (40, 40), (30, 30)])
    func wholeWords(before: Int, after: Int) {
        let chat = ChatHarness(columns: before, rows: 24)
        let words = ["supercalifragilistic", "is", "a", "remarkable", "word", "as", "1a2b3c4d5e6f7081"]
        chat.handle(.event(.contacts([ChatHarness.contact(ChatHarness.anna, "annabella long-name")])))
        chat.handle(.event(.chatMessage(ChatHarness.message(1, words.joined(separator: " ")))))
        chat.handle(.event(.notice(words.joined(separator: " "))))
        chat.handle(.resized(TerminalSize(columns: after, rows: 24)))
        let shown = chat.text.split(whereSeparator: \.isWhitespace).map(String.init)
        for word in words { #expect(shown.count { $0 == word } >= 2, "\(word) in \(chat.text)") }
    }
}
