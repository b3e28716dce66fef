import Nearshare
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

private let peerID = ChatTyping.peerID

private func withoutTrailingSpaces(_ line: String) -> String {
    String(line.reversed().drop { $0 == " " }.reversed())
}

@Suite("commands of the chat screen") struct ChatCommandTests {
    @Test(
        "commands work where a terminal is the input, whatever the output is",
        arguments: [
            (true, true, true, ChatCommand.Presentation.fullScreen), (true, true, false, .plainLines),
            (true, false, true, .plainLines), (true, false, false, .plainLines), (false, true, true, .pipe),
            (false, false, true, .pipe),
        ])
    func presentation(
        _ isInteractive: Bool, _ isOutputTerminal: Bool, _ canMoveCursor: Bool, _ expected: ChatCommand.Presentation
    ) {
        let presentation = ChatCommand.Presentation(
            isInteractive: isInteractive, isOutputTerminal: isOutputTerminal, canMoveCursor: canMoveCursor)
        #expect(presentation == expected)
    }

    @Test("/help describes every command", arguments: ["/help", "/h", "/?"])
    func help(_ command: String) {
        var typing = ChatTyping(columns: 200, rows: 60)
        typing.type(command)
        for command in ChatScreenCommand.allCases {
            #expect(typing.text.contains(command.help), "\(command.name) in \(typing.text)")
        }
    }

    @Test("every command is understood by its names, and completed by Tab", arguments: ChatScreenCommand.allCases)
    func table(_ command: ChatScreenCommand) {
        for word in [command.name] + command.aliases {
            #expect(ChatScreenCommand(word) == command)
            var typing = ChatTyping(columns: 200)
            typing.type(word)
            #expect(!typing.text.contains("unknown command"), "\(typing.text)")
        }
        var typing = ChatTyping()
        typing.press(.text(command.name))
        typing.press(.tab)
        // The name of one command may begin that of another.
        #expect(typing.inputLine.hasPrefix("> \(command.name)"))
        #expect(withoutTrailingSpaces(typing.inputLine) == "> \(command.name)")
    }

    @Test(
        "Tab completes the peer of each command that takes one",
        arguments: ChatScreenCommand.allCases.filter {
            [.peer, .peerAndText].contains($0.argument)
        })
    func peerCompletion(_ command: ChatScreenCommand) {
        let status: TrustStatus = command == .unblock ? .known(.blocked, isFriend: false) : .new
        for (name, isWord) in [("anna", true), ("anna maria", false)] {
            let contact = Contact(
                id: peerID, name: DisplayName(truncating: name)!, trustStatus: status, isNear: true, software: .nearshare,
                hasKeys: true)
            var typing = ChatTyping()
            typing.handle(.event(.contacts([contact])))
            typing.press(.text("\(command.name) An"))
            typing.press(.tab)
            let word = isWord || command.argument == .peer ? name : peerID.hex
            let line = withoutTrailingSpaces(typing.inputLine)
            #expect(line == "> \(command.name) \(word)")
        }
    }

    @Test("K2: /msg takes the whole name of a known peer, a name in quotation marks, or a word", arguments: [false, true])
    func messageName(isKnown: Bool) {
        var typing = ChatTyping(columns: 200)
        let status: TrustStatus = isKnown ? .known(.seen, isFriend: false) : .new
        let contact = Contact(
            id: peerID, name: DisplayName(truncating: "Anna Big Boss")!, trustStatus: status, isNear: true,
            software: .nearshare,
            hasKeys: true)
        typing.handle(.event(.contacts([contact])))
        func lookedUp(_ line: String) -> String? {
            var typing = typing
            for case .request(.find(let name, _), _) in typing.type(line) { return name }
            return nil
        }
        #expect(lookedUp("/msg anna big boss hello") == (isKnown ? "anna big boss" : "anna"))
        #expect(lookedUp("/msg \"Anna Big Boss\" hello") == "Anna Big Boss")
        #expect(lookedUp("/msg Anna Big hello") == "Anna")
        #expect(lookedUp("/msg \"Anna Big Boss\"") == nil)
        #expect(lookedUp("/msg \"\" hello") == nil)
    }

    @Test("after /msg, Tab completes what the names of several peers have in common, up to a space")
    func commonWord() {
        let contacts = ["1a2b3c4d5e6f7081", "2a2b3c4d5e6f7081"].enumerated().map { number, id in
            Contact(
                id: PeerID(hex: id)!, name: DisplayName(truncating: "anna \(number)")!, trustStatus: .new, isNear: true,
                software: .nearshare, hasKeys: true)
        }
        var typing = ChatTyping()
        typing.handle(.event(.contacts(contacts)))
        typing.press(.text("/msg a"))
        typing.press(.tab)
        #expect(withoutTrailingSpaces(typing.inputLine) == "> /msg anna")
    }

    @Test("several commands quit", arguments: ["/quit", "/exit", "/q"])
    func quit(_ command: String) {
        var typing = ChatTyping()
        let reactions = typing.type(command)
        #expect(reactions == [.quit])
    }

