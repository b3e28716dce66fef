import Glibc
import Nearshare
import NearshareService
import Synchronization
import Testing

@testable import NearshareCLI

@Suite struct ChatPipeTests {
    private let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    private func pipe(_ goal: MessageStatus = .sent) -> ChatPipe { ChatPipe(.peer(anna), goal: goal) }

    private func marked(_ id: String, _ mark: MessageStatus) -> ControlEvent {
        .marked(id: id, conversation: .peer(anna), mark: mark, reason: nil)
    }

    @Test("it is done when all lines were read and have come as far as was asked")
    func done() {
        var pipe = pipe(.delivered)
        pipe.accepted("a")
        pipe.take(marked("a", .delivered))
        #expect(!pipe.isDone)
        pipe.accepted("b")
        pipe.end()
        pipe.take(marked("b", .sent))
        #expect(!pipe.isDone)
        pipe.take(marked("b", .read))
        #expect(pipe.isDone)
        #expect(pipe.failure(name: "anna") == nil)
    }

    @Test("a mark may overtake the answer that names its line, and marks of others' lines do nothing")
    func early() {
        var pipe = pipe()
        pipe.take(marked("a", .sent))
        pipe.take(marked("other", .sent))
        pipe.take(.marked(id: "a", conversation: .everybody, mark: .failed, reason: nil))
        pipe.accepted("a")
        pipe.end()
        #expect(pipe.isDone)
        #expect(pipe.reachedCount == 1)
        #expect(pipe.failures.isEmpty)
    }

    @Test("what the node has stored makes up for an event that was lost")
    func lost() {
        var pipe = pipe()
        pipe.accepted("a")
        pipe.end()
        pipe.take(
            ChatMessage(
                number: 1, id: "a", conversation: .peer(anna), author: nil, authorName: nil, text: "hi",
                when: WallTime(milliseconds: 0), status: .delivered))
        #expect(pipe.isDone)
    }

    @Test("what goes wrong is told with a status that fits")
    func failures() throws {
        var pipe = pipe()
        pipe.accepted("a")
        pipe.take(.marked(id: "a", conversation: .peer(anna), mark: .failed, reason: "too old\u{1b}"))
        pipe.end()
        let all = try #require(pipe.failure(name: "anna"))
        #expect(all.status == .failure)
        #expect(all.message == "not sent: too old\\u{1b}")
        pipe.accepted("b")
        pipe.take(marked("b", .sent))
        let some = try #require(pipe.failure(name: "anna"))
        #expect(some.status == .partly)
        #expect(some.message.hasPrefix("1 of 2 lines"))
    }

    @Test("what has not come in time waits, and is said to")
    func timeout() throws {
        var pipe = pipe(.delivered)
        pipe.accepted("a")
        pipe.end()
        #expect(pipe.failure(name: "anna") == nil)
        let near = try #require(pipe.failure(name: "anna", isNear: true, timedOutAfter: 30))
        #expect(near.message.contains("anna is near, but has not taken it"))
        let waiting = try #require(pipe.failure(name: "anna", timedOutAfter: 30))
        #expect(waiting.status == .timedOut)
        #expect(waiting.message.contains("anna is not near"))
        pipe.take(marked("a", .sent))
        let sent = try #require(pipe.failure(name: "anna", timedOutAfter: 30))
        #expect(sent.message.contains("has not acknowledged"))
    }

    @Test("T7: what is written for people steers no terminal, whoever reads it")
    func report() {
        let entry = ChatMessage(
            number: 1, id: "a", conversation: .everybody, author: anna, authorName: try? DisplayName("an\u{1b}na"),
            text: "one\u{7}\ntwo", when: WallTime(milliseconds: 0), status: .delivered)
        let lines = ChatReport.lines(entry, called: "anna")
        #expect(lines.count == 2)
        #expect(lines[0].hasSuffix(" an\\u{1b}na#1a2b: one\\u{7}"))
        #expect(lines[1] == "    two")
    }

