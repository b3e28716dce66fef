import FoundationEssentials
import Nearshare
import NearshareBundles
import Testing

@testable import NearshareService

@Suite("lines of the control protocol")
struct ControlCodingTests {
    private let anna = PeerID(bytes: [1, 2, 3, 4, 5, 6, 7, 8])!
    private let bundle = BundleID(bytes: [UInt8](0..<16))!
    private let transfer = TransferID(rawValue: 0x0102_0304_0506_0708)
    private let content = BundleContent.structured(.object(["text": .string("hi \u{1f469}\n"), "n": .integer(-3)]))

    private func contact(_ status: TrustStatus) throws -> Contact {
        Contact(
            id: anna, name: try DisplayName("anna"), trustStatus: status, isNear: true, software: .phone, hasKeys: false)
    }

    private func chatMessage() throws -> ChatMessage {
        ChatMessage(
            number: 7, id: "line", conversation: .peer(anna), author: anna, authorName: try DisplayName("anna"),
            text: "\u{0}\u{2028}\"", when: WallTime(milliseconds: 5), status: .delivered)
    }

    private func received() throws -> ReceivedMessage {
        ReceivedMessage(
            number: 3, id: bundle, sender: anna, senderName: try DisplayName("anna"),
            signer: EndpointID(rawValue: 9), content: content, isBroadcast: true, created: WallTime(milliseconds: -1),
            received: WallTime(milliseconds: 2), hops: 4)
    }

    private func lifetime() throws -> MessageLifetime { try #require(MessageLifetime("7d")) }

    private func arrival(_ kind: Arrival.Kind) -> Arrival {
        Arrival(kind: kind, path: "/a/b c", name: "\"b c\"", size: 3, sender: anna, senderName: "anna")
    }

    private func expectRoundTrip(_ line: ControlLine, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let bytes = try #require(line.encoded, sourceLocation: sourceLocation)
        #expect(!bytes.contains(UInt8(ascii: "\n")), sourceLocation: sourceLocation)
        let decoded = try #require(ControlLine(bytes), sourceLocation: sourceLocation)
        // Lines are not comparable themselves; their encoding is unique.
        #expect(decoded.encoded == bytes, sourceLocation: sourceLocation)
        switch (line, decoded) {
        case (.request(let one, let a), .request(let other, let b)): #expect(one == other && a == b)
        case (.reply(let one, let a), .reply(let other, let b)): #expect(one == other && a == b)
        case (.event(let a), .event(let b)): #expect(a == b)
        default: Issue.record("another kind of line", sourceLocation: sourceLocation)
        }
    }

    @Test("every request is decoded as it was encoded")
    func requests() throws {
        let requests: [ControlRequest] = [
            .status, .contacts, .find(name: "an\u{202e}na", timeout: .milliseconds(1_500)),
            .sendMessage(
                MessageSubmission(
                    content: content, mode: .full, receiver: anna, isEncrypted: true, isPrivate: true, file: "/a b",
                    timeout: .seconds(3))),
            .sendMessage(
                MessageSubmission(
                    content: .besideFile(.binary([0, 255]), name: "x"), mode: .broadcast, receiver: nil, isEncrypted: false)),
            .isPending(bundle), .messages(after: 5, limit: 9), .sendLine("line", in: .publicRoom),
            .sendLine("", in: .peer(anna)),
            .conversations, .history(.peer(anna), before: nil, limit: 1), .history(.publicRoom, before: 4, limit: 2),
            .markRead(.publicRoom), .sendFile(path: "/x", to: anna, timeout: nil),
            .sendFile(path: "", to: anna, timeout: .zero), .cancelTransfer(.transfer(TransferID(rawValue: 7))),
            .block(anna), .unblock(name: "an\u{202e}na"), .lifetime(.peer(anna)), .setLifetime(.publicRoom, .standard),
            .setLifetime(.peer(anna), .unlimited), .setLifetime(.peer(anna), .limited(try lifetime())),
            .subscribe, .subscribeReceiving, .answer(7, .no), .handOver, .stop,
        ]
        for (number, request) in requests.enumerated() { try expectRoundTrip(.request(number, request)) }
    }

    private var trace: [TraceEntry] {
        let time = WallTime(milliseconds: 5)
        return [
            TraceEntry(
                time: time, id: "00ff", subject: .packet(type: 2), sender: anna,
                decision: .init(rawValue: "relayed on 1 link, ttl 6")),
            TraceEntry(time: time, id: bundle.hex, subject: .bundle, sender: nil, decision: .init(rawValue: "deleted")),
        ]
    }

    @Test("every reply is decoded as it was encoded")
    func replies() throws {
        let profile = NodeStatus.Profile(
            name: nil, hopLimit: 1, timeToLive: 2, sharingTime: 3, maximumPropagation: 4, tracklistLimit: 5)
        let states: [NodeStatus.Bluetooth] = [.starting, .notUsed, .on(channel: 131), .unavailable(reason: "no adapter")]
        var statuses = try states.map { bluetooth in
            NodeStatus(
                id: anna, name: try DisplayName("me"), process: 42, uptime: 1, isDaemon: true, profile: profile, port: 4_000,
                neighbours: [NodeStatus.Neighbour(contact: try contact(.new), isDirect: false)], storedBundleCount: 2,
                sessionLifetime: 3, secureSessions: [anna], bluetooth: bluetooth, inbox: "/inbox")
        }
        statuses[0].linkReceiverCount = 1
        statuses[1].neighbours[0].signal = NodeStatus.Signal(strength: -61, age: 12)
        let replies: [ControlReply] =
            statuses.map { .status($0) } + [
                .done, .contacts(try trustStatuses.map(contact)), .contact(try contact(.known(.verified, isFriend: true))),
                .messageAccepted(bundle), .lineAccepted(id: "line"), .transferAccepted(transfer), .isPending(true),
                .messages([try received()]),
                .conversations([ConversationSummary(conversation: .publicRoom, last: try chatMessage(), unreadCount: 1)]),
                .chatMessages([try chatMessage()]), .chatMessages([], lifetime: try lifetime()),
                .lifetime(ConversationLifetime(.limited(try lifetime()), standard: nil)),
                .lifetime(ConversationLifetime(.standard, standard: try lifetime())), .trace(trace),
                .failed(ControlFailure(.tooLarge, "too large; split it")),
            ]
        for (number, reply) in replies.enumerated() { try expectRoundTrip(.reply(number, reply)) }
    }

    private var trustStatuses: [TrustStatus] {
        [
            .new, .known(.seen, isFriend: false), .known(.verified, isFriend: true), .known(.blocked, isFriend: false),
            .nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!),
        ]
    }

