import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite struct ChatReportTests {
    private let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    @Test("T7: text output emits no control sequences")
    func report() {
        let message = ChatMessage(
            number: 1, id: "a", conversation: .publicRoom, author: anna, authorName: try? DisplayName("an\u{1b}na"),
            text: "one\u{7}\ntwo", when: WallTime(milliseconds: 0), status: .delivered)
        let lines = ChatReport.lines(message, called: "anna")
        #expect(lines.count == 2)
        #expect(lines[0].hasSuffix(" \"an\\u{1b}na\"#1a2b: one\\u{7}"))
        #expect(lines[1] == "    two")
    }

    @Test("JSON output has the node's answer to each line")
    func answers() {
        let lines = EmittedLines()
        let report = ChatReport(conversation: .publicRoom, name: "everyone", reporter: lines.reporter, showsMessages: false)
        report.emitAccepted("a", line: 1)
        report.emitRefused(ControlFailure(.tooLarge, "too long"), line: 2)
        report.emit(.notice("hello"))
        #expect(
            lines.all == [
                #"{"event":"accepted","id":"a","line":1}"#, #"{"event":"refused","line":2,"reason":"too long"}"#,
                #"{"event":"notice","text":"hello"}"#,
            ])
    }

    @Test("events of other conversations are not reported")
    func otherConversations() {
        let message = ChatMessage(
            number: 1, id: "a", conversation: .publicRoom, author: anna, authorName: nil, text: "x",
            when: WallTime(milliseconds: 0), status: .delivered)
        let sent = ControlEvent.chatMessageChanged(id: "a", conversation: .peer(anna), status: .sent, reason: nil)
        #expect(ChatReport.fields(.chatMessage(message), of: .peer(anna)) == nil)
        #expect(ChatReport.fields(.chatMessage(message), of: .publicRoom)?.0 == "chat_message")
        #expect(ChatReport.fields(sent, of: .publicRoom) == nil)
    }
}
