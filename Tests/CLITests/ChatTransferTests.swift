import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareService

private let peerID = ChatTyping.peerID

@Suite("transfers in a conversation") struct ChatTransferTests {
    private func text(_ transfers: TransferStatus...) -> String {
        var typing = ChatTyping()
        for transfer in transfers { typing.handle(.event(.transfer(transfer))) }
        typing.press(.control("n"))
        return typing.text
    }

    private func transfer(
        _ done: UInt64, of total: UInt64?, outcome: TransferOutcome? = nil, detail: String? = nil, isIncoming: Bool = false,
        name: String = "a.jpg"
    ) -> TransferStatus {
        TransferStatus(
            id: .transfer(TransferID(rawValue: 1)), isIncoming: isIncoming, peer: peerID, name: name, done: done, total: total,
            outcome: outcome, detail: detail)
    }

    @Test func `progress replaces the line of the same transfer`() {
        let shown = text(transfer(0, of: 10), transfer(5, of: 10))
        #expect(shown.contains("sending a.jpg: 5 B of 10 B, 50%"), "\(shown)")
        #expect(!shown.contains("sending a.jpg…"))
    }

    @Test func `a transfer that has not begun shows its detail`() {
        #expect(text(transfer(0, of: 10, detail: "waiting for an answer")).contains("a.jpg… (waiting for an answer)"))
    }

    @Test func `an unknown size has no percentage, and a wrong one at most 100`() {
        let shown = text(transfer(5, of: nil, isIncoming: true))
        #expect(shown.contains("receiving a.jpg: 5 B") && !shown.contains("%"))
        #expect(text(transfer(.max, of: 1)).contains("100%"))
        #expect(text(transfer(1, of: 0)).contains("100%"))
    }

