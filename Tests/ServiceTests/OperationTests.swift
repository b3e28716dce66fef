import Nearshare
import NearshareBundles
import NearshareInterfaces
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareService

/// Not the one of the testing library.
private typealias ExitCode = NearshareService.ExitStatus

/// A node that replies by a script, and publishes the events that a request causes.
private final class ScriptedNode: NodeClient {
    typealias Script = @Sendable (ControlRequest) -> Result<ControlReply, ControlFailure>

    let requests = Mutex<[ControlRequest]>([])
    private let script: Script
    private let subscribers = Broadcast<ControlEvent>()
    private let consequences = Mutex(Handler<ControlRequest, [ControlEvent]> { _ in [] })

    init(_ script: @escaping Script) {
        self.script = script
    }

    /// Sets the events that a request causes.
    func publishing(_ consequences: @escaping @Sendable (ControlRequest) -> [ControlEvent]) -> ScriptedNode {
        self.consequences.withLock { $0 = Handler(consequences) }
        return self
    }

    func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        requests.withLock { $0.append(request) }
        let reply = try script(request).get()
        for event in consequences.withLock({ $0 })(request) { publish(event) }
        return reply
    }

    func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> { subscribers.subscribe() }
    func publish(_ event: ControlEvent) { subscribers.publish(event) }
    func end() { subscribers.finish() }
}

private final class RecordingReporter: Reporter {
    private let events = Mutex<[OperationEvent]>([])

    func report(_ event: OperationEvent) { events.withLock { $0.append(event) } }

    var notices: [String] {
        events.withLock { $0 }.compactMap { if case .notice(let line) = $0 { line } else { nil } }
    }

    var results: [String] {
        events.withLock { $0 }.compactMap { if case .result(let line) = $0 { line } else { nil } }
    }

    var receivedNumbers: [Int] {
        events.withLock { $0 }.compactMap { if case .node(.received(let message)) = $0 { message.number } else { nil } }
    }

    var sent: [SendResult] {
        events.withLock { $0 }.compactMap { if case .sent(let result) = $0 { result } else { nil } }
    }
}

private let bundle = BundleID(bytes: [UInt8](0..<16))!
private let anna = PeerID(bytes: [UInt8](repeating: 1, count: 8))!

private func contact(
    _ status: TrustStatus = .known(.seen, isFriend: false), isNear: Bool = true
) -> Contact {
    Contact(
        id: anna, name: DisplayName(truncating: "anna")!, trustStatus: status, isNear: isNear, software: .nearshare,
        hasKeys: true)
}

@Suite("a message, from looking for the receiver to its goal", .timeLimit(.minutes(1)))
struct MessageOperationTests {
    private let reporter = RecordingReporter()

    private func operation(
        mode: MessageMode = .full, to peer: String? = "anna", file: String? = nil, goal: MessageOperation.Goal? = nil,
        timeout: Duration = .seconds(30)
    ) -> MessageOperation {
        MessageOperation(
            .object(["text": .string("hi")]), mode: mode, to: peer, isEncrypted: peer != nil, isPrivate: false, file: file,
            goal: goal, timeout: timeout, fileTimeout: .seconds(5), reporter: reporter, readTrust: { nil })
    }

    private func node(_ events: [ControlEvent] = [], isPending: Bool = true, isNear: Bool = true) -> ScriptedNode {
        ScriptedNode { request in
            switch request {
            case .find: .success(.contact(contact(isNear: isNear)))
            case .contacts: .success(.contacts([contact(isNear: isNear)]))
            case .sendMessage: .success(.messageAccepted(bundle))
            case .isPending: .success(.isPending(isPending))
            default: .success(.done)
            }
        }.publishing { if case .sendMessage = $0 { events } else { [] } }
    }

    private func failure(_ operation: MessageOperation, _ node: ScriptedNode) async -> CommandFailure? {
        do {
            try await operation.run(through: node)
            return nil
        } catch {
            return CommandFailure(error)
        }
    }

    @Test("a message is sent: its id is the result")
    func sent() async throws {
        let node = node([.messageChanged(bundle, .sent, detail: nil)])
        try await operation().run(through: node)
        #expect(reporter.results == [bundle.hex])
        #expect(reporter.notices == ["looking for anna…", "sent"])
        let submissions = node.requests.withLock { $0 }.compactMap {
            if case .sendMessage(let message) = $0 { message } else { nil }
        }
        #expect(submissions.map(\.receiver) == [anna])
        #expect(submissions.map(\.mode) == [.full])
    }

