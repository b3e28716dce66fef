import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareCrypto
@testable import NearshareEngine

/// The sequence of all events of a session.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct SessionEventTests {
    private let id = TestNetwork.identity(3).peerID

    private func received(_ text: String, _ mode: Session.DeliveryMode = .reliable) -> Session.ReceivedMessage {
        Session.ReceivedMessage(sender: id, message: SessionMessage(text: text), mode: mode)
    }

    /// Reads all events of queues that are finished.
    private func drain(_ events: SessionEvents) async -> [String] {
        var texts: [String] = []
        while let event = await events.next() { texts.append(Self.text(of: event)) }
        return texts
    }

    private static func text(of event: Session.Event) -> String {
        switch event {
        case .message(let received): received.message.text ?? "?"
        case .change(.left(_, let lost)): "left \(lost)"
        case .change(.restarted(_, let lost)): "restarted \(lost)"
        case .change(.joined): "joined"
        case .change(.slow): "slow"
        case .change(.metadata): "metadata"
        case .change(.state(_, let state)): "\(state)"
        case .stream: "stream"
        case .resource: "resource"
        case .transferEnded(let transfer, _): "\(transfer.snapshot.phase)"
        case .question: "question"
        }
    }

    @Test("events and messages are in the order of their arrival") func order() async {
        let inbox = SessionInbox()
        let events = SessionEvents(inbox)
        inbox.append(contentsOf: [received("one"), received("two")])
        events.emit(Session.Change.restarted(id, lost: 1), to: events.changes)
        inbox.append(unreliable: received("three", .unreliable))
        events.emit(Session.Change.left(id, lost: 2), to: events.changes)
        inbox.append(contentsOf: [received("four")])
        inbox.finish()
        events.finish()
        #expect(await drain(events) == ["one", "two", "restarted 1", "three", "left 2", "four"])
    }

    @Test("a message that another reader takes does not delay later events") func readers() async {
        let inbox = SessionInbox()
        let events = SessionEvents(inbox)
        inbox.append(contentsOf: [received("one")])
        events.emit(Session.Change.left(id, lost: 0), to: events.changes)
        #expect(await inbox.dequeue()?.message.text == "one")
        #expect(await events.next().map(Self.text) == "left 0")
    }

    @Test("S7: unread events are bounded: the oldest changes are dropped, and the newest questions, answered with no")
    func bounds() async {
        let inbox = SessionInbox()
        let events = SessionEvents(inbox)
        for number in 0..<5000 { events.emit(Session.Change.left(id, lost: number), to: events.changes) }
        let proven = AuthenticatedPeer(key: TestNetwork.identity(3).agreementKey.publicKey)
        let peer = Peer(
            proven: proven, name: DisplayName(truncating: "x")!, trustStatus: .new, address: nil, version: nil)
        let answers = (0..<300).map { _ in IdentityQuestion.Outcome() }
        for answer in answers {
            let check = IdentityCheck(peer: peer, shortCode: "0000 0000", voucher: nil)
            events.emit(IdentityQuestion(check, answer), to: events.questions)
        }
        #expect(answers.filter { $0.answer.current == false }.count == 300 - 256)
        inbox.finish()
        events.finish()
        #expect(answers.allSatisfy { $0.answer.current == false }, "unread questions are answered at the end")
        let texts = await drain(events)
        #expect(texts.count == 4096 && texts.first == "left 904" && texts.last == "left 4999")
    }

    @Test("a task that waits for the end of a question goes on when it is answered, or ends without an answer")
    func questionEnds() async {
        let proven = AuthenticatedPeer(key: TestNetwork.identity(3).agreementKey.publicKey)
        let peer = Peer(
            proven: proven, name: DisplayName(truncating: "x")!, trustStatus: .new, address: nil, version: nil)
        let check = IdentityCheck(peer: peer, shortCode: "0000 0000", voucher: nil)
        let (answered, unanswered) = (IdentityQuestion.Outcome(), IdentityQuestion.Outcome())
        let questions = [answered, unanswered].map { IdentityQuestion(check, $0) }
        async let ends = [questions[0].ended, questions[1].ended]
        #expect(questions[0].answer(isSame: true))
        #expect(unanswered.end(.left) == nil)
        #expect(await ends == [nil, .left])
        #expect(answered.end(.left) == true, "an answer counts also where the question is not needed any more")
        #expect(await questions[0].ended == nil, "it was answered before")
    }

    @Test(
        "a program reads messages, streams, offers, ends of transfers and departures in one loop", arguments: LinkKind.allCases)
    func oneLoop(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let (sender, receiver) = (sessions[0], network.id(1))
            async let steps: [String] = {
                var steps: [String] = []
                for await event in sessions[1].events {
                    switch event {
                    case .change(.joined), .change(.state), .change(.restarted), .change(.slow), .change(.metadata), .question:
                        continue
                    case .message(let received): steps.append(received.message.text ?? "?")
                    case .stream(let incoming):
                        steps.append(incoming.name)
                        incoming.finish()
                    case .resource(let invitation):
                        steps.append("offer")
                        _ = invitation.accept(into: InMemorySink())
                    case .transferEnded(let transfer, let member):
                        #expect(member == network.id(0))
                        #expect(await transfer.result.outcome == .completed)
                        steps.append("stored")
                    case .change(.left(let id, let lost)):
                        #expect(id == network.id(0) && lost == 0)
                        steps.append("left")
                    }
                    if steps.count == 5 { break }
                }
                return steps
            }()
            try await sender.send(SessionMessage(text: "hello"), to: [receiver]).delivered
            let stream = try await sender.openStream(named: "numbers", to: receiver)
            #expect(try await stream.read() == nil)
            stream.finish()
            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 1000))
            let transfer = try await sender.sendResource(
                InMemorySource(content), to: [receiver], resumeKey: Stage.resumeKey)[receiver]
            #expect(await transfer?.result.outcome == .completed)
            // The sender of a transfer is told as well.
            for await case .transferEnded(_, receiver) in sender.events { break }
            await sender.leave()
            // The sender leaves when it knows that all is stored, which the receiver's program may learn later.
            let all = await steps
            #expect(all.prefix(3) == ["hello", "numbers", "offer"] && Set(all.suffix(2)) == ["stored", "left"])
        }
    }

    @Test("leaving reports the end of a transfer that it cuts", arguments: LinkKind.allCases)
    func cutTransfer(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 2_000_000))
            let sent = try #require(
                try await sessions[0].sendResource(
                    InMemorySource(content), to: [network.id(1)], resumeKey: Stage.resumeKey)[network.id(1)])
            var events = sessions[1].events.makeAsyncIterator()
            var invitation: Invitation?
            while invitation == nil, let event = await events.next() {
                if case .resource(let offer) = event { invitation = offer }
            }
            let sink = InMemorySink(holdsAfter: 1)
            let receiving = try #require(invitation).accept(into: sink)
            for await _ in sink.held { break }
            await sessions[1].leave(waiting: .zero)
            var ended: [Transfer] = []
            while let event = await events.next() {
                if case .transferEnded(let transfer, network.id(0)) = event { ended.append(transfer) }
            }
            #expect(ended.count == 1 && ended.first === receiving)
            sink.release()
            #expect(await receiving.result.outcome == .interrupted)
            #expect(await sent.result.outcome == .interrupted)
        }
    }

    @Test("an unanswered question that the program keeps does not hold up the end of its node") func keptQuestion() async throws
    {
        let network = TestNetwork(.memory)
        let (first, second) = (Node.start(network.settings(0)), Node.start(network.settings(1)))
        let listener = try second.listen()
        let session = try first.startSession()
        async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
        async let invited = session.invite(network.destination(1, listener.port))
        let question = try #require(await session.identityQuestions.first { _ in true })
        await first.stop()
        await second.stop()
        _ = try? await invited
        _ = try? await accepted
        #expect(await question.ended != nil)
        #expect(!question.answer(isSame: true), "an answer after the end has no effect")
    }
}
