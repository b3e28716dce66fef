import Nearshare
import NearshareDBus
import NearshareInterfaces
import Testing

@testable import NearshareService

@Suite("notifications of the desktop")
struct NotificationTests {
    private let anna = PeerID(bytes: [1, 2, 3, 4, 5, 6, 7, 8])!
    private let transfer = TransferID(rawValue: 5)
    private var machine = NotificationMachine()

    private func instant(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }

    private func question(_ number: Int) -> OpenPrompt {
        OpenPrompt(number: number, title: "accept from \"anna\"?", lines: ["new here"], yes: "Accept", no: "Decline")
    }

    private func arrival(_ kind: Arrival.Kind = .file(startsPrograms: false), path: String = "/inbox/a") -> Arrival {
        Arrival(kind: kind, path: path, name: "\"a\"", size: 1_000, sender: anna, senderName: "anna")
    }

    private func line(_ text: String, from peer: PeerID, in conversation: Conversation? = nil) -> ControlEvent {
        .chatMessage(
            ChatMessage(
                id: "1", conversation: conversation ?? .peer(peer), author: peer, authorName: try? DisplayName("anna"),
                text: text, when: WallTime(milliseconds: 0), status: .delivered))
    }

    /// - Returns: the only notification among the reactions, and its token.
    private func shown(_ reactions: [NotificationMachine.Reaction]) throws -> (DesktopNotification, token: Int) {
        try #require(reactions.count == 1)
        guard case .show(let notification, let token) = reactions[0] else { throw NotShown(reactions: reactions) }
        return (notification, token)
    }

    private struct NotShown: Error { let reactions: [NotificationMachine.Reaction] }

    @Test mutating func `the buttons of a question answer it, until it ends`() throws {
        let (first, firstToken) = try shown(machine.handle(.receiving(.prompt(question(7))), now: instant(0)))
        let (_, secondToken) = try shown(machine.handle(.receiving(.prompt(question(8))), now: instant(0)))
        #expect(first.staysOpen && first.actions.map(\.label) == ["Accept", "Decline"])
        #expect(machine.invoked("yes", of: 11) == [], "an id that is not known")
        #expect(machine.shown(11, as: firstToken) == [] && machine.shown(12, as: secondToken) == [])
        #expect(machine.invoked("yes", of: 11) == [.answer(number: 7, .yes)])
        #expect(machine.invoked("no", of: 12) == [.answer(number: 8, .no)])
        #expect(machine.invoked("default", of: 12) == [], "a click on the text answers nothing")
        #expect(machine.handle(.receiving(.promptEnded(number: 7)), now: instant(1)) == [.close(11)])
        #expect(machine.invoked("yes", of: 11) == [])
        machine.closed(12)
        #expect(machine.invoked("no", of: 12) == [])
        #expect(machine.handle(.receiving(.promptEnded(number: 8)), now: instant(1)) == [])
    }

    @Test mutating func `a question that ends before the server replies is closed then`() throws {
        let (_, token) = try shown(machine.handle(.receiving(.prompt(question(1))), now: instant(0)))
        #expect(machine.handle(.receiving(.promptEnded(number: 1)), now: instant(0)) == [])
        #expect(machine.shown(3, as: token) == [.close(3)])
        #expect(machine.shown(4, as: token) == [])
    }