    @Test("K2: the user is told which of several peers of one name gets the message", arguments: [true, false])
    func sharedName(isNear: Bool) async throws {
        let friend = contact(.known(.seen, isFriend: true), isNear: isNear)
        var impostor = contact(.nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!))
        impostor.id = PeerID(bytes: [UInt8](repeating: 2, count: 8))!
        let node = ScriptedNode { [impostor] request in
            switch request {
            case .find: .success(.contact(friend))
            case .contacts: .success(.contacts([impostor, friend]))
            case .sendMessage: .success(.messageAccepted(bundle))
            default: .success(.done)
            }
        }
        try await operation(goal: .submitted).run(through: node)
        try await operation(to: anna.hex, goal: .submitted).run(through: node)
        let notice =
            isNear
            ? "2 devices nearby are called \"anna\"; using your friend (\(anna))"
            : "another device nearby is called \"anna\"; using your friend (\(anna)), which is not nearby; if your friend has a new "
                + "key, ask for its id, and use that id: \(impostor.id.hex)"
        #expect(reporter.notices == ["looking for anna…", notice, "looking for \(anna.hex)…"])
    }

    @Test("K2: a peer of the receiver's name that comes in range while the message waits is told of once")
    func laterNamesake() async throws {
        var other = contact(.new)
        other.id = PeerID(bytes: [UInt8](repeating: 2, count: 8))!
        let contacts = ControlEvent.contacts([other, contact()])
        let node = node([contacts, contacts, .messageChanged(bundle, .sent, detail: nil)])
        try await operation().run(through: node)
        let notice = "2 devices nearby are called \"anna\"; using the one that you know (\(anna))"
        #expect(reporter.notices == ["looking for anna…", notice, "sent"])
    }

    @Test("K2: a message goes to a peer with the name of a known one only by its id")
    func nameClash() async throws {
        let clash = contact(.nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 3, count: 32))!))
        let node = ScriptedNode { request in
            switch request {
            case .find: .success(.contact(clash))
            case .sendMessage: .success(.messageAccepted(bundle))
            default: .success(.done)
            }
        }
        let failure = await failure(operation(goal: .submitted), node)
        #expect(failure?.status == .notTrusted && failure?.message.contains("0303030303030303") == true)
        #expect(reporter.results.isEmpty)
        try await operation(to: anna.hex, goal: .submitted).run(through: node)
        #expect(reporter.results == [bundle.hex])
    }

    @Test("events of other messages do not count, and sent is not delivered")
    func delivered() async throws {
        let other = BundleID(bytes: [UInt8](repeating: 9, count: 16))!
        let events: [ControlEvent] = [
            .messageChanged(other, .delivered, detail: nil), .notice("x"), .messageChanged(bundle, .sent, detail: nil),
            .messageChanged(bundle, .delivered, detail: nil),
        ]
        try await operation(goal: .delivered).run(through: node(events))
        #expect(reporter.notices.suffix(2) == ["sent; waiting for anna…", "delivered to anna"])
    }

    @Test("without a goal nothing is waited for")
    func noGoal() async throws {
        try await operation(mode: .broadcast, to: nil, goal: MessageOperation.Goal.submitted).run(through: node())
        #expect(reporter.results == [bundle.hex] && reporter.notices.isEmpty)
    }

    @Test("a message that failed says why")
    func failed() async {
        let failure = await failure(operation(), node([.messageChanged(bundle, .failed, detail: "too large")]))
        #expect(failure?.status == .failure)
        #expect(failure?.message == "could not be delivered to anna: too large")
    }

    @Test(
        "a timeout is a failure only where the user waits for a goal, or nothing is kept",
        arguments: [
            (MessageMode.full, MessageOperation.Goal?.none, nil as ExitCode?), (.full, .sent, .timedOut),
            (.full, .delivered, .timedOut), (.direct, nil, .timedOut),
        ])
    fileprivate func timeout(_ mode: MessageMode, _ goal: MessageOperation.Goal?, _ expected: ExitCode?) async {
        let failure = await failure(operation(mode: mode, goal: goal, timeout: .milliseconds(20)), node())
        #expect(failure?.status == expected)
        let message = failure?.message ?? reporter.notices.last
        #expect(message?.contains("kept") == true)
    }

    @Test("after the end of a node another one is asked whether the message still waits")
    func continues() async throws {
        let operation = operation(goal: .delivered)
        let first = node()
        let run = Task { try await operation.run(through: first) }
        while !first.requests.withLock({ $0.contains { if case .sendMessage = $0 { true } else { false } } }) {
            await Task.yield()
        }
        first.end()
        let gone = await #expect(throws: ControlFailure.self) { try await run.value }
        #expect(gone?.kind == .gone)
        // Delivered meanwhile: it is not sent again.
        let second = node(isPending: false)
        try await operation.run(through: second)
        #expect(second.requests.withLock { $0 } == [.isPending(bundle)])
        #expect(reporter.notices.last == "delivered to anna")
    }

    @Test("a node that ends while it is given the message leaves it undecided")
    func submitting() async {
        let operation = operation()
        let broken = ScriptedNode { request in
            if case .find = request { return .success(.contact(contact())) }
            return .failure(ControlFailure(.gone, "the node ended"))
        }
        #expect(await failure(operation, broken)?.status == .failure)
        let again = await failure(operation, node())
        #expect(again?.message.contains("may or may not be sent") == true)
    }

    @Test("a direct message waits until its receiver is in range")
    func range() async throws {
        let node = ScriptedNode { request in
            switch request {
            case .find: .success(.contact(contact(isNear: false)))
            case .contacts: .success(.contacts([contact(isNear: false)]))
            case .sendMessage: .success(.messageAccepted(bundle))
            default: .success(.done)
            }
        }.publishing { request in
            switch request {
            case .contacts: [.contacts([contact(isNear: false)]), .contacts([contact()])]
            case .sendMessage: [.messageChanged(bundle, .delivered, detail: nil)]
            default: []
            }
        }
        try await operation(mode: .direct).run(through: node)
        #expect(reporter.notices.last == "delivered to anna")
    }

    @Test("a receiver that does not come into range is an error")
    func outOfRange() async {
        let failure = await failure(operation(mode: .direct, timeout: .milliseconds(20)), node(isNear: false))
        #expect(failure?.status == .peerNotFound)
    }

    @Test(
        "the file beside a message is followed to its end",
        arguments: [TransferOutcome.completed, .declined(.declined), .expired])
    func file(_ outcome: TransferOutcome) async {
        func status(_ outcome: TransferOutcome?, _ id: TransferStatus.ID = .message(bundle)) -> ControlEvent {
            .transfer(
                TransferStatus(id: id, isIncoming: false, peer: anna, name: "f", done: 1, total: 2, outcome: outcome))
        }
        let events = [
            .messageChanged(bundle, .delivered, detail: nil), status(nil),
            status(.interrupted, .transfer(TransferID(rawValue: 1))),
            status(outcome),
        ]
        let failure = await failure(operation(mode: .direct, file: "/f"), node(events))
        #expect(failure?.status ?? .ok == ExitCode(outcome))
        #expect(reporter.notices.contains("waiting until anna accepts f…"))
    }

    @Test("another reply than the expected one is an error")
    func unexpectedReply() async {
        let failure = await failure(operation(), ScriptedNode { _ in .success(.done) })
        #expect(failure?.message == "unexpected reply from the running node; update nearshare or stop the node")
    }
}

