import Glibc
import Nearshare
import NearshareService
import Synchronization
import Testing

@testable import NearshareCLI

@Suite("the outcome of a piped conversation") struct PipedConversationOutcomeTests {
    private let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    private func makeTracker(_ status: MessageStatus = .sent) -> DeliveryTracker {
        DeliveryTracker(.peer(anna), requiredStatus: status)
    }

    private func marked(_ id: String, _ status: MessageStatus) -> ControlEvent {
        .chatMessageChanged(id: id, conversation: .peer(anna), status: status, reason: nil)
    }

    @Test("no failure once every line has reached the required status")
    func success() {
        var tracker = makeTracker(.delivered)
        tracker.recordAcceptance(of: "a")
        tracker.recordEndOfInput()
        tracker.handle(marked("a", .delivered))
        #expect(PipedConversation.failure(of: tracker, name: "anna") == nil)
    }

    @Test("the reason of a failure is shown when the event arrives before the id of its message")
    func earlyFailure() throws {
        var tracker = makeTracker()
        tracker.handle(.chatMessageChanged(id: "a", conversation: .peer(anna), status: .failed, reason: "too old"))
        tracker.recordAcceptance(of: "a")
        tracker.recordEndOfInput()
        #expect(try #require(PipedConversation.failure(of: tracker, name: "anna")).message == "not sent: too old")
    }

    @Test("failures have a status and a reason")
    func failures() throws {
        var tracker = makeTracker()
        tracker.recordAcceptance(of: "a")
        tracker.handle(.chatMessageChanged(id: "a", conversation: .peer(anna), status: .failed, reason: "too old\u{1b}"))
        tracker.recordEndOfInput()
        let all = try #require(PipedConversation.failure(of: tracker, name: "anna"))
        #expect(all.status == .failure)
        #expect(all.message == "not sent: too old\\u{1b}")
        tracker.recordAcceptance(of: "b")
        tracker.handle(marked("b", .sent))
        let some = try #require(PipedConversation.failure(of: tracker, name: "anna"))
        #expect(some.status == .partly)
        #expect(some.message.hasPrefix("1 of 2 messages"))
    }

    @Test("lines that are too long have the status of a limit, where nothing else was sent or failed")
    func tooLong() throws {
        var tracker = makeTracker()
        tracker.recordRefusal(reason: "too long", isOverLimit: true)
        tracker.recordEndOfInput()
        #expect(try #require(PipedConversation.failure(of: tracker, name: "anna")).status == .noSpace)
        var mixed = tracker
        mixed.recordRefusal(reason: "blocked")
        #expect(try #require(PipedConversation.failure(of: mixed, name: "anna")).status == .failure)
        tracker.recordAcceptance(of: "a")
        #expect(try #require(PipedConversation.failure(of: tracker, name: "anna")).status == .partly)
    }

    @Test("after a timeout, the message explains what is waiting")
    func timeout() throws {
        var tracker = makeTracker(.delivered)
        tracker.recordAcceptance(of: "a")
        tracker.recordEndOfInput()
        #expect(PipedConversation.failure(of: tracker, name: "anna") == nil)
        let near = try #require(PipedConversation.failure(of: tracker, name: "anna", isNear: true, hasTimedOut: true))
        #expect(near.message.contains("anna is near, but has not accepted it"))
        let waiting = try #require(PipedConversation.failure(of: tracker, name: "anna", hasTimedOut: true))
        #expect(waiting.status == .timedOut)
        #expect(waiting.message.contains("neither anna nor a relaying node is in range"))
        tracker.handle(marked("a", .sent))
        let sent = try #require(PipedConversation.failure(of: tracker, name: "anna", hasTimedOut: true))
        #expect(sent.message.contains("not acknowledged by anna"))
    }

    @Test(
        "K2: the user is told that lines wait for a key that is away, while another device has its name",
        arguments: [true, false])
    func replacedKey(_ isOtherNear: Bool) throws {
        let name = try #require(DisplayName(truncating: "anna"))
        let status = TrustStatus.known(.seen, isFriend: false)
        let known = Contact(id: anna, name: name, trustStatus: status, isNear: false, software: .unknown, hasKeys: true)
        var other = known
        other.id = try #require(PeerID(hex: "2b2b3c4d5e6f7081"))
        other.isNear = isOtherNear
        let failure = PipedConversation.failure(ofLinesFor: anna, among: [known, other])
        #expect((failure?.status == .timedOut) == isOtherNear)
        #expect(failure?.message.contains("and use that id: 2b2b3c4d5e6f7081") ?? !isOtherNear)
    }
}

/// A node that accepts every line, with a fixed delivery state.
private final class ScriptedNode: NodeClient {
    let sentLines = Mutex<[String]>([])
    private let status: MessageStatus?
    /// The state that is stored without an event.
    private let storedMark: MessageStatus?
    private let stream: AsyncStream<ControlEvent>
    private let sink: AsyncStream<ControlEvent>.Continuation
    /// The line at which the node ends, and whether it stores that line first.
    private let last: (text: String, isStored: Bool)?
    static let anna = PeerID(hex: "1a2b3c4d5e6f7081")!