    @Test mutating func `progress begins late, is updated in place, and becomes the arrival`() throws {
        #expect(machine.handle(.receiving(.started(transfer, label: "anna → a")), now: instant(0)) == [])
        func progress(_ done: UInt64) -> ControlEvent { .receiving(.progress(transfer, done: done, total: 1_000)) }
        #expect(machine.handle(progress(1), now: instant(1_999)) == [])
        let (first, token) = try shown(machine.handle(progress(500), now: instant(2_000)))
        #expect(first.progress == 50 && first.urgency == .low && first.replacedID == 0 && first.lines == ["500 B of 1.0 KB"])
        #expect(machine.shown(9, as: token) == [])
        #expect(machine.handle(progress(600), now: instant(2_999)) == [])
        #expect(try shown(machine.handle(progress(1_000), now: instant(3_000))).0.replacedID == 9)
        #expect(machine.handle(.receiving(.arrived(arrival(), transfer)), now: instant(3_100)) == [])
        #expect(machine.handle(.receiving(.arrived(arrival(path: "/inbox/b"), transfer)), now: instant(3_100)) == [])
        let (last, _) = try shown(machine.handle(.receiving(.ended(transfer, failure: nil)), now: instant(3_200)))
        #expect(last.summary == "received \"a\" and 1 more from anna" && last.lines == ["2.0 KB"] && last.replacedID == 9)
        #expect(machine.invoked("open", of: 9) == [.open(path: "/inbox/a")])
        #expect(machine.invoked("folder", of: 9) == [.showInFolder(path: "/inbox/a")])
        #expect(machine.invoked("yes", of: 9) == [])
    }

    @Test mutating func `a transfer that fails says why, and a short one that was cancelled shows nothing`() throws {
        _ = machine.handle(.receiving(.started(transfer, label: "anna → a")), now: instant(0))
        let (notification, _) = try shown(
            machine.handle(.receiving(.ended(transfer, failure: "a from anna: lost")), now: instant(1)))
        #expect(notification.lines == ["a from anna: lost"] && notification.category == "transfer.error")
        #expect(machine.handle(.receiving(.ended(transfer, failure: nil)), now: instant(2)) == [])
    }

    @Test(
        "an arrival has the buttons that its kind allows",
        arguments: [
            (Arrival.Kind.file(startsPrograms: false), "/inbox/a", ["Open", "Open folder"]),
            (.file(startsPrograms: true), "/inbox/a", ["Open folder"]), (.folder, "/inbox/a", ["Open folder"]),
            (.voiceNote(.seconds(72)), "/inbox/a", ["Play", "Open folder"]), (.text(beginning: "hi"), "/inbox/a", []),
            (.file(startsPrograms: false), "", []),
        ])
    func buttons(_ kind: Arrival.Kind, _ path: String, _ labels: [String]) throws {
        var machine = NotificationMachine()
        let (notification, token) = try shown(
            machine.handle(.receiving(.arrived(arrival(kind, path: path), nil)), now: instant(0)))
        #expect(notification.actions.map(\.label) == labels)
        let isCareful = notification.lines.contains("careful: it can start programs when opened")
        #expect(isCareful == (kind == .file(startsPrograms: true)))
        _ = machine.shown(1, as: token)
        #expect(machine.invoked("play", of: 1) == (labels.contains("Play") ? [.play(path: path)] : []))
    }

    @Test mutating func `one of several items that can start programs is told`() throws {
        _ = machine.handle(.receiving(.arrived(arrival(), transfer)), now: instant(0))
        _ = machine.handle(
            .receiving(.arrived(arrival(.file(startsPrograms: true), path: "/inbox/b"), transfer)), now: instant(0))
        let (notification, _) = try shown(machine.handle(.receiving(.ended(transfer, failure: nil)), now: instant(1)))
        #expect(notification.lines.last == "careful: one can start programs when opened")
    }

    @Test mutating func `a message has a field for the answer, and one notification for each peer`() throws {
        _ = machine.handle(
            .contacts([
                Contact(
                    id: anna, name: try DisplayName("my anna"), trustStatus: .known(.seen, isFriend: false), isNear: true,
                    software: .phone, hasKeys: true)
            ]), now: instant(0))
        let (first, token) = try shown(machine.handle(line("a\r\n\u{1b}[2J<b>", from: anna), now: instant(0)))
        #expect(first.summary == "message from \"my anna\", seen before, not verified")
        #expect(first.lines == ["a", "\\u{1b}[2J<b>"])
        _ = machine.shown(5, as: token)
        #expect(try shown(machine.handle(line("b", from: anna), now: instant(1))).0.replacedID == 5)
        #expect(machine.replied("hello\nyou", to: 5) == [.reply("hello\nyou", to: anna)])
        #expect(machine.replied("", to: 5) == [] && machine.replied("x", to: 6) == [])
        #expect(machine.handle(line("b", from: anna, in: .publicRoom), now: instant(1)) == [])
    }