@Suite("received messages, stored and new", .timeLimit(.minutes(1)))
struct MessageListOperationTests {
    private let scratch = ScratchFolder()
    private let reporter = RecordingReporter()

    private static func message(_ number: Int) -> ReceivedMessage { message(number, .null) }

    private static func message(_ number: Int, _ content: StructuredValue) -> ReceivedMessage {
        ReceivedMessage(
            number: number, id: bundle, sender: anna, senderName: nil, signer: EndpointID(rawValue: 1),
            content: .structured(content), isBroadcast: false, created: WallTime(milliseconds: 0),
            received: WallTime(milliseconds: 0), hops: 0)
    }

    /// Follows a node that stores the messages 1 to `count`, while it publishes events.
    /// - Parameter partTimeout: if given, each event is published when the one before is reported.
    private func follow(
        after number: Int, count: Int, partTimeout: Duration? = nil, _ events: [ControlEvent]
    ) async throws -> [Int] {
        let stored = Mutex(0)
        let node = ScriptedNode { request in
            guard case .messages(let number, _) = request else { return .success(.done) }
            let newest = stored.withLock { $0 }
            return .success(.messages(newest > number ? (number + 1...newest).map { Self.message($0) } : []))
        }
        let environment = ["HOME": scratch.path, "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config")]
        let operation = MessageListOperation(
            try LocalMachine(environment: environment), after: number, joinsParts: true,
            partTimeout: partTimeout ?? .seconds(600), reporter: reporter)
        let failure = await #expect(throws: ControlFailure.self) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await operation.follow(node) }
                while node.requests.withLock({ $0.isEmpty }) { await Task.yield() }
                stored.withLock { $0 = count }
                for (index, event) in events.enumerated() {
                    node.publish(event)
                    while partTimeout != nil, reporter.receivedNumbers.count <= index { await Task.yield() }
                }
                node.end()
                try await group.next()
            }
        }
        #expect(failure?.kind == .gone)
        return reporter.receivedNumbers
    }

    @Test("a message whose event was lost is reported before the next one")
    func gap() async throws {
        let numbers = try await follow(after: 0, count: 3, [.received(Self.message(1)), .received(Self.message(3))])
        #expect(numbers == [1, 2, 3])
    }

    @Test("a message whose event was lost is reported although no other message follows")
    func lostLast() async throws {
        let numbers = try await follow(after: 0, count: 2, Array(repeating: .notice("x"), count: 600))
        #expect(numbers == [1, 2])
    }

    @Test("earlier messages are left out, and each is reported once")
    func once() async throws {
        let numbers = try await follow(
            after: 1, count: 3, [.received(Self.message(1)), .received(Self.message(2)), .received(Self.message(3))])
        #expect(numbers == [2, 3])
    }

    /// Two parts of a line of three.
    private static let partEvents = (0..<2).map { index in
        ControlEvent.received(message(index + 1, ChatContent.part(id: "l", index: index, count: 3, text: "text").value))
    }

    @Test("M12: the parts of a line that is not whole are reported when the node ends")
    func partsAtEnd() async throws {
        let numbers = try await follow(after: 0, count: 0, Self.partEvents)
        #expect(numbers == [1, 2])
    }

    @Test("M12: the parts of a line that is not whole in time are reported while the node runs")
    func partsInTime() async throws {
        let numbers = try await follow(after: 0, count: 0, partTimeout: .zero, Self.partEvents)
        #expect(numbers == [1, 2])
    }
}