    @Test(
        "commands without their argument explain themselves",
        arguments: [
            ("/chat", "missing name"), ("/chat   ", "missing name"), ("/send", "missing file"), ("/send ''", "missing file"),
            ("/send --allow-unencrypted", "missing file"), ("/send --allow-unencrypted  ''", "missing file"),
        ])
    func missingArguments(_ command: String, _ words: String) {
        var typing = ChatTyping()
        let reactions = typing.type(command)
        #expect(reactions.isEmpty)
        #expect(typing.text.contains(words), "\(typing.text)")
    }

    @Test("a voice note needs a conversation with one peer") func needsPeer() {
        var (room, start) = (ChatTyping(columns: 200), ChatTyping(.latest, columns: 200))
        let reactions = room.type("/voice") + start.type("/voice")
        #expect(reactions.isEmpty)
        #expect(room.text.contains("a voice note needs a single receiver: /chat NAME opens a conversation"), "\(room.text)")
        #expect(start.text.contains("no conversation is open: /chat NAME opens one"), "\(start.text)")
    }

    @Test func `the public room is opened by its command`() {
        var typing = ChatTyping(.latest)
        typing.type("/public")
        let reactions = typing.type("hello")
        #expect(reactions == [.request(.sendLine("hello", in: .publicRoom), .sendLine(.publicRoom, "hello"))])
    }

    @Test func `the list of peers tells trust, software and distance`() {
        var typing = ChatTyping()
        typing.type("/who")
        #expect(typing.text.contains("no peers nearby"))
        typing.meet("anna", status: .known(.verified, isFriend: true), software: .phone, isNear: false)
        typing.type("/who")
        #expect(typing.text.contains("anna  1a2b3c4d5e6f7081  away, bitchat, friend, verified"), "\(typing.text)")
    }

