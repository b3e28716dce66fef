import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("the chat in plain lines") struct ChatLinesTests {
    private let anna = Conversation.peer(ChatTyping.peerID)

    private func makeChat() -> ChatTyping {
        var chat = ChatTyping(isPlain: true)
        chat.meet("anna", status: .known(.seen, isFriend: false))
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
    }
}