@Suite("sending through the node of this machine", .timeLimit(.minutes(1)))
struct NodeSendClientTests {
    private let reporter = RecordingReporter()
    private let running = RunningTransfers()
    private let transfer = TransferID(rawValue: 5)

    private func client(_ node: ScriptedNode, timeout: Duration = .seconds(30)) -> NodeSendClient {
        NodeSendClient(client: node, reporter: reporter, running: running, timeout: timeout)
    }

    private func node(_ outcome: TransferOutcome?) -> ScriptedNode {
        let status = { @Sendable (id: TransferStatus.ID, outcome: TransferOutcome?) in
            ControlEvent.transfer(
                TransferStatus(
                    id: id, isIncoming: false, peer: anna, name: "f\u{1b}", done: 3, total: 3, outcome: outcome,
                    detail: "detail"))
        }
        return ScriptedNode { [transfer] request in
            switch request {
            case .sendFile: .success(.transferAccepted(transfer))
            case .sendLine: .success(.lineAccepted(id: "line"))
            default: .success(.done)
            }
        }.publishing { [transfer] request in
            guard case .sendFile = request else { return [] }
            return [status(.message(bundle), .expired), status(.transfer(transfer), nil)]
                + (outcome.map { [status(.transfer(transfer), $0)] } ?? [])
        }
    }

    @Test("a file is followed to its end, and its name is escaped")
    func completed() async throws {
        let node = node(.completed)
        try await client(node).sendFile("/dev/null", to: contact())
        #expect(reporter.sent.map(\.outcome) == [.completed])
        #expect(reporter.sent.first?.label.unicodeScalars.contains("\u{1b}") == false)
        #expect(node.requests.withLock { $0 } == [.sendFile(path: "/dev/null", to: anna, timeout: .seconds(30))])
    }

