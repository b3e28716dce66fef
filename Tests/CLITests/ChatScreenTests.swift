import Nearshare
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

/// A screen with somebody at its keys.
private final class Sitting {
    var screen: ChatScreen
    var effects: [ChatScreen.Effect] = []
    var now = WallTime(milliseconds: day + 14 * hour)

    static let hour: Int64 = 3_600_000
    static let day: Int64 = 20_000 * 24 * hour
    static let anna = PeerID(hex: "1a2b3c4d5e6f7081")!
    static let ben = PeerID(hex: "2b2b3c4d5e6f7081")!

    init(
        _ opening: ChatScreen.Opening = .person("anna"), columns: Int = 80, rows: Int = 24, hasColor: Bool = true,
        hasUTF8: Bool = true, isQuiet: Bool = false
    ) {
        var settings = ChatScreen.Settings { time in
            let minutes = time.milliseconds / 60_000
            let (hour, minute) = (minutes / 60 % 24, minutes % 60)
            return ChatScreen.LocalTime(
                day: "day \(minutes / 1440)", clock: "\(hour < 10 ? "0" : "")\(hour):\(minute < 10 ? "0" : "")\(minute)")
        }
        settings.opening = opening
        settings.hasColor = hasColor
        settings.hasUTF8 = hasUTF8
        settings.isQuiet = isQuiet
        screen = ChatScreen(settings)
        give(.resized(TerminalSize(columns: columns, rows: rows)))
        effects += screen.start(at: now)
        if case .person = opening {
            give(.event(.contacts([Self.person(Self.anna, "anna"), Self.person(Self.ben, "ben", isNear: false)])))
            give(.answered(.find("anna"), .success(.contact(Self.person(Self.anna, "anna")))))
        }
    }

    /// As much of a name as can be claimed.
    static func claim(_ name: String) -> DisplayName {
        var kept = ""
        for scalar in name.unicodeScalars where kept.utf8.count + String(scalar).utf8.count <= 63 {
            kept.unicodeScalars.append(scalar)
        }
        return try! DisplayName(kept)
    }

    static func person(
        _ id: PeerID, _ name: String, isNear: Bool = true, trustStatus: TrustStatus = .known(.seen, isFriend: false)
    ) -> Contact {
        Contact(
            id: id, name: claim(name), trustStatus: trustStatus, isNear: isNear, software: .nearshare, hasKeys: true)
    }

    static func entry(
        _ number: Int, _ text: String, from author: PeerID? = anna, named name: String = "anna",
        in conversation: Conversation = .peer(anna), mark: MessageStatus = .delivered
    ) -> ChatMessage {
        ChatMessage(
            number: number, id: "id-\(number)", conversation: conversation, author: author,
            authorName: author == nil ? nil : claim(name), text: text,
            when: WallTime(milliseconds: day + 12 * hour + Int64(number) * 60_000), status: mark)
    }

    /// - Returns: what is wished then.
    @discardableResult
    func give(_ input: ChatScreen.Input) -> [ChatScreen.Effect] {
        let wished = screen.handle(input, at: now)
        effects += wished
        return wished
    }

    @discardableResult
    func press(_ keys: TerminalKey...) -> [ChatScreen.Effect] {
        keys.flatMap { give(.key($0)) }
    }

    @discardableResult
    func write(_ text: String) -> [ChatScreen.Effect] { press(.text(text), .enter) }

    /// As it is seen, without what is empty.
    var picture: [String] { screen.render().lines.map(\.plainText) }
    var text: String { picture.joined(separator: "\n") }
}