    @Test("events of other conversations are not reported")
    func otherConversations() {
        let entry = ChatMessage(
            number: 1, id: "a", conversation: .everybody, author: anna, authorName: nil, text: "x",
            when: WallTime(milliseconds: 0), status: .delivered)
        #expect(ChatReport.fields(.entry(entry), of: .peer(anna)) == nil)
        #expect(ChatReport.fields(.entry(entry), of: .everybody)?.0 == "line")
        #expect(ChatReport.fields(marked("a", .sent), of: .everybody) == nil)
    }
}

/// A node that takes every line, and marks it as it is told to.
private final class ScriptedNode: NodeClient {
    let said = Mutex<[String]>([])
    private let mark: MessageStatus?
    private let stream: AsyncStream<ControlEvent>
    private let sink: AsyncStream<ControlEvent>.Continuation
    static let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    init(marking mark: MessageStatus?) {
        self.mark = mark
        (stream, sink) = AsyncStream.makeStream(of: ControlEvent.self)
    }

    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> { stream }

    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        switch request {
        case .find("anna", _):
            return .contact(
                Contact(
                    id: Self.anna, name: DisplayName(truncating: "anna")!, trustStatus: .known(.seen, isFriend: false),
                    isNear: true, software: .nearshare, hasKeys: true))
        case .find(let name, _): throw ControlFailure(.peerNotFound, "nobody is called \(name)")
        case .say(let text, let conversation):
            let number = said.withLock { said in
                said.append(text)
                return said.count
            }
            if text == "refuse" { throw ControlFailure(.refused, "as you wish") }
            // Before the answer: the way of events is another one.
            if let mark { sink.yield(.marked(id: "line-\(number)", conversation: conversation, mark: mark, reason: nil)) }
            return .lineAccepted(id: "line-\(number)")
        case .history: return .entries([])
        case .contacts: return .contacts([])
        default: return .done
        }
    }
}

@Suite struct ChatPipingTests {
    private func run(_ text: String, _ node: ScriptedNode, to peer: String = "anna", goal: MessageStatus = .sent) async throws {
        var ends: [Int32] = [0, 0]
        try #require(Glibc.pipe(&ends) == 0)
        let bytes = Array(text.utf8)
        try #require(write(ends[1], bytes, bytes.count) == bytes.count)
        close(ends[1])
        defer { close(ends[0]) }
        let order = PipedConversation.Order(
            peer: peer, goal: goal, timeout: .milliseconds(300), follows: false, history: 0, isJSON: false)
        try await PipedConversation(client: node, order: order, input: ends[0]).run()
    }

    @Test("each line is a message, also the last one without an end; empty ones are none")
    func lines() async throws {
        let node = ScriptedNode(marking: .sent)
        try await run("hi\r\n\n  \nthere\u{e9}", node)
        #expect(node.said.withLock { $0 } == ["hi", "there\u{e9}"])
    }

    @Test("it ends with a status that says what was missing")
    func statuses() async {
        await #expect { try await run("hi\n", ScriptedNode(marking: .sent), goal: .delivered) } throws: {
            CommandFailure($0).status == .timedOut
        }
        await #expect { try await run("hi\n", ScriptedNode(marking: nil)) } throws: { CommandFailure($0).status == .timedOut }
        await #expect { try await run("hi\nrefuse\n", ScriptedNode(marking: .sent)) } throws: {
            CommandFailure($0).status == .partly
        }
        await #expect { try await run("hi\n", ScriptedNode(marking: .failed)) } throws: {
            CommandFailure($0).status == .failure
        }
        await #expect { try await run("hi\n", ScriptedNode(marking: .sent), to: "zoe") } throws: {
            CommandFailure($0).status == .peerNotFound
        }
    }

    @Test("nothing is said when nothing comes")
    func nothing() async throws {
        let node = ScriptedNode(marking: nil)
        try await run("", node)
        #expect(node.said.withLock { $0 }.isEmpty)
    }
}