    @Test func `names in the lines of other versions stay`() throws {
        let line = ControlLine.event(.chatMessage(try chatMessage(), isShownAsBundle: true))
        try expectRoundTrip(line)
        let text = String(decoding: try #require(line.encoded), as: UTF8.self)
        #expect(text.contains("\"isBundle\":true"))
        let reply = String(decoding: try #require(ControlLine.reply(1, .trace(trace)).encoded), as: UTF8.self)
        for member in ["kind\":\"02\"", "kind\":\"bundle\"", "decision\":\"relayed on 1 link, ttl 6\""] {
            #expect(reply.contains(member), "\(reply)")
        }
    }

    @Test func `a signal strength has its age, and a neighbour of another version none`() throws {
        let received = MonotonicInstant(nanoseconds: 5_000_000_000)
        let signal = NodeStatus.Signal(SignalReading(strength: -61, time: received), at: received + .milliseconds(12_900))
        #expect(signal == NodeStatus.Signal(strength: -61, age: 12))
        var neighbour = NodeStatus.Neighbour(contact: try contact(.new), isDirect: true)
        let old = try JSONEncoder().encode(neighbour)
        #expect(!String(decoding: old, as: UTF8.self).contains("signal"))
        #expect(try JSONDecoder().decode(NodeStatus.Neighbour.self, from: old) == neighbour)
        neighbour.signal = signal
        let new = try JSONEncoder().encode(neighbour)
        #expect(try JSONDecoder().decode(NodeStatus.Neighbour.self, from: new) == neighbour)
    }

    @Test func `a reply of an earlier version, without the lifetime of lines, is decoded`() throws {
        let text = "{\"reply\":{\"_0\":1,\"_1\":{\"chatMessages\":{\"_0\":[]}}}}"
        guard case .reply(1, .chatMessages(let messages, lifetime: nil)) = try #require(ControlLine(Array(text.utf8))) else {
            Issue.record("not decoded")
            return
        }
        #expect(messages.isEmpty)
    }

    @Test("every event is decoded as it was encoded")
    func events() throws {
        let outcomes: [TransferOutcome?] = [
            nil, .completed, .declined(.tooLarge), .expired, .cancelled(by: .remote), .failed(.noSpace, at: .local),
            .interrupted,
        ]
        let transfers = outcomes.map { outcome in
            ControlEvent.transfer(
                TransferStatus(
                    id: outcome == nil ? .transfer(transfer) : .message(bundle), isIncoming: false, peer: anna, name: "f",
                    done: .max, total: nil, outcome: outcome, detail: "why"))
        }
        let events: [ControlEvent] =
            transfers + [
                .messageChanged(bundle, .failed, detail: "reason"), .received(try received()), .chatMessage(try chatMessage()),
                .chatMessageChanged(id: "line", conversation: .publicRoom, status: .read, reason: nil), .contacts([]),
                .lifetimeChanged(.peer(anna), ConversationLifetime(.unlimited, standard: try lifetime())),
                .messagesExpired(.publicRoom, until: WallTime(milliseconds: 7)),
                .notice("a sentence"), .notice("a sentence", in: .publicRoom),
                .notice("a sentence", in: .publicRoom, about: "/inbox/a"),
                .receiving(.prompt(OpenPrompt(number: 1, title: "<b>", lines: ["a", ""], yes: "Accept", no: "Decline"))),
                .receiving(.promptEnded(number: 1)), .receiving(.started(transfer, label: "anna → a.txt")),
                .receiving(.progress(transfer, done: .max, total: nil)), .receiving(.ended(transfer, failure: "lost")),
                .receiving(.arrived(arrival(.file(startsPrograms: true)), transfer)),
                .receiving(.arrived(arrival(.voiceNote(.milliseconds(1_500))), nil)),
                .receiving(.arrived(arrival(.text(beginning: "hi")), nil)), .receiving(.arrived(arrival(.folder), nil)),
            ]
        for event in events { try expectRoundTrip(.event(event)) }
    }

    @Test("bytes are written as base64, ids as hexadecimal digits, enums by their names")
    func format() throws {
        let line = ControlLine.request(
            1, .sendMessage(MessageSubmission(content: content, mode: .full, receiver: anna, isEncrypted: true)))
        let text = String(decoding: try #require(line.encoded), as: UTF8.self)
        #expect(text.contains("\"content\":\"\(Data(try content.encoded()).base64EncodedString())\""))
        #expect(text.contains("\"receiver\":\"\(anna.hex)\""))
        #expect(text.contains("\"mode\":\"full\""))
        let reply = String(decoding: try #require(ControlLine.reply(1, .transferAccepted(transfer)).encoded), as: UTF8.self)
        #expect(reply.contains("\"0102030405060708\""))
    }

    @Test(
        "C4: malformed lines are rejected",
        arguments: [
            "", " ", "null", "[]", "{}", "{\"request\":{}}", "{\"request\":{\"_0\":1}}",
            "{\"request\":{\"_0\":1,\"_1\":{\"fly\":{}}}}", "{\"request\":{\"_0\":1,\"_1\":{\"isPending\":{\"_0\":\"00\"}}}}",
            "{\"request\":{\"_0\":1,\"_1\":{\"isPending\":{\"_0\":7}}}}", "{\"request\":{\"_0\":1e99,\"_1\":{\"status\":{}}}}",
            "{\"request\":{\"_0\":1,\"_1\":{\"markRead\":{\"_0\":\"somewhere\"}}}}",
            "{\"reply\":{\"_0\":1,\"_1\":{\"transferAccepted\":{\"_0\":\"123\"}}}}",
            "{\"request\":{\"_0\":1,\"_1\":{\"setLifetime\":{\"_0\":\"everybody\",\"_1\":{\"limited\":{\"_0\":59}}}}}}",
            "{\"request\":{\"_0\":1,\"_1\":{\"status\":{}}}", "{\"event\":{\"_0\":{\"notice\":{\"_0\":[1]}}}}",
            String(repeating: "[", count: 5_000),
        ])
    func malformed(_ text: String) {
        #expect(!isAccepted(Array(text.utf8)))
    }

    private func isAccepted(_ bytes: [UInt8]) -> Bool { if case nil = ControlLine(bytes) { false } else { true } }

    @Test("C4: a decision about neither a packet nor a bundle is rejected", arguments: ["", "0", "0203", "xy", "bundles"])
    func malformedSubject(_ text: String) {
        let json = Data("\"\(text)\"".utf8)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(TraceEntry.Subject.self, from: json) }
    }

    @Test("bytes that are no text are rejected")
    func notText() {
        #expect(!isAccepted([0xff, 0xfe, 0x00]))
    }

    @Test("content that is not base64, or decodes to none, is rejected", arguments: ["!", "", "AQ=="])
    func malformedContent(_ base64: String) {
        let json = Data("\"\(base64)\"".utf8)
        #expect(throws: (any Error).self) { try JSONDecoder().decode(BundleContent.self, from: json) }
    }
}