    @Test func `the list of peers asks the node for the signal strength of neighbours, and is complete without`() throws {
        let contact = Contact(
            id: peerID, name: DisplayName(truncating: "ben")!, trustStatus: .new, isNear: true, software: .nearshare,
            hasKeys: true, hops: 1)
        var typing = ChatTyping()
        typing.handle(.event(.contacts([contact])))
        let reactions = typing.type("/who")
        #expect(reactions.contains(.request(.status, .who(.publicRoom))) && !typing.text.contains("near, 1 hop"))
        let neighbour = NodeStatus.Neighbour(
            contact: contact, isDirect: true, signal: NodeStatus.Signal(strength: -61, age: 12))
        let profile = NodeStatus.Profile(
            name: nil, hopLimit: 1, timeToLive: 2, sharingTime: 3, maximumPropagation: 4, tracklistLimit: 5)
        let status = NodeStatus(
            id: try #require(PeerID(hex: "00000000000000aa")), name: try DisplayName("anna"), process: 42, uptime: 1,
            isDaemon: true, profile: profile, port: 4_000, neighbours: [neighbour], storedBundleCount: 0, sessionLifetime: 60,
            secureSessions: [], bluetooth: .on(channel: 131), inbox: "/inbox")
        typing.handle(.replied(.who(.publicRoom), .success(.status(status))))
        #expect(
            typing.text.contains("ben  1a2b3c4d5e6f7081  near, 1 hop, Bluetooth -61 dBm 12 s ago,"),
            "\(typing.text)")
        typing.type("/who")
        typing.handle(.replied(.who(.publicRoom), .failure(ControlFailure(.gone, "the node has ended"))))
        #expect(typing.text.contains("near, 1 hop, nearshare, new"), "\(typing.text)")
    }

    @Test(
        "verifying is explained, for each kind of peer",
        arguments: [
            (TrustStatus.new, Contact.Software.nearshare, "nearshare peers verify 1a2b3c4d5e6f7081"),
            (.new, .nearshare, "anna is not verified: another person may use this name"),
            (.new, .phone, "with the link of the verification code in bitchat there"),
            (.known(.verified, isFriend: false), .nearshare, "anna is verified: the key 1a2b3c4d5e6f7081 was checked"),
            (.known(.blocked, isFriend: false), .nearshare, "anna is blocked, and cannot be verified before /unblock"),
            (
                .nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!), .nearshare,
                "WARNING: anna is known with another key, 0707070707070707"
            ),
            (.new, .blueChat, "anna cannot be verified: BlueChat has no keys"),
        ])
    fileprivate func verify(_ status: TrustStatus, _ software: Contact.Software, _ words: String) {
        var typing = ChatTyping(.latest, columns: 200)
        typing.meet("anna", status: status, software: software)
        typing.type("/verify")
        #expect(typing.text.contains(words), "\(typing.text)")
    }

    @Test func `a peer is verified by its name as well, and a link may be copied from several rows`() {
        var typing = ChatTyping(.publicRoom, columns: 200)
        typing.meet("anna", isNear: false)
        typing.press(.alt("1"))
        let named = typing.type("/verify anna")
        #expect(named == [.request(.verificationLink, .verificationLink(.publicRoom))])
        #expect(typing.text.contains("anna is away: the key can be verified when the peer is near"), "\(typing.text)")
        #expect(typing.type("/verify zoe").isEmpty && typing.text.contains("zoe is not in the list of /who"), "\(typing.text)")
        typing.press(.paste("/verify bitchat://verify?v=1\n      &noise=aa"))
        #expect(typing.press(.enter) == [.request(.verify(link: "bitchat://verify?v=1&noise=aa"), .verify(.publicRoom))])
    }

    @Test func `a blocked peer, which is in no list, is unblocked by the node, and the reply is where the user has typed`() {
        var typing = ChatTyping(.publicRoom)
        typing.meet("mallory")
        typing.press(.alt("1"))
        let contact = { (status: TrustStatus) in
            Contact(
                id: peerID, name: DisplayName(truncating: "mallory")!, trustStatus: status, isNear: true, software: .nearshare,
                hasKeys: true)
        }
        let blocked = ChatScreen.RequestTag.setBlocked(.publicRoom, true, former: .new)
        #expect(typing.type("/block mal") == [.request(.block(peerID), blocked)])
        typing.handle(.event(.contacts([])))
        typing.handle(
            .replied(.setBlocked(.publicRoom, true), .success(.contact(contact(.known(.blocked, isFriend: false))))))
        #expect(typing.text.contains("* mallory is blocked"), "\(typing.text)")
        typing.type("/who")
        #expect(typing.text.contains("no peers nearby"), "\(typing.text)")
        typing.handle(.event(.contacts([])))
        #expect(typing.type("/unblock mal") == [.request(.unblock(name: "mal"), .setBlocked(.publicRoom, false))])
        typing.handle(.replied(.setBlocked(.publicRoom, false), .success(.contact(contact(.new)))))
        #expect(typing.text.contains("* mallory is no longer blocked; it is neither a friend nor verified"), "\(typing.text)")
        var start = ChatTyping(.latest)
        #expect(start.type("/unblock mal") == [.request(.unblock(name: "mal"), .setBlocked(nil, false))])
        start.handle(.replied(.setBlocked(nil, false), .success(.contact(contact(.new)))))
        #expect(start.text.contains("* mallory is no longer blocked; it is neither a friend nor verified"), "\(start.text)")
    }

    @Test func `the status line says that a peer is blocked or a friend, also after the next list of peers`() {
        var typing = ChatTyping(.latest)
        typing.meet("mallory")
        func reply(_ tag: ChatScreen.RequestTag, _ status: TrustStatus) -> ChatScreen.Input {
            let contact = Contact(
                id: peerID, name: DisplayName(truncating: "mallory")!, trustStatus: status, isNear: true, software: .nearshare,
                hasKeys: true)
            return .replied(tag, .success(.contact(contact)))
        }
        typing.type("/block")
        typing.handle(reply(.setBlocked(.peer(peerID), true), .known(.blocked, isFriend: false)))
        // The lists of the node are without blocked peers.
        typing.handle(.event(.contacts([])))
        #expect(typing.text.contains("mallory is blocked: nothing is sent or received before /unblock"), "\(typing.text)")
        typing.handle(reply(.setBlocked(.peer(peerID), false), .known(.seen, isFriend: false)))
        #expect(typing.text.contains("mallory is near"), "\(typing.text)")
        typing.handle(reply(.setFriend(.peer(peerID), true), .known(.seen, isFriend: true)))
        #expect(typing.text.contains("mallory is near  friend"), "\(typing.text)")
        typing.handle(reply(.verify(.peer(peerID)), .known(.verified, isFriend: true)))
        #expect(typing.text.contains("mallory is near  verified friend"), "\(typing.text)")
    }

    @Test func `a pipe says which peer gets the lines where it is new here and near`() {
        func notice(_ status: TrustStatus, isNear: Bool = true) -> String? {
            PipedConversation.newcomerNotice(
                for: Contact(
                    id: peerID, name: DisplayName(truncating: "zoe")!, trustStatus: status, isNear: isNear,
                    software: .nearshare, hasKeys: true))
        }
        #expect(notice(.new) == "each line goes to zoe (\(peerID)), which is new here")
        #expect(notice(.new, isNear: false) == nil && notice(.known(.seen, isFriend: false)) == nil)
    }

    @Test func `the reply to a command is shown, however far the user has scrolled`() {
        var typing = ChatTyping(.latest)
        typing.meet("anna")
        for _ in 0..<4 { typing.type("/help") }
        typing.type("/fav")
        typing.press(.pageUp)
        let friend = Contact(
            id: peerID, name: DisplayName(truncating: "anna")!, trustStatus: .known(.seen, isFriend: true), isNear: true,
            software: .nearshare, hasKeys: true)
        typing.handle(.replied(.setFriend(.peer(peerID), true), .success(.contact(friend))))
        #expect(typing.text.contains("anna is a friend: --accept friends takes its files"), "\(typing.text)")
    }

    @Test(
        "a command that takes no argument says so, and does nothing",
        arguments: ["/who", "/public", "/clear", "/export", "/panic", "/voice"])
    func needlessArgument(_ command: String) {
        var typing = ChatTyping()
        #expect(typing.type("\(command) x").isEmpty)
        #expect(typing.text.contains("\(command) takes no argument: enter it alone"), "\(typing.text)")
    }

    @Test func `replies about a peer whose name another one has as well are tagged like the rest of the screen`() {
        var typing = ChatTyping(.publicRoom)
        let contacts = ["1a2b3c4d5e6f7081", "2b2b3c4d5e6f7081"].map { id in
            Contact(
                id: PeerID(hex: id)!, name: DisplayName(truncating: "anna")!, trustStatus: .known(.seen, isFriend: false),
                isNear: true, software: .nearshare, hasKeys: true)
        }
        typing.handle(.event(.contacts(contacts)))
        let replies: [(ChatScreen.RequestTag, String)] = [
            (.setBlocked(.publicRoom, false), "anna#1a2b is no longer blocked; it is neither a friend nor verified"),
            (.setFriend(nil, true), "anna#1a2b is a friend"),
            (.verify(nil), "anna#1a2b is verified"),
        ]
        for (tag, words) in replies {
            typing.handle(.replied(tag, .success(.contact(contacts[0]))))
            #expect(typing.text.contains(words), "\(typing.text)")
        }
    }

    @Test func `a message of several lines is shown in as many rows`() {
        let several = "anna matches several peers; use the id of one:\n  anna  1a2b3c4d5e6f7081\n  anna  2b2b3c4d5e6f7081"
        let inputs: [ChatScreen.Input] = [
            .replied(.lookup("anna"), .failure(ControlFailure(.peerNotFound, several))), .event(.notice(several)),
            .replied(.setBlocked(nil, true), .failure(ControlFailure(.refused, several))),
        ]
        for input in inputs {
            var typing = ChatTyping(.publicRoom, columns: 90)
            typing.type("/msg anna hello")
            typing.handle(input)
            let rows = typing.text.split(separator: "\n")
            let row = rows.firstIndex { $0.hasSuffix("* anna matches several peers; use the id of one:") }
            guard let row else {
                Issue.record("\(typing.text)")
                continue
            }
            #expect(rows[row + 1].hasSuffix("  anna  1a2b3c4d5e6f7081") && rows[row + 2].hasSuffix("  anna  2b2b3c4d5e6f7081"))
            #expect(!typing.text.contains("\\u{a}"), "\(typing.text)")
        }
    }

    @Test func `commands about a peer name it, or take the one of the conversation`() {
        var typing = ChatTyping(.latest)
        typing.meet("anna", status: .known(.seen, isFriend: true))
        let cases: [(String, ControlRequest)] = [
            ("/block", .block(peerID)), ("/unblock anna", .unblock(name: "anna")), ("/unblock", .unblock(name: peerID.hex)),
            ("/fav an", .setFriend(peerID, true)), ("/unfav", .setFriend(peerID, false)), ("/ping", .ping(peerID)),
            ("/trace anna", .ping(peerID)), ("/ping 1a2b", .ping(peerID)),
        ]
        for (line, request) in cases {
            let reactions = typing.type(line)
            guard case .request(request, _)? = reactions.first, reactions.count == 1 else {
                Issue.record("\(line): \(reactions)")
                continue
            }
        }
        // The key of a newcomer may be made for its beginning.
        var other = ChatTyping(.latest)
        other.meet("mallory")
        #expect(other.type("/block 1a2b").isEmpty && other.text.contains("1a2b is not in the list"), "\(other.text)")
        let unknown = typing.type("/block nobody")
        #expect(unknown.isEmpty && typing.text.contains("nobody is not in the list of /who"), "\(typing.text)")
        typing.handle(
            .replied(.ping(.peer(peerID), peerID, showsPath: false), .success(.pong(PingReport(milliseconds: 7, hops: 2)))))
        #expect(typing.text.contains("* anna: answer after 7 ms over 2 hops"), "\(typing.text)")
        typing.handle(
            .replied(.ping(.peer(peerID), peerID, showsPath: true), .success(.pong(PingReport(milliseconds: 7, hops: 1)))))
        #expect(typing.text.contains("over 1 hop, from a neighbour"), "\(typing.text)")
        typing.handle(.replied(.setBlocked(.peer(peerID), true), .failure(ControlFailure(.peerNotFound, "no key"))))
        #expect(typing.text.contains("no key"), "\(typing.text)")
    }

    @Test func `what cannot be undone is done when it is entered twice`() {
        var typing = ChatTyping(.publicRoom, columns: 200)
        #expect(typing.type("/clear").isEmpty)
        #expect(typing.text.contains("press Enter again to do it") && typing.inputLine == "> /clear", "\(typing.text)")
        // Another command in between is a change of mind.
        typing.press(.control("u"))
        typing.type("/who")
        #expect(typing.type("/clear").isEmpty)
        let cleared = typing.press(.enter)
        #expect(cleared == [.request(.clear(.publicRoom), .clear(.publicRoom))])
        typing.handle(.replied(.clear(.publicRoom), .success(.done)))
        // The lines before are gone, the question among them.
        #expect(typing.text.contains("all lines of this conversation are removed from this machine"), "\(typing.text)")
        #expect(!typing.text.contains("press Enter again") && !typing.text.contains("no peers nearby"), "\(typing.text)")
        #expect(typing.type("/panic").isEmpty)
        // A text in between is one as well.
        typing.press(.control("u"))
        #expect(!typing.type("hello").isEmpty)
        #expect(typing.type("/panic").isEmpty)
        let erased = typing.press(.enter)
        #expect(erased == [.erase])
    }

    @Test func `a lifetime of lines is confirmed, and the reply says what it does and what not`() throws {
        var typing = ChatTyping(.latest, columns: 250)
        typing.meet("ben")
        let conversation = Conversation.peer(peerID)
        let hour = try #require(MessageLifetime("1h"))
        let shown = typing.type("/disappear")
        #expect(shown == [.request(.lifetime(conversation), .lifetime(conversation))])
        typing.handle(
            .replied(.lifetime(conversation), .success(.lifetime(ConversationLifetime(.standard, standard: nil)))))
        #expect(typing.text.contains("lines of this conversation stay on this machine (the default)"), "\(typing.text)")
        // Older lines are removed at once, which cannot be undone.
        #expect(typing.type("/disappear 1h").isEmpty)
        #expect(
            typing.text.contains("older ones now; press Enter again") && typing.inputLine == "> /disappear 1h", "\(typing.text)"
        )
        let set = typing.press(.enter)
        #expect(set == [.request(.setLifetime(conversation, .limited(hour)), .lifetime(conversation))])
        typing.handle(
            .replied(.lifetime(conversation), .success(.lifetime(ConversationLifetime(.limited(hour), standard: nil)))))
        let sentence =
            "lines of this conversation are removed from this machine 1 hour after they were written or received; ben keeps its copies"
        #expect(typing.text.contains(sentence) && typing.text.contains("ben is near  lines stay 1h"), "\(typing.text)")
        let lifted = typing.type("/disappear off")
        #expect(lifted == [.request(.setLifetime(conversation, .unlimited), .lifetime(conversation))])
        // The default may be shorter than the setting before.
        #expect(typing.type("/disappear default").isEmpty)
        #expect(typing.text.contains("lines older than that are removed now; press Enter again"), "\(typing.text)")
        let reset = typing.press(.enter)
        #expect(reset == [.request(.setLifetime(conversation, .standard), .lifetime(conversation))])
        // Another chat of this machine has set it.
        typing.handle(.event(.lifetimeChanged(conversation, ConversationLifetime(.unlimited, standard: hour))))
        #expect(!typing.text.contains("lines stay 1h"), "\(typing.text)")
        typing.handle(.replied(.history(conversation), .success(.chatMessages([], lifetime: hour))))
        #expect(typing.text.contains("lines stay 1h"), "\(typing.text)")
        typing.handle(.replied(.lifetime(conversation), .failure(ControlFailure(.storage, "the disk is full"))))
        #expect(typing.text.contains("the disk is full"), "\(typing.text)")
    }

    @Test(
        "a text that is no lifetime sets none, with advice",
        arguments: ["soon", "10", "0m", "366d", "1h 5m", "-1d", "10s", "OFF"])
    func invalidLifetime(_ text: String) {
        var typing = ChatTyping(.publicRoom, columns: 150)
        #expect(typing.type("/disappear \(text)").isEmpty)
        #expect(typing.text.contains("no valid time: enter /disappear TIME, such as 10m, 1h or 7d"), "\(typing.text)")
    }

    @Test func `lines that were removed while the screen had no node leave it with the next history`() throws {
        var typing = ChatTyping(.latest)
        typing.meet("ben")
        let conversation = Conversation.peer(peerID)
        let minute = try #require(MessageLifetime("1m"))
        for (number, age) in [(1, 60_000), (2, 59_999)] as [(Int, Int64)] {
            let message = ChatMessage(
                number: number, id: "\(number)", conversation: conversation, author: peerID, authorName: nil,
                text: "text \(number)", when: WallTime(milliseconds: typing.now.milliseconds - age), status: .read)
            typing.handle(.event(.chatMessage(message)))
        }
        typing.handle(.replied(.history(conversation), .success(.chatMessages([]))))
        #expect(typing.text.contains("text 1") && typing.text.contains("text 2"), "\(typing.text)")
        typing.handle(.replied(.history(conversation), .success(.chatMessages([], lifetime: minute))))
        #expect(!typing.text.contains("text 1") && typing.text.contains("text 2"), "\(typing.text)")
    }

    @Test func `lines that are removed at the end of their lifetime leave the screen, others and their tabs stay`() {
        var typing = ChatTyping(.publicRoom)
        for number in 1...3 {
            let message = ChatMessage(
                number: number, id: "\(number)", conversation: .publicRoom, author: peerID, authorName: nil,
                text: "text \(number)",
                when: WallTime(milliseconds: Int64(number)), status: .delivered)
            typing.handle(.event(.chatMessage(message)))
        }
        typing.handle(.event(.messagesExpired(.peer(peerID), until: typing.now)))
        typing.handle(.event(.messagesExpired(.publicRoom, until: WallTime(milliseconds: 2))))
        #expect(!typing.text.contains("text 1") && !typing.text.contains("text 2"), "\(typing.text)")
        #expect(typing.text.contains("text 3") && typing.screen.views.count == 1, "\(typing.text)")
    }

    @Test func `a file for everyone needs the public room on the screen, one for an old app the user's consent`() {
        var typing = ChatTyping(.publicRoom)
        let file = typing.type("/send a.jpg")
        #expect(file == [.sendFile("a.jpg", .everyone, .sendFile(.publicRoom, "a.jpg"))])
        #expect(typing.type("/send --allow-unencrypted a.jpg") == file)
        typing.meet("anna")
        let unsealed = typing.type("/send --allow-unencrypted 'b c.jpg'")
        #expect(unsealed == [.sendFile("b c.jpg", peerID, isEncrypted: false, .sendFile(.peer(peerID), "b c.jpg"))])
        for line in ["/send 'b c.jpg' --allow-unencrypted", "/send  --allow-unencrypted  b c.jpg"] {
            #expect(typing.type(line) == unsealed, "\(line)")
        }
        for path in ["--allow-unencrypted a", "a --allow-unencrypted", "--allow-unencrypted"] {
            let sealed: [ChatScreen.Reaction] = [.sendFile(path, peerID, .sendFile(.peer(peerID), path))]
            #expect(typing.type("/send '\(path)'") == sealed)
        }
        #expect(
            typing.type("/send --allow-unencrypteda.jpg")
                == [
                    .sendFile(
                        "--allow-unencrypteda.jpg", peerID, .sendFile(.peer(peerID), "--allow-unencrypteda.jpg"))
                ])
        var start = ChatTyping(.latest)
        #expect(start.type("/send a.jpg").isEmpty && start.text.contains("no conversation is open"), "\(start.text)")
    }

    @Test func `lines are searched, exported, and sent to a peer that is named`() {
        var typing = ChatTyping(.publicRoom)
        let search = typing.type("/search hi there")
        #expect(search == [.request(.search("hi there", in: .publicRoom, limit: 50), .search(.publicRoom, "hi there"))])
        typing.handle(.replied(.search(.publicRoom, "hi"), .success(.chatMessages([]))))
        #expect(typing.text.contains("no line contains hi"), "\(typing.text)")
        #expect(typing.type("/export") == [.export(.publicRoom, name: "everyone")])
        typing.handle(.exported(.publicRoom, .success("/inbox/chat.txt")))
        #expect(typing.text.contains("written to /inbox/chat.txt"), "\(typing.text)")
        #expect(typing.type("/msg").isEmpty && typing.text.contains("/msg NAME TEXT"), "\(typing.text)")
        #expect(typing.type("/msg anna good morning").count == 1)
        let contact = Contact(
            id: peerID, name: DisplayName(truncating: "anna")!, trustStatus: .known(.seen, isFriend: false), isNear: true,
            software: .phone, hasKeys: false, hops: 3)
        let found = typing.handle(.replied(.lookup("anna"), .success(.contact(contact))))
        #expect(
            found.contains(.request(.sendLine("good morning", in: .peer(peerID)), .sendLine(.peer(peerID), "good morning"))))
        typing.handle(.event(.contacts([contact])))
        typing.type("/who")
        #expect(typing.text.contains("near, 3 hops, bitchat"), "\(typing.text)")
    }

    @Test func `without a link this node's code is drawn, with one the peer is asked`() {
        var typing = ChatTyping(columns: 128, rows: 60)
        let shown = typing.type("/verify")
        #expect(shown == [.request(.verificationLink, .verificationLink(.publicRoom))])
        let link = "bitchat://verify?v=1&noise=\(String(repeating: "a", count: 64))"
        typing.handle(.replied(.verificationLink(.publicRoom), .success(.text(link))))
        #expect(typing.text.contains(link), "\(typing.text)")
        #expect(typing.text.contains("█▀▀▀▀▀█"), "\(typing.text)")
        let asked = typing.type("/verify \(link)")
        #expect(asked == [.request(.verify(link: link), .verify(.publicRoom))])
        typing.handle(.replied(.verify(.publicRoom), .failure(ControlFailure(.unavailable, "no answer"))))
        #expect(typing.text.contains("not verified: no answer"), "\(typing.text)")
    }

    @Test func `a code that does not fit the screen is not drawn, and the link is shown`() throws {
        let link = "bitchat://verify?v=1&noise=\(String(repeating: "a", count: 64))"
        let code = try QRCode(link)
        // The bar, the line of peers nearby, the status and the input line.
        let needed = TerminalSize(columns: code.columns, rows: code.rowCount + 4)
        func typing(_ columns: Int, _ rows: Int) -> ChatTyping {
            var typing = ChatTyping(columns: columns, rows: rows)
            typing.handle(.replied(.verificationLink(.publicRoom), .success(.text(link))))
            return typing
        }
        let fitting = typing(needed.columns, needed.rows).text
        #expect(fitting.contains(code.lines(isInverted: false).joined(separator: "\n")), "\(fitting)")
        #expect(fitting.contains("[Page Up: the link, and what to do]"), "\(fitting)")
        // With room for the explanation.
        #expect(!typing(needed.columns, needed.rows + 20).text.contains("[Page Up"))
        for (columns, rows) in [(needed.columns, needed.rows - 1), (needed.columns - 1, needed.rows), (80, 24), (30, 60)] {
            // A narrow screen wraps the sentence.
            let shown = typing(columns, rows).text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(!shown.contains("█▀▀▀▀▀█"), "\(shown)")
            #expect(
                shown.contains(
                    "the terminal has no room for the QR code, which takes \(needed.columns) columns and \(needed.rows) rows: "
                        + "enlarge it"), "\(shown)")
            #expect(shown.contains("bitchat://verify?v=1"), "\(shown)")
        }
    }

    @Test func `a file and a voice note go to the peer of the conversation`() {
        var typing = ChatTyping(.latest)
        typing.meet("anna")
        let file = typing.type("/send \"a b.jpg\"")
        #expect(file == [.sendFile("a b.jpg", peerID, .sendFile(.peer(peerID), "a b.jpg"))])
        let note = typing.type("/voice")
        #expect(note == [.record(peerID, name: "anna")])
        let recorded = typing.handle(.recorded(peerID, .saved(path: "/v.opus")))
        #expect(recorded == [.sendFile("/v.opus", peerID, .sendFile(.peer(peerID), "/v.opus"))])
        let failed = typing.handle(.recorded(peerID, .failed(reason: "no microphone")))
        #expect(failed.isEmpty && typing.text.contains("no microphone"))
    }

    @Test func `a received picture is shown by its name, or the newest one of the conversation`() {
        var typing = ChatTyping(.latest)
        #expect(typing.type("/show") == [.showPicture(nil, in: nil)])
        typing.meet("anna")
        #expect(typing.type("/show") == [.showPicture(nil, in: .peer(peerID))])
        #expect(typing.type("/show \"a b.jpg\"") == [.showPicture("a b.jpg", in: .peer(peerID))])
        typing.handle(.pictureFailed(.peer(peerID), reason: "chafa is not installed\u{1b}"))
        #expect(typing.text.contains("not shown: chafa is not installed\\u{1b}"), "\(typing.text)")
    }

    @Test func `a voice note is played by its id, or the newest one of the conversation`() {
        var typing = ChatTyping(.latest)
        #expect(typing.type("/play") == [.play(note: nil, in: nil)])
        typing.meet("anna")
        #expect(typing.type("/play") == [.play(note: nil, in: .peer(peerID))])
        #expect(typing.type("/play 3f2a1b") == [.play(note: "3f2a1b", in: .peer(peerID))])
        typing.handle(.playbackFailed(.peer(peerID), reason: "no loudspeaker\u{1b}"))
        #expect(typing.text.contains("not played: no loudspeaker\\u{1b}"), "\(typing.text)")
    }

    @Test func `a text that is too long is rejected with advice`() {
        var typing = ChatTyping()
        typing.press(.paste(String(repeating: "x", count: ChatMessage.maximumTextByteCount + 1)))
        #expect(typing.text.contains("a message holds at most"))
        #expect(typing.inputLine == "> ")
    }

    @Test func `a search reports its failure, escaped, and opens nothing`() {
        var typing = ChatTyping()
        let reactions = typing.type("/chat zoe")
        #expect(reactions == [.request(.find(name: "zoe", timeout: .seconds(5)), .lookup("zoe"))])
        #expect(typing.text.contains("looking for zoe…"))
        let failure = ControlFailure(.peerNotFound, "zoe is not nearby\u{1b}")
        let after = typing.handle(.replied(.lookup("zoe"), .failure(failure)))
        #expect(after.isEmpty && typing.text.contains("zoe is not nearby"))
        #expect(!typing.text.unicodeScalars.contains("\u{1b}"))
        #expect(typing.screen.views.visible.lookup?.isRunning == false)
    }

    @Test("a command to which a node has not replied before its end is named, once", arguments: [true, false])
    func unconfirmedCommand(isReplyFirst: Bool) {
        var typing = ChatTyping()
        typing.meet("anna")
        for (command, failure) in [
            ("/ping", ControlFailure(.unavailable, "no route")), ("/block", ControlFailure(.gone, "the node has stopped")),
        ] {
            let asked = typing.type(command)
            guard case .request(_, let tag)? = asked.first else {
                Issue.record("\(asked)")
                return
            }
            if isReplyFirst || failure.kind != .gone { typing.handle(.replied(tag, .failure(failure))) }
        }
        for _ in 1...2 { typing.handle(.nodeReplaced) }
        let reason = isReplyFirst ? "the node has stopped" : "the node ended before it replied"
        let named = typing.text.ranges(of: "perhaps not done: ").count
        #expect(named == 1 && typing.text.contains("perhaps not done: /block: \(reason)"), "\(typing.text)")
    }

    @Test func `the end of the node is shown, and typing goes on`() {
        var typing = ChatTyping()
        typing.press(.text("dra"))
        typing.handle(.nodeEnded)
        #expect(typing.text.contains("the node has stopped"))
        typing.press(.text("ft"))
        #expect(typing.inputLine == "> draft")
        typing.press(.enter)
        #expect(typing.inputLine == "> " && typing.text.contains("not sent: the node has stopped"))
        typing.press(.up)
        #expect(typing.inputLine == "> draft")
        typing.press(.control("u"))
        #expect(typing.type("/quit") == [.quit])
    }

    @Test(
        "Ctrl-C and Ctrl-D quit, Ctrl-Z suspends, Ctrl-L draws again",
        arguments: [
            (TerminalKey.control("c"), ChatScreen.Reaction.quit), (.control("z"), .suspend), (.control("l"), .redraw),
            (.control("d"), .quit),
        ])
    func controlKeys(_ key: TerminalKey, _ reaction: ChatScreen.Reaction) {
        var typing = ChatTyping()
        let reactions = typing.press(key)
        #expect(reactions == [reaction])
    }

    @Test func `editing keys change the input line only`() {
        var typing = ChatTyping()
        typing.press(.text("helo"))
        let reactions = [TerminalKey.left, .text("l"), .end, .text("!"), .home, .text("> ")].flatMap { typing.press($0) }
        #expect(reactions.isEmpty)
        #expect(typing.inputLine == "> > hello!")
        typing.press(.control("u"))
        #expect(typing.inputLine == "> hello!")
        typing.press(.control("k"))
        #expect(typing.inputLine == "> ")
        // The last deletion returns.
        typing.press(.control("y"))
        #expect(typing.inputLine == "> hello!")
    }

    @Test func `sent texts are recalled with the arrow keys, and the draft returns`() {
        var typing = ChatTyping()
        typing.type("one")
        typing.type("two")
        typing.press(.text("draft"))
        typing.press(.up)
        typing.press(.up)
        #expect(typing.inputLine == "> one")
        typing.press(.down)
        typing.press(.down)
        #expect(typing.inputLine == "> draft")
    }

    @Test func `a line break makes a message of two rows, which is sent as one`() {
        var typing = ChatTyping()
        typing.press(.text("a"))
        typing.press(.lineBreak)
        typing.press(.text("b"))
        let reactions = typing.press(.enter)
        #expect(reactions == [.request(.sendLine("a\nb", in: .publicRoom), .sendLine(.publicRoom, "a\nb"))])
    }

    @Test(
        "T1: notices are shown escaped",
        arguments: [("\u{1b}[2J", #"\u{1b}[2J"#), ("\u{202e}abc", #"\u{202e}abc"#), ("a\u{7}", #"a\u{7}"#)])
    func notices(_ text: String, _ shown: String) {
        var typing = ChatTyping()
        typing.handle(.event(.notice(text)))
        #expect(typing.text.contains(shown), "\(typing.text)")
        #expect(!typing.text.unicodeScalars.contains { $0 == "\u{1b}" || $0 == "\u{202e}" || $0 == "\u{7}" })
    }

    @Test func `a tab completes a command to the common prefix of those that match`() {
        var typing = ChatTyping()
        typing.press(.text("/v"))
        typing.press(.tab)
        #expect(typing.inputLine == "> /v")
        typing.press(.text("o"))
        typing.press(.tab)
        #expect(typing.inputLine == "> /voice")
        typing.press(.control("u"))
        typing.press(.text("word"))
        let reactions = typing.press(.tab)
        #expect(reactions.isEmpty && typing.inputLine == "> word")
    }

    @Test("T4: names that need escaping are not completed")
    func hostileCompletion() {
        var typing = ChatTyping()
        let contact = Contact(
            id: peerID, name: DisplayName(truncating: "an\u{1b}na")!, trustStatus: .new, isNear: true, software: .nearshare,
            hasKeys: true)
        typing.handle(.event(.contacts([contact])))
        typing.press(.text("/chat an"))
        typing.press(.tab)
        #expect(typing.inputLine == "> /chat an")
    }

    @Test("every frame fits the terminal, whatever is typed and received", arguments: 1...15 as ClosedRange<UInt64>)
    func frames(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var typing = ChatTyping(random.once(in: 2) ? .publicRoom : .latest)
        let keys: [TerminalKey] = [
            .text("a"), .text("日本"), .text("/who"), .text("e\u{301}"), .paste("x\ny\n" + String(repeating: "z", count: 200)),
            .enter, .lineBreak, .backspace, .left, .home, .up, .down, .pageUp, .pageDown, .tab, .backTab, .control("n"),
            .control("u"), .alt("2"), .escape,
        ]
        for step in 0..<300 {
            switch Int.random(in: 0..<8, using: &random) {
            case 0:
                let size = TerminalSize(
                    columns: Int.random(in: 1...160, using: &random), rows: Int.random(in: 1...50, using: &random))
                typing.handle(.resized(size))
            case 1:
                let author = PeerID(bytes: random.bytes(8))
                let text = String(decoding: random.bytes(Int.random(in: 1...120, using: &random)), as: UTF8.self)
                let isPublic = random.once(in: 2)
                typing.handle(
                    .event(
                        .chatMessage(
                            ChatMessage(
                                number: step + 1, id: "\(step)", conversation: isPublic ? .publicRoom : .peer(peerID),
                                author: author, authorName: DisplayName(truncating: text), text: text,
                                when: WallTime(milliseconds: Int64(step) * 10_000_000), status: .delivered))))
            default: if let key = keys.randomElement(using: &random) { typing.press(key) }
            }
            let frame = typing.screen.render()
            let (columns, rows) = (typing.screen.columns, typing.screen.rows)
            #expect(frame.lines.count <= rows, "seed \(seed), step \(step), \(columns)×\(rows)")
            #expect(
                frame.lines.allSatisfy { TerminalText.width(of: $0.plainText) <= columns },
                "seed \(seed), step \(step), \(columns)×\(rows)")
            let isHarmless = frame.lines.allSatisfy { line in
                line.plainText.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) }
            }
            #expect(isHarmless, "seed \(seed), step \(step)")
        }
    }
}