    @Test(
        "a file that was not sent gives its exit code",
        arguments: [
            (TransferOutcome.declined(.declined), ExitCode.declined), (.declined(.tooLarge), .noSpace), (.expired, .timedOut),
            (.cancelled(by: .local), .declined), (.cancelled(by: .remote), .declined), (.interrupted, .peerGone),
        ])
    fileprivate func failed(_ outcome: TransferOutcome, _ status: ExitCode) async {
        let failure = await #expect(throws: CommandFailure.self) {
            try await client(node(outcome)).sendFile("/dev/null", to: contact())
        }
        #expect(failure?.status == status && failure?.message == "detail")
    }

    @Test(
        "a file for a peer that has gone meanwhile, or is only known, is not sent, and the error says so",
        arguments: [true, false])
    func notInRange(_ isNear: Bool) async {
        let node = ScriptedNode { request in
            if case .sendFile = request {
                .failure(ControlFailure(NodeError.unreachable("not in range")))
            } else {
                .success(.done)
            }
        }
        let failure = await #expect(throws: CommandFailure.self) {
            try await client(node).sendFile("/dev/null", to: contact(isNear: isNear))
        }
        #expect(failure?.status == (isNear ? .peerGone : .peerNotFound))
        #expect(failure?.message.contains("nearby, and files are not kept for later") == true)
    }

    @Test("a file that this user cancels is cancelled at the node, and the exit code says so")
    func cancelled() async {
        let node = ScriptedNode { [transfer] request in
            if case .sendFile = request { .success(.transferAccepted(transfer)) } else { .success(.done) }
        }.publishing { [transfer] request in
            let isCancelled = request == .cancelTransfer(.transfer(transfer))
            return [
                .transfer(
                    TransferStatus(
                        id: .transfer(transfer), isIncoming: false, peer: anna, name: "f", done: 1, total: 3,
                        outcome: isCancelled ? .cancelled(by: .local) : nil))
            ]
        }
        running.cancelAll()
        let failure = await #expect(throws: CommandFailure.self) {
            try await client(node).sendFile("/dev/null", to: contact())
        }
        #expect(failure?.status == .interrupted)
        #expect(reporter.sent.map(\.outcome) == [.cancelled(by: .local)])
        #expect(reporter.sent.map(\.canResume) == [false], "the mesh sends the whole file again")
    }

    @Test("a node that ends in between leaves the file to another attempt")
    func gone() async {
        let node = node(nil)
        await #expect(throws: NodeSendClient.NodeEnded.self) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await client(node).sendFile("/dev/null", to: contact()) }
                while node.requests.withLock({ $0.isEmpty }) { await Task.yield() }
                node.end()
                try await group.next()
            }
        }
    }

    @Test("a text is delivered, fails, or times out")
    func text() async throws {
        func run(_ status: MessageStatus?, timeout: Duration = .seconds(30)) async throws {
            let node = ScriptedNode { _ in .success(.lineAccepted(id: "line")) }.publishing { request in
                guard case .sendLine(_, let conversation) = request, let status else { return [] }
                return [
                    .chatMessageChanged(id: "other", conversation: conversation, status: .failed, reason: nil),
                    .chatMessageChanged(id: "line", conversation: conversation, status: .sent, reason: nil),
                    .chatMessageChanged(id: "line", conversation: conversation, status: status, reason: "no way"),
                ]
            }
            try await client(node, timeout: timeout).sendText("hi", to: contact())
        }
        try await run(.delivered)
        #expect(reporter.sent.map(\.outcome) == [.completed] && reporter.sent.first?.byteCount == 2)
        let failed = await #expect(throws: CommandFailure.self) { try await run(.failed) }
        #expect(failed?.message == "could not be sent: no way")
        let late = await #expect(throws: CommandFailure.self) { try await run(nil, timeout: .milliseconds(20)) }
        #expect(late?.status == .timedOut)
        // Programs learn each end of a send.
        #expect(reporter.sent.map(\.outcome) == [.completed, .failed(.refused, at: .local), .expired])
    }

    @Test("a path that does not exist is an error")
    func missing() async {
        await #expect(throws: CommandFailure.self) { try await client(node(.completed)).sendFile("/nowhere/x", to: contact()) }
    }
}