@Suite struct ChatScreenTests {
    @Test("who is named is looked for, found, and their conversation is loaded")
    func opening() {
        let sitting = Sitting()
        #expect(
            sitting.effects == [
                .ask(.contacts, .people), .ask(.conversations, .conversations),
                .ask(.find(name: "anna", timeout: .seconds(5)), .find("anna")),
                .ask(
                    .history(.peer(Sitting.anna), before: nil, limit: 50), .history(.peer(Sitting.anna), isOlder: false)),
            ])
        #expect(sitting.picture[0].contains("[2 anna]"))
    }

    @Test("a line goes to the one whose conversation it was written in, and the next one begins empty")
    func saying() {
        let sitting = Sitting()
        #expect(
            sitting.write("hi there") == [
                .ask(.say("hi there", in: .peer(Sitting.anna)), .say(.peer(Sitting.anna), "hi there"))
            ])
        #expect(sitting.picture.last == "> ")
        #expect(sitting.write("   ").isEmpty)
        #expect(
            sitting.write("//etc") == [.ask(.say("/etc", in: .peer(Sitting.anna)), .say(.peer(Sitting.anna), "/etc"))])
    }

    @Test("when another node takes over, all is asked again, what is being written stays, and nothing is shown twice")
    func reopened() {
        let sitting = Sitting()
        let history = ChatScreen.Ticket.history(.peer(Sitting.anna), isOlder: false)
        sitting.give(.answered(history, .success(.entries([Sitting.entry(1, "one")]))))
        sitting.press(.text("half a li"))
        let asked = sitting.give(.reopened)
        #expect(
            asked == [
                .ask(.contacts, .people), .ask(.conversations, .conversations),
                .ask(.history(.peer(Sitting.anna), before: nil, limit: 50), history),
            ])
        sitting.give(.answered(history, .success(.entries([Sitting.entry(1, "one"), Sitting.entry(2, "meanwhile")]))))
        #expect(sitting.picture.last == "> half a li")
        #expect(sitting.picture.filter { $0.hasSuffix("anna: one") }.count == 1)
        #expect(sitting.text.contains("meanwhile"))
        #expect(sitting.text.contains("another one has taken over"))
    }

    @Test("a line shows how far it has come; marks go up, never down")
    func marks() {
        let sitting = Sitting()
        sitting.give(.event(.entry(Sitting.entry(1, "hi", from: nil, mark: .waiting))))
        #expect(sitting.text.contains("12:01 you: hi ·"))
        sitting.give(.event(.marked(id: "id-1", conversation: .peer(Sitting.anna), mark: .delivered, reason: nil)))
        #expect(sitting.text.contains("you: hi ✓✓"))
        sitting.give(.event(.marked(id: "id-1", conversation: .peer(Sitting.anna), mark: .sent, reason: nil)))
        #expect(sitting.text.contains("you: hi ✓✓"))
        // Read looks different from delivered, by colour.
        let delivered = sitting.screen.render()
        sitting.give(.event(.marked(id: "id-1", conversation: .peer(Sitting.anna), mark: .read, reason: nil)))
        #expect(sitting.screen.render() != delivered)
    }

    @Test("without colours or UTF-8 marks are words", arguments: [(false, true), (true, false)])
    func wordMarks(_ hasColor: Bool, _ hasUTF8: Bool) {
        let sitting = Sitting(hasColor: hasColor, hasUTF8: hasUTF8)
        sitting.give(.event(.entry(Sitting.entry(1, "hi", from: nil, mark: .waiting))))
        for (mark, word) in [(MessageStatus.sent, "sent"), (.delivered, "delivered"), (.read, "read")] {
            sitting.give(.event(.marked(id: "id-1", conversation: .peer(Sitting.anna), mark: mark, reason: nil)))
            #expect(sitting.text.contains("you: hi \(word)"))
        }
    }

    @Test("a line that failed says why")
    func failed() {
        let sitting = Sitting()
        sitting.give(.event(.entry(Sitting.entry(1, "hi", from: nil, mark: .waiting))))
        sitting.give(.event(.marked(id: "id-1", conversation: .peer(Sitting.anna), mark: .failed, reason: "too old\u{1b}[2J")))
        #expect(sitting.text.contains("you: hi not sent: too old\\u{1b}[2J"))
    }

    @Test("a text that the node refuses comes back to be written anew")
    func refused() {
        let sitting = Sitting()
        sitting.write("hi")
        let ticket = ChatScreen.Ticket.say(.peer(Sitting.anna), "hi")
        sitting.give(.answered(ticket, .failure(ControlFailure(.refused, "no keys of anna; meet first"))))
        #expect(sitting.text.contains("not sent: no keys of anna; meet first"))
        #expect(sitting.picture.last == "> hi")
        sitting.press(.control("u"), .text("other"))
        sitting.give(.answered(ticket, .failure(ControlFailure(.refused, "no"))))
        #expect(sitting.picture.last == "> other")
    }

    @Test("an entry that comes twice is shown once, and late ones stand where they belong")
    func order() {
        let sitting = Sitting()
        for number in [3, 1, 3, 2] { sitting.give(.event(.entry(Sitting.entry(number, "text \(number)")))) }
        #expect(sitting.picture.filter { $0.contains("text") }.map { $0.suffix(6) } == ["text 1", "text 2", "text 3"])
    }

    @Test("what is looked at is read, what is elsewhere counts as unread until it is looked at")
    func unread() {
        let sitting = Sitting()
        #expect(
            sitting.give(.event(.entry(Sitting.entry(1, "hi")))) == [.ask(.markRead(.peer(Sitting.anna)), .markRead)])
        let fromBen = { Sitting.entry($0, "psst", from: Sitting.ben, named: "ben", in: .peer(Sitting.ben)) }
        #expect(sitting.give(.event(.entry(fromBen(2)))) == [.bell])
        #expect(sitting.give(.event(.entry(fromBen(3)))).isEmpty)
        #expect(sitting.picture[0].contains(" 3 ben (2)"))
        sitting.now = WallTime(milliseconds: sitting.now.milliseconds + 3000)
        #expect(sitting.give(.event(.entry(fromBen(4)))) == [.bell])
        let wished = sitting.press(.control("n"))
        #expect(wished.contains(.ask(.markRead(.peer(Sitting.ben)), .markRead)))
        #expect(sitting.picture[0].contains("[3 ben]"))
        #expect(sitting.text.contains("ben: psst"))
    }

    @Test("no bell when told to be quiet, nor for everybody's room")
    func quiet() {
        let sitting = Sitting(isQuiet: true)
        let entry = Sitting.entry(1, "psst", from: Sitting.ben, in: .peer(Sitting.ben))
        #expect(sitting.give(.event(.entry(entry))).isEmpty)
        let loud = Sitting()
        #expect(loud.give(.event(.entry(Sitting.entry(1, "hi", from: Sitting.ben, in: .everybody)))).isEmpty)
        #expect(loud.picture[0].contains("1 everybody (1)"))
    }

    @Test("conversations are switched by Tab, Ctrl-N, Ctrl-P and Alt with a digit, each with its own unfinished text")
    func switching() {
        let sitting = Sitting()
        sitting.press(.text("draft"), .control("p"))
        #expect(sitting.picture[0].contains("[1 everybody]"))
        #expect(sitting.picture.last == "> ")
        sitting.press(.tab)
        #expect(sitting.picture.last == "> draft")
        sitting.press(.alt("1"))
        #expect(sitting.picture[0].contains("[1 everybody]"))
        sitting.press(.alt("9"))
        #expect(sitting.picture[0].contains("[1 everybody]"))
        sitting.press(.backTab)
        #expect(sitting.picture[0].contains("[2 anna]"))
    }

    @Test("with many conversations, the one that is looked at is seen", arguments: [20, 40, 80])
    func manyConversations(_ columns: Int) {
        let sitting = Sitting(columns: columns)
        for number in 1...60 {
            let id = PeerID(bytes: [9, 9, 9, 9, 9, 9, 9, UInt8(number)])!
            sitting.give(.event(.entry(Sitting.entry(number, "x", from: id, named: "p\(number)", in: .peer(id)))))
        }
        for _ in 0..<62 {
            sitting.press(.control("n"))
            #expect(sitting.picture[0].contains("["))
            #expect(sitting.picture[0].contains("]"))
        }
    }

    @Test("without a name, the conversation that was spoken in last is opened, but not under somebody's hands")
    func latest() {
        let summary = ConversationSummary(
            conversation: .peer(Sitting.anna), last: Sitting.entry(7, "hi"), unreadCount: 3)
        let sitting = Sitting(.latest)
        #expect(sitting.picture[0].contains("[nearshare chat]"))
        sitting.give(.answered(.conversations, .success(.conversations([summary]))))
        #expect(sitting.picture[0].contains("[2 "))
        let busy = Sitting(.latest)
        busy.press(.text("/wh"))
        busy.give(.answered(.conversations, .success(.conversations([summary]))))
        #expect(busy.picture[0].contains("(3)"))
        #expect(busy.picture.last == "> /wh")
    }

    @Test("nothing is said where nobody was chosen")
    func lobby() {
        let sitting = Sitting(.latest)
        #expect(sitting.write("hello").isEmpty)
        #expect(sitting.picture.last == "> hello")
        #expect(sitting.text.contains("to whom?"))
    }

    @Test("days are told apart")
    func days() {
        let sitting = Sitting()
        sitting.give(.event(.entry(Sitting.entry(1, "before"))))
        sitting.give(.event(.entry(Sitting.entry(1 + 24 * 60, "after"))))
        let picture = sitting.picture.filter { $0.contains("day ") || $0.contains("anna:") }
        #expect(picture.suffix(4) == ["── day 20000 ──", "12:01 anna: before", "── day 20001 ──", "12:01 anna: after"])
    }

    @Test("paging up goes back row by row without gaps, and fetches what is older")
    func scrolling() {
        let sitting = Sitting(rows: 14)
        let newer = (51...100).map { Sitting.entry($0, "text \($0)", mark: .read) }
        sitting.give(.answered(.history(.peer(Sitting.anna), isOlder: false), .success(.entries(newer))))
        var seen: Set<Int> = []
        func look() {
            for line in sitting.picture {
                if let number = line.split(separator: " ").last.flatMap({ Int($0) }) { seen.insert(number) }
            }
        }
        look()
        #expect(seen.contains(100))
        var wished: [ChatScreen.Effect] = []
        for _ in 0..<10 {
            wished += sitting.press(.pageUp)
            look()
        }
        #expect(seen.isSuperset(of: 51...100))
        #expect(
            wished == [
                .ask(.history(.peer(Sitting.anna), before: 51, limit: 50), .history(.peer(Sitting.anna), isOlder: true))
            ])
        let top = sitting.picture
        let older = (41...50).map { Sitting.entry($0, "text \($0)", mark: .read) }
        sitting.give(.answered(.history(.peer(Sitting.anna), isOlder: true), .success(.entries(older))))
        // What one reads stays where it is.
        #expect(sitting.picture.dropFirst(3).dropLast(2) == top.dropFirst(3).dropLast(2))
        for _ in 0..<5 {
            sitting.press(.pageUp)
            look()
        }
        #expect(seen.isSuperset(of: 41...100))
        #expect(sitting.press(.pageUp).isEmpty)
        // What comes meanwhile is told, and found below.
        sitting.give(.event(.entry(Sitting.entry(101, "text 101"))))
        #expect(sitting.text.contains("1 new below"))
        #expect(!sitting.text.contains("text 101"))
        for _ in 0..<20 { sitting.press(.pageDown) }
        #expect(sitting.text.contains("text 101"))
        #expect(!sitting.text.contains("new below"))
    }

    @Test("a message that is longer than the screen can be read to its beginning")
    func longMessage() {
        let sitting = Sitting(rows: 8)
        sitting.give(.event(.entry(Sitting.entry(1, (1...40).map { "row \($0)." }.joined(separator: "\n")))))
        #expect(sitting.text.contains("row 40."))
        for _ in 0..<20 { sitting.press(.pageUp) }
        #expect(sitting.text.contains("row 1."))
        sitting.give(.resized(TerminalSize(columns: 30, rows: 6)))
        for _ in 0..<30 { sitting.press(.pageDown) }
        #expect(sitting.text.contains("row 40."))
    }

    @Test("who is away is said, and that what is written waits")
    func status() {
        let sitting = Sitting()
        #expect(sitting.text.contains("anna is near"))
        sitting.give(.event(.contacts([Sitting.person(Sitting.anna, "anna", isNear: false)])))
        #expect(sitting.text.contains("anna is away: what you write waits until they are near"))
        sitting.give(
            .event(
                .contacts([
                    Sitting.person(
                        Sitting.anna, "anna",
                        trustStatus: .nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 9, count: 32))!))
                ])))
        #expect(sitting.text.contains("NOT THE KEY THEY HAD BEFORE"))
        sitting.press(.alt("1"))
        #expect(sitting.text.contains("everybody who is reached can read this"))
    }

    @Test("two who have the same name are told apart by their keys")
    func sameName() {
        let sitting = Sitting()
        sitting.give(.event(.contacts([Sitting.person(Sitting.anna, "anna"), Sitting.person(Sitting.ben, "Anna")])))
        #expect(sitting.picture[0].contains("anna#1a2b"))
        sitting.give(.event(.entry(Sitting.entry(1, "hi", from: Sitting.ben, named: "you", in: .everybody))))
        sitting.press(.alt("1"))
        #expect(sitting.text.contains("you#2b2b: hi"))
    }

    @Test("from 100 columns on, who is near stands beside the conversation, else above it")
    func side() {
        let wide = Sitting(columns: 100)
        #expect(wide.picture[1].hasSuffix("│ near"))
        #expect(wide.picture[2].hasSuffix("│ anna"))
        let narrow = Sitting(columns: 99)
        #expect(narrow.picture[1] == "near: anna")
    }

    @Test("every picture has the terminal's size, whatever was written and however small it is")
    func sizes() {
        for columns in [1, 2, 3, 5, 10, 20, 29, 30, 39, 40, 80, 99, 100, 200] {
            for rows in [1, 2, 3, 4, 5, 9, 10, 24, 60] {
                let sitting = Sitting(columns: columns, rows: rows)
                for (number, text) in hostileTexts.enumerated() {
                    sitting.give(.event(.entry(Sitting.entry(number + 1, text, named: text))))
                    sitting.give(
                        .event(.entry(Sitting.entry(number + 100, text, from: Sitting.ben, named: text, in: .everybody))))
                }
                sitting.give(.event(.entry(Sitting.entry(60, "mine", from: nil, mark: .waiting))))
                sitting.give(
                    .event(
                        .marked(id: "id-60", conversation: .peer(Sitting.anna), mark: .failed, reason: hostileTexts.joined())))
                sitting.press(.paste("a draft 漢字\nof three\nlines \u{1b}[2J \u{301}\u{301}\u{301}"), .pageUp, .pageUp, .left)
                for key in [TerminalKey.alt("1"), .alt("2"), .pageDown] {
                    sitting.press(key)
                    let picture = sitting.screen.render()
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
    }

    @Test("T1 T2 T3 T4: whatever strangers write or call themselves, only styles and columns steer the terminal")
    func hostile() {
        for hasUTF8 in [true, false] {
            let sitting = Sitting(.latest, columns: 120, rows: 40, hasUTF8: hasUTF8)
            let people = hostileTexts.enumerated().map { number, text in
                Sitting.person(PeerID(bytes: [UInt8(number), 1, 1, 1, 1, 1, 1, 1])!, text)
            }
            sitting.give(.event(.contacts(people)))
            for (number, text) in hostileTexts.enumerated() {
                let id = people[number].id
                sitting.give(.event(.entry(Sitting.entry(number + 1, text, from: id, named: text, in: .peer(id)))))
                sitting.give(.event(.notice(text)))
                sitting.give(
                    .event(
                        .transfer(
                            TransferStatus(
                                id: .transfer(TransferID(rawValue: UInt64(number))), isIncoming: true, peer: id, name: text,
                                done: 1, total: 2, outcome: .interrupted,
                                detail: text))))
                sitting.give(.answered(.find(text), .failure(ControlFailure(.peerNotFound, text))))
                sitting.press(.control("n"))
                sitting.write("/who")
                sitting.write("/verify")
                sitting.write("/send \(text)")
                sitting.give(.answered(.sendFile(.peer(id), text), .failure(ControlFailure(.refused, text))))
                sitting.press(.paste(text))
                for line in sitting.screen.render().lines {
                    var code = line.encoded(hasColor: true, hasUTF8: hasUTF8)
                    // What this program steers with: styles, and where a row goes on.
                    code.replace(#/\x1b\[[0-9;]*[mG]/#, with: "")
                    for scalar in code.unicodeScalars {
                        let category = scalar.properties.generalCategory
                        #expect(
                            ![.control, .format, .lineSeparator, .paragraphSeparator, .privateUse].contains(category)
                                && (hasUTF8 || scalar.isASCII),
                            "U+\(String(scalar.value, radix: 16)) in \(TerminalText.escaped(code))")
                    }
                }
                sitting.press(.control("u"))
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

    @Test("a file goes to the one who is talked to, also when its path stands in quotes")
    func sendFile() {
        let sitting = Sitting()
        let ticket = ChatScreen.Ticket.sendFile(.peer(Sitting.anna), "my photo.jpg")
        #expect(sitting.write("/send 'my photo.jpg'") == [.sendFile("my photo.jpg", Sitting.anna, ticket)])
        #expect(sitting.write("/send").isEmpty)
        sitting.give(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: Sitting.anna, name: "p.jpg", done: 5,
                        total: 10))))
        #expect(sitting.text.contains("sending p.jpg: 5 B of 10 B, 50%"))
        sitting.give(
            .event(
                .transfer(
                    TransferStatus(
                        id: .transfer(TransferID(rawValue: 1)), isIncoming: false, peer: Sitting.anna, name: "p.jpg", done: 10,
                        total: 10,
                        outcome: .completed))))
        #expect(sitting.text.contains("sent p.jpg of 10 B"))
        #expect(!sitting.text.contains("50%"))
        sitting.press(.alt("1"))
        #expect(sitting.write("/send x").isEmpty)
        #expect(sitting.text.contains("a file goes to one person"))
    }

    @Test("Tab completes commands, names and paths as far as they are the same")
    func completion() {
        let sitting = Sitting()
        sitting.press(.text("/se"), .tab)
        #expect(sitting.picture.last == "> /send ")
        #expect(sitting.press(.text("do"), .tab) == [.listPaths("do")])
        sitting.give(.paths("do", ["docs/one", "docs/two"]))
        #expect(sitting.picture.last == "> /send docs/")
        sitting.press(.text("t"))
        sitting.give(.paths("docs/", ["docs/one"]))
        #expect(sitting.picture.last == "> /send docs/t")
        sitting.press(.control("u"), .text("/chat b"), .tab)
        #expect(sitting.picture.last == "> /chat ben")
    }

    @Test("a voice note is recorded for the one who is talked to, and sent as a file")
    func voice() {
        let sitting = Sitting()
        #expect(sitting.write("/voice") == [.record(Sitting.anna, name: "anna")])
        let ticket = ChatScreen.Ticket.sendFile(.peer(Sitting.anna), "/n.opus")
        #expect(
            sitting.give(.recorded(.peer(Sitting.anna), path: "/n.opus", reason: nil))
                == [.sendFile("/n.opus", Sitting.anna, ticket)])
        #expect(sitting.give(.recorded(.peer(Sitting.anna), path: nil, reason: "no microphone")).isEmpty)
        #expect(sitting.text.contains("no microphone"))
    }

    @Test("an unknown command is not sent, and can be corrected")
    func unknownCommand() {
        let sitting = Sitting()
        #expect(sitting.write("/usr/bin is full").isEmpty)
        #expect(sitting.text.contains("there is no /usr/bin; /help lists what there is"))
        #expect(sitting.picture.last == "> /usr/bin is full")
    }

    @Test("somebody who is found late takes nobody away from where they are")
    func lateFind() {
        let sitting = Sitting()
        #expect(sitting.write("/chat ben") == [.ask(.find(name: "ben", timeout: .seconds(5)), .find("ben"))])
        sitting.press(.alt("1"))
        sitting.give(.answered(.find("ben"), .success(.contact(Sitting.person(Sitting.ben, "ben")))))
        #expect(sitting.picture[0].contains("[1 everybody]"))
    }

    @Test("a paste is one message, with its line breaks, and is not sent by them")
    func paste() {
        let sitting = Sitting()
        #expect(sitting.press(.paste("one\ntwo")).isEmpty)
        #expect(sitting.picture.suffix(2) == ["> one", "  two"])
        let ticket = ChatScreen.Ticket.say(.peer(Sitting.anna), "one\ntwo")
        #expect(sitting.press(.enter) == [.ask(.say("one\ntwo", in: .peer(Sitting.anna)), ticket)])
    }

    @Test("the cursor is where the next letter goes")
    func cursor() {
        let sitting = Sitting(columns: 20)
        sitting.press(.text("漢字ab"), .left)
        #expect(sitting.screen.render().cursorColumn == 2 + 4 + 1)
        #expect(sitting.screen.render().cursorRow == 23)
        sitting.press(.control("u"), .text(String(repeating: "x", count: 16)))
        #expect(sitting.screen.render().cursorColumn == 18)
        #expect(sitting.screen.render().cursorRow == 22 || sitting.screen.render().cursorRow == 23)
    }

    @Test("Ctrl-C quits, /quit quits, Ctrl-D only where nothing is written")
    func quitting() {
        let sitting = Sitting()
        #expect(sitting.press(.text("x"), .control("d")).isEmpty)
        #expect(sitting.press(.control("u"), .control("d")) == [.quit])
        #expect(sitting.press(.control("c")) == [.quit])
        #expect(sitting.write("/quit") == [.quit])
    }

    @Test("M: strangers with a key for each line open no more conversations than are held")
    func conversationFlood() {
        let sitting = Sitting()
        for number in 0..<2000 {
            let id = PeerID(bytes: [7, 7, 7, 7, 7, 7, UInt8(number >> 8), UInt8(number & 255)])!
            sitting.give(.event(.entry(Sitting.entry(number + 1, "x", from: id, in: .peer(id)))))
        }
        #expect(sitting.screen.rooms.count == ChatScreen.maximumRooms)
        #expect(sitting.picture[0].contains("[2 anna]"))
    }
}