    init(
        marking status: MessageStatus?, storing storedMark: MessageStatus? = nil,
        endingAt last: (text: String, isStored: Bool)? = nil
    ) {
        self.status = status
        self.last = last
        self.storedMark = storedMark
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
        case .find(let name, _): throw ControlFailure(.peerNotFound, "no peer is called \(name)")
        case .sendLine(let text, _) where text == last?.text:
            if last?.isStored == true { sentLines.withLock { $0.append(text) } }
            sink.finish()
            throw ControlFailure(.gone, "the node has ended")
        case .sendLine(let text, let conversation):
            let number = sentLines.withLock { lines in
                lines.append(text)
                return lines.count
            }
            if text == "refuse" { throw ControlFailure(.refused, "as you wish") }
            // Events may arrive before the reply.
            if let status {
                sink.yield(.chatMessageChanged(id: "line-\(number)", conversation: conversation, status: status, reason: nil))
            }
            return .lineAccepted(id: "line-\(number)")
        case .history(let conversation, _, _):
            guard let storedMark else { return .chatMessages([]) }
            return .chatMessages(
                sentLines.withLock { $0 }.enumerated().map { index, text in
                    ChatMessage(
                        number: index + 1, id: "line-\(index + 1)", conversation: conversation, author: nil, authorName: nil,
                        text: text, when: WallTime(milliseconds: 0), status: storedMark)
                })
        case .contacts: return .contacts([])
        default: return .done
        }
    }
}

@Suite struct PipedConversationTests {
    /// Sends lines to a node.
    /// - Parameter timeout: far longer than a run takes, unless it is to expire.
    private func run(
        _ text: String, _ node: ScriptedNode, to peer: String = "anna", requiredStatus: MessageStatus = .sent,
        timeout: Duration = .seconds(600)
    ) async throws {
        try await converse(text, to: peer, requiredStatus: requiredStatus, timeout: timeout) { try await $0.run(through: node) }
    }

    /// Calls `body` with a conversation whose input is a pipe with a text.
    private func converse(
        _ text: String, to peer: String = "anna", requiredStatus: MessageStatus = .sent, timeout: Duration,
        _ body: (PipedConversation) async throws -> Void
    ) async throws {
        var ends: [Int32] = [0, 0]
        try #require(Glibc.pipe(&ends) == 0)
        let bytes = Array(text.utf8)
        try #require(write(ends[1], bytes, bytes.count) == bytes.count)
        close(ends[1])
        defer { close(ends[0]) }
        let parameters = PipedConversation.Parameters(
            peer: peer, requiredStatus: requiredStatus, timeout: timeout, follows: false, history: 0,
            reporter: TextReporter())
        try await body(PipedConversation(parameters: parameters, input: ends[0]))
    }

    @Test("each line is a message, also the last one without a line break; empty lines are skipped")
    func lines() async throws {
        let node = ScriptedNode(marking: .sent)
        try await run("hi\r\n\n  \nthere\u{e9}", node)
        #expect(node.sentLines.withLock { $0 } == ["hi", "there\u{e9}"])
    }

    @Test("the exit status names the failure")
    func statuses() async {
        await #expect {
            try await run("hi\n", ScriptedNode(marking: .sent), requiredStatus: .delivered, timeout: .zero)
        } throws: {
            CommandFailure($0).status == .timedOut
        }
        await #expect { try await run("hi\n", ScriptedNode(marking: nil), timeout: .zero) } throws: {
            CommandFailure($0).status == .timedOut
        }
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

    @Test("a state whose event was lost is read from the node") func lostEvent() async throws {
        try await run("hi\nthere\n", ScriptedNode(marking: nil, storing: .sent))
    }

    @Test("when the node ends, another one goes on, and no line is lost or sent twice", arguments: [true, false])
    func anotherNode(isStored: Bool) async throws {
        try await converse("one\ntwo\nthree\n", timeout: .seconds(5)) { piping in
            let first = ScriptedNode(marking: .sent, storing: .sent, endingAt: ("two", isStored))
            let failure = await #expect(throws: ControlFailure.self) { try await piping.run(through: first) }
            #expect(failure?.kind == .gone)
            let second = ScriptedNode(marking: .sent, storing: .sent)
            second.sentLines.withLock { $0 = first.sentLines.withLock { $0 } }
            try await piping.run(through: second)
            #expect(second.sentLines.withLock { $0 } == ["one", "two", "three"])
        }
    }

    @Test("an empty input sends nothing")
    func nothing() async throws {
        let node = ScriptedNode(marking: nil)
        try await run("", node)
        #expect(node.sentLines.withLock { $0 }.isEmpty)
    }
}