    @Test func `each outcome is told in words`() {
        #expect(text(transfer(10, of: 10, outcome: .completed)).contains("sent a.jpg of 10 B"))
        #expect(text(transfer(10, of: 10, outcome: .completed, isIncoming: true)).contains("received a.jpg of 10 B"))
        #expect(
            text(transfer(5, of: 10, outcome: .declined(.declined), detail: "anna declined")).contains("a.jpg: anna declined"))
        #expect(
            text(transfer(5, of: 10, outcome: .failed(.storageFailed, at: .remote))).contains(
                "not sent: a.jpg: failed at the peer"))
        // An app that takes no private files.
        let refused = text(transfer(0, of: 10, outcome: .failed(.refused, at: .remote), detail: "unsupported"))
        #expect(refused.contains("/send --allow-unencrypted") && !refused.contains("unsupported"), "\(refused)")
    }

    @Test("T1: the claimed name of a file is escaped")
    func hostileName() {
        let shown = text(transfer(0, of: 10, isIncoming: true, name: "a\u{1b}[2J\u{202e}.jpg"))
        #expect(shown.contains("a\\u{1b}[2J\\u{202e}.jpg"), "\(shown)")
    }

    @Test func `what arrives is listed in the conversation with its sender, also where another one is visible`() {
        func arrive(_ typing: inout ChatTyping) -> [ChatScreen.Reaction] {
            let arrival = Arrival(
                kind: .folder, path: "/inbox/trip", name: "trip", size: 1, sender: peerID, senderName: "anna")
            return typing.handle(.event(.receiving(.arrived(arrival, nil))))
        }
        func isListing(_ reactions: [ChatScreen.Reaction]) -> Bool {
            reactions.contains { if case .listFiles(peerID, _) = $0 { true } else { false } }
        }
        var typing = ChatTyping()
        // Listed once the conversation is opened.
        #expect(!isListing(arrive(&typing)))
        typing.meet("anna")
        #expect(isListing(typing.handle(.replied(.history(.peer(peerID)), .success(.chatMessages([]))))))
        // A node without this screen sends no notice.
        #expect(isListing(arrive(&typing)))
        typing.press(.alt("1"))
        #expect(isListing(arrive(&typing)))
        let file = SharedItem(
            TransferHistory.Entry(
                when: typing.now, direction: .incoming, id: peerID, name: DisplayName(truncating: "anna")!, listedName: "anna",
                content: "trip", size: 1, outcome: .completed, path: nil))
        typing.handle(.files(peerID, [file]))
        #expect(typing.text.contains("2 anna (1)") && !typing.text.contains("received trip"))
        typing.press(.alt("2"))
        #expect(typing.text.contains("received trip"))
    }

    @Test func `the start page asks about all offers, and the conversation of each once it is opened`() {
        var typing = ChatTyping(.latest)
        let question = OpenPrompt(
            number: 1, title: "accept from \"ben\"?", lines: [], yes: "Accept", no: "Decline", conversation: .peer(peerID),
            peerName: DisplayName(truncating: "ben"))
        typing.handle(.event(.receiving(.prompt(question))))
        #expect(count("accept from", in: typing) == 1 && typing.text.contains(" 2 ben (1) "), "\(typing.text)")
        #expect(!typing.text.contains("[a question in"), "\(typing.text)")
        typing.handle(.event(.notice("/inbox/b.txt  (3 B) from ben", in: .peer(peerID), about: "/inbox/b.txt")))
        #expect(count("b.txt", in: typing) == 1, "\(typing.text)")
        typing.press(.alt("2"))
        typing.handle(.replied(.history(.peer(peerID)), .success(.chatMessages([]))))
        #expect(count("accept from", in: typing) == 1 && typing.text.contains("[2 ben]"), "\(typing.text)")
        #expect(count("b.txt", in: typing) == 1, "\(typing.text)")
    }

    /// A line of the history.
    private func entry(
        _ direction: TransferProgress.Direction, _ content: String, at time: WallTime, path: String? = nil
    ) -> SharedItem {
        SharedItem(
            TransferHistory.Entry(
                when: time, direction: direction, id: peerID, name: DisplayName(truncating: "anna")!, listedName: "anna",
                content: content, size: 1, outcome: .completed, path: path))
    }

    private func count(_ text: String, in typing: ChatTyping) -> Int { typing.text.components(separatedBy: text).count - 1 }

    @Test("an item that has arrived or was sent while the chat was open is listed once", arguments: [true, false])
    func listedOnce(isNoticeFirst: Bool) {
        var typing = ChatTyping()
        typing.meet("anna")
        typing.handle(.replied(.history(.peer(peerID)), .success(.chatMessages([]))))
        let notice = ChatScreen.Input.event(
            .notice("/inbox/mib.bin  (1.0 MB) from anna", in: .peer(peerID), about: "/inbox/mib.bin"))
        let recorded = WallTime(milliseconds: typing.now.milliseconds - 3)
        let files = ChatScreen.Input.files(
            peerID,
            [
                entry(.incoming, "mib.bin", at: recorded, path: "/inbox/mib.bin"),
                entry(.outgoing, "a.jpg", at: typing.now),
            ])
        let sent = ChatScreen.Input.event(
            .transfer(
                TransferStatus(
                    id: .transfer(TransferID(rawValue: 7)), isIncoming: false, peer: peerID, name: "a.jpg", done: 10, total: 10,
                    outcome: .completed)))
        for input in [sent] + (isNoticeFirst ? [notice, files] : [files, notice]) { typing.handle(input) }
        #expect(count("mib.bin", in: typing) == 1 && typing.text.contains("(1.0 MB) from anna"), "\(typing.text)")
        #expect(count("a.jpg", in: typing) == 1, "\(typing.text)")
        // Others of the same name are other items.
        let later = WallTime(milliseconds: typing.now.milliseconds + 60_000)
        typing.handle(.files(peerID, [entry(.outgoing, "a.jpg", at: later)]))
        #expect(count("a.jpg", in: typing) == 2, "\(typing.text)")
    }

    @Test("what is said about an item stands in the conversation to which it belongs, as its question does")
    func conversationOfNotices() {
        var typing = ChatTyping(.peer("anna"))
        typing.meet("anna")
        let ben = PeerID(hex: "2b2b3c4d5e6f7081")!
        func ask(_ number: Int, in conversation: Conversation) {
            let question = OpenPrompt(
                number: number, title: "accept from \"ben\"?", subject: "b\(number).txt from \"ben\"", lines: [],
                yes: "Accept", no: "Decline", conversation: conversation, peerName: DisplayName(truncating: "ben"))
            typing.handle(.event(.receiving(.prompt(question))))
        }
        ask(1, in: .peer(ben))
        #expect(!typing.text.contains("accept from") && typing.text.contains(" 3 ben (1) "), "\(typing.text)")
        #expect(typing.text.contains("[a question in 3 ben]"), "\(typing.text)")
        // An answer without a number means a question that the user sees.
        #expect(typing.type("/accept").isEmpty)
        typing.handle(.event(.notice("/inbox/note.m4a  (9 KB) from ben", in: .peer(ben))))
        typing.press(.alt("1"))
        typing.handle(.replied(.history(.publicRoom), .success(.chatMessages([]))))
        #expect(!typing.text.contains("accept from") && !typing.text.contains("note.m4a"), "\(typing.text)")
        typing.press(.alt("3"))
        typing.handle(.replied(.history(.peer(ben)), .success(.chatMessages([]))))
        #expect(count("accept from", in: typing) == 1 && typing.text.contains("note.m4a"), "\(typing.text)")
        #expect(!typing.text.contains("[a question in") && !typing.text.contains("(1)"), "\(typing.text)")
        // A file for everyone.
        ask(2, in: .publicRoom)
        #expect(typing.text.contains("1 everyone (1)") && count("accept from", in: typing) == 1, "\(typing.text)")
        typing.press(.alt("2"))
        typing.handle(.event(.receiving(.promptEnded(number: 2))))
        #expect(!typing.text.contains("no longer open"), "\(typing.text)")
        typing.press(.alt("1"))
        #expect(typing.text.contains("no longer open: b2.txt"), "\(typing.text)")
    }

    @Test(
        arguments: [
            (.outgoing, .declined, "not sent: c.txt: declined by anna"),
            (.incoming, .declined, "not received: c.txt: declined by you"),
            (.outgoing, .expired, "not sent: c.txt: expired: not answered by anna in time"),
            (.incoming, .cancelled, "not received: c.txt: cancelled"), (.outgoing, .partial, "sent in part: c.txt"),
        ] as [(TransferProgress.Direction, RecordedOutcome, String)])
    func `what was not transferred has its direction, and the side that has declined it`(
        direction: TransferProgress.Direction, outcome: RecordedOutcome, sentence: String
    ) throws {
        let item = SharedItem(
            TransferHistory.Entry(
                when: WallTime(milliseconds: 1), direction: direction, id: peerID, name: try DisplayName("anna"),
                listedName: "anna", content: "c.txt", size: 0, outcome: outcome, path: nil))
        #expect(item.sentence == sentence)
    }

    @Test(
        "the answer to an offer of another conversation is shown there as well, as is its failure",
        arguments: [
            (Result<ControlReply, ControlFailure>.success(.done), "accepted: b.txt from \"ben\""),
            (.failure(ControlFailure(.refused, "too late")), "not answered: b.txt from \"ben\": too late"),
        ])
    func answerElsewhere(_ result: Result<ControlReply, ControlFailure>, _ words: String) {
        var typing = ChatTyping(.peer("anna"))
        typing.meet("anna")
        let ben = PeerID(hex: "2b2b3c4d5e6f7081")!
        let question = OpenPrompt(
            number: 1, title: "accept from \"ben\"?", subject: "b.txt from \"ben\"", lines: [], yes: "Accept", no: "Decline",
            conversation: .peer(ben), peerName: DisplayName(truncating: "ben"))
        typing.handle(.event(.receiving(.prompt(question))))
        let asked = typing.type("/accept 1")
        guard case .request(.answer(1, .yes), let tag)? = asked.last else {
            Issue.record("\(asked)")
            return
        }
        typing.handle(.replied(tag, result))
        #expect(count(words, in: typing) == 1, "\(typing.text)")
        typing.press(.alt("3"))
        typing.handle(.replied(.history(.peer(ben)), .success(.chatMessages([]))))
        #expect(count(words, in: typing) == 1 && typing.text.contains("[3 ben]"), "\(typing.text)")
    }

    @Test("what has arrived for everyone is listed in the public room, once", arguments: [true, false])
    func arrivedForEveryone(isNoticeFirst: Bool) {
        var typing = ChatTyping(.peer("anna"))
        typing.meet("anna")
        let arrival = Arrival(
            kind: .file(startsPrograms: false), path: "/inbox/all.bin", name: "all.bin", size: 1, sender: peerID,
            senderName: "anna", conversation: .publicRoom)
        let notice = ChatScreen.Input.event(
            .notice("/inbox/all.bin  (1 B) from anna", in: .publicRoom, about: "/inbox/all.bin"))
        let arrived = ChatScreen.Input.event(.receiving(.arrived(arrival, nil)))
        for input in isNoticeFirst ? [notice, arrived] : [arrived, notice] { typing.handle(input) }
        #expect(typing.text.contains("1 everyone (1)") && !typing.text.contains("all.bin"), "\(typing.text)")
        typing.press(.alt("1"))
        #expect(count("all.bin", in: typing) == 1 && typing.text.contains("(1 B) from anna"), "\(typing.text)")
        typing.handle(
            .event(
                .receiving(
                    .arrived(
                        Arrival(
                            kind: .folder, path: "/inbox/trip", name: "trip", size: 1, sender: peerID, senderName: "anna",
                            conversation: .publicRoom), nil))))
        #expect(typing.text.contains("received /inbox/trip from anna"), "\(typing.text)")
    }

    @Test func `a new peer keeps its name when it is away`() {
        var typing = ChatTyping()
        typing.meet("anna")
        typing.handle(.event(.contacts([])))
        #expect(typing.text.contains("[2 anna]") && typing.text.contains("anna is away"))
    }
}