    @Test("R11: what one peer, and all peers, can show in a minute is limited, and said once")
    func rate() throws {
        var machine = NotificationMachine()
        var shownCount = 0
        for number in 0..<60 {
            let peer = try #require(PeerID(bytes: [UInt8](repeating: UInt8(1 + number / 10), count: 8)))
            shownCount += machine.handle(line("hi", from: peer), now: instant(Int64(number))).count
        }
        #expect(shownCount == NotificationMachine.maximumCount + 1)
        #expect(!machine.handle(line("hi", from: anna), now: instant(60_000)).isEmpty)
        machine = NotificationMachine()
        let count = (0..<50).reduce(0) { sum, _ in sum + machine.handle(line("hi", from: anna), now: instant(0)).count }
        #expect(count == NotificationMachine.maximumCountPerPeer + 1)
    }

    @Test("R4: questions keep their buttons, whatever else is shown")
    func bound() throws {
        var machine = NotificationMachine()
        let (_, token) = try shown(machine.handle(.receiving(.prompt(question(1))), now: instant(0)))
        _ = machine.shown(1, as: token)
        for number in 0..<200 {
            let id = TransferID(rawValue: UInt64(number))
            _ = machine.handle(.receiving(.started(id, label: "x")), now: instant(0))
            _ = machine.handle(.receiving(.ended(id, failure: "lost")), now: instant(0))
        }
        #expect(machine.invoked("yes", of: 1) == [.answer(number: 1, .yes)])
        #expect(machine.end() == [.close(1)])
    }

    @Test("T6: markup of a peer is text in servers with markup, and in those without it")
    func markup() {
        let hostile = "<b>a</b> & <img src='x'/> \"q\"\u{1b}\u{202e}\n"
        var notification = DesktopNotification(hostile, [hostile, "b"], category: "transfer")
        notification.actions = [.init(key: DesktopNotification.replyKey, label: "Reply"), .init(key: "open", label: "Open")]
        notification.progress = 42
        #expect(notification.summary == "<b>a</b> & <img src='x'/> \"q\"\\u{1b}\\u{202e}\\u{a}")
        let plain = notification.arguments(
            NotificationCapabilities(hasActions: true, hasBodyMarkup: false, hasInlineReply: true))
        #expect(plain[4].string == notification.summary + "\nb")
        #expect(plain[5] == .strings(["inline-reply", "Reply", "open", "Open"]))
        let marked = notification.arguments(NotificationCapabilities(["actions", "body-markup"]))
        #expect(
            marked[4].string
                == "&lt;b&gt;a&lt;/b&gt; &amp; &lt;img src=&apos;x&apos;/&gt; &quot;q&quot;\\u{1b}\\u{202e}\\u{a}\nb")
        // Before a mark that joins them, signs of markup are other characters, and markup all the same.
        #expect(DesktopNotification.markup("<\u{ff9e}b>&\u{fe0e}amp;") == "&lt;\u{ff9e}b&gt;&amp;\u{fe0e}amp;")
        #expect(marked[5] == .strings(["open", "Open"]))
        guard case .dictionary(let hints) = marked[6] else {
            Issue.record("no hints")
            return
        }
        #expect(hints["value"] == .int32(42) && hints["urgency"] == .byte(1))
        let long = DesktopNotification(
            String(repeating: "x", count: 10_000), [String](repeating: String(repeating: "y", count: 10_000), count: 500),
            category: "")
        #expect(long.summary.count <= 120 && long.lines.count == 12 && long.lines[0].count <= 240)
    }
}
