import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareTesting
import Testing

/// One state machine whose peer is the test.
struct Lone {
    static let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)
    static let id = TransferID(rawValue: 7)
    static let hash = [UInt8](repeating: 5, count: 32)

    var machine: DirectConnection
    var now = Lone.start
    let theirCode = ShortAuthenticationString(role: .responder, handshakeHash: hash, nonce: [UInt8](repeating: 2, count: 32))

    /// - Parameter greeted: whether greeting and short code are completed.
    init(greeted: Bool = true, limits: DirectLimits = DirectLimits()) {
        let code = ShortAuthenticationString(
            role: .initiator, handshakeHash: Self.hash, nonce: [UInt8](repeating: 1, count: 32))
        machine = DirectConnection(
            ownName: DisplayName(truncating: "Ada")!, authenticationString: code, limits: limits,
            now: Moment(monotonic: now, wall: WallTime(milliseconds: 1)))
        guard greeted else { return }
        _ = receive(hello)
        _ = receive(.reveal(nonce: theirCode.nonce))
    }

    var hello: ControlFrame {
        .hello(name: DisplayName(truncating: "Bea")!, commitment: theirCode.commitment, time: WallTime(milliseconds: 2))
    }

    mutating func receive(_ frame: ControlFrame) -> [DirectReaction] { machine.receive(frame, now: now) }

    static func offer(_ id: TransferID = id, timeout: Duration = .seconds(60)) -> TransferOffer {
        TransferOffer(
            id: id, timeout: timeout, resumeKey: [UInt8](repeating: 0, count: 32), context: [],
            offer: MemoryContent(file: "a", [1]).offer)
    }
}

extension [DirectReaction] {
    var isViolation: Bool {
        contains { if case .closed(.violation) = $0 { true } else { false } } && contains(.send(.close(.violation)))
    }
}

@Suite struct DirectConnectionTests {
    /// Answers pings until the machine closes the link, or the time is over.
    private func answerPings(_ lone: inout Lone, for time: Duration) {
        let end = lone.now + time
        while !lone.machine.isClosed, let deadline = lone.machine.deadline, deadline <= end {
            lone.now = max(lone.now, deadline)
            for case .send(.ping(let token)) in lone.machine.advance(to: lone.now) { _ = lone.receive(.pong(token)) }
        }
    }

    @Test("Q6: a link on which only pings are answered is closed; one with an offer, a comparison or a hold is not")
    func unusedLinks() {
        var limits = DirectLimits()
        limits.unusedLinkTimeout = .seconds(60)
        var idle = Lone(limits: limits)
        #expect(idle.machine.unusedSince(now: idle.now) != nil)
        answerPings(&idle, for: .seconds(59))
        #expect(!idle.machine.isClosed)
        answerPings(&idle, for: .seconds(5))
        #expect(idle.machine.isClosed)

        var offering = Lone(limits: limits)
        _ = offering.receive(.offer(Lone.offer(timeout: .seconds(300))))
        answerPings(&offering, for: .seconds(250))
        #expect(!offering.machine.isClosed)
        _ = offering.machine.decline(id, reason: .declined)
        answerPings(&offering, for: .seconds(70))
        #expect(offering.machine.isClosed)

        var comparing = Lone(limits: limits)
        _ = comparing.receive(.compare)
        answerPings(&comparing, for: .seconds(119))
        #expect(!comparing.machine.isClosed)
        answerPings(&comparing, for: .seconds(70))
        #expect(comparing.machine.isClosed)

        var held = Lone(limits: limits)
        held.machine.reserve(until: MonotonicInstant(nanoseconds: .max), now: held.now)
        answerPings(&held, for: .seconds(1000))
        #expect(!held.machine.isClosed && held.machine.unusedSince(now: held.now) == nil)
        // Links that the limits say nothing about stay.
        var own = Lone()
        answerPings(&own, for: .seconds(1000))
        #expect(!own.machine.isClosed)
    }

    @Test("Q6: a question to the user keeps the link its slot for a minute, an accepted offer for as long as it takes")
    func slotOfQuestions() {
        var offering = Lone()
        _ = offering.receive(.offer(Lone.offer(timeout: .seconds(300))))
        answerPings(&offering, for: .seconds(59))
        #expect(offering.machine.unusedSince(now: offering.now) == nil)
        answerPings(&offering, for: .seconds(5))
        #expect(offering.machine.unusedSince(now: offering.now) != nil)
        _ = offering.machine.accept(id, now: offering.now)
        #expect(offering.machine.unusedSince(now: offering.now) == nil)

        var comparing = Lone()
        _ = comparing.receive(.compare)
        answerPings(&comparing, for: .seconds(59))
        #expect(comparing.machine.unusedSince(now: comparing.now) == nil)
        answerPings(&comparing, for: .seconds(5))
        #expect(comparing.machine.unusedSince(now: comparing.now) != nil)

        var invited = Lone()
        invited.machine.reserve(until: invited.now + .seconds(300), now: invited.now)
        answerPings(&invited, for: .seconds(59))
        #expect(invited.machine.unusedSince(now: invited.now) == nil)
        answerPings(&invited, for: .seconds(5))
        #expect(invited.machine.unusedSince(now: invited.now) != nil)
    }

    @Test("R5: a transfer has a rate ten seconds after its start, a question and a link of a friend have none")
    func transferRate() {
        var slow = Lone()
        _ = slow.receive(.offer(Lone.offer(timeout: .seconds(300))))
        answerPings(&slow, for: .seconds(50))
        #expect(slow.machine.transferRate(now: slow.now) == nil)
        _ = slow.machine.accept(id, now: slow.now)
        answerPings(&slow, for: .seconds(20))
        #expect(slow.machine.transferRate(now: slow.now) == nil, "this side looks for the resume point")
        _ = slow.machine.resume(id, at: .start, now: slow.now)
        #expect(slow.machine.transferRate(now: slow.now) == nil)
        answerPings(&slow, for: .seconds(20))
        slow.machine.recordActivity(byteCount: 110, now: slow.now)
        #expect((1..<ProgressMeter.minimumRate).contains(slow.machine.transferRate(now: slow.now) ?? 0))
        slow.machine.reserve(until: MonotonicInstant(nanoseconds: .max), now: slow.now)
        #expect(slow.machine.transferRate(now: slow.now) == nil)
    }

    @Test("R5: the time in which this side's disk or program stores is no silence of the peer, and a trickle hides nowhere")
    func storing() {
        var lone = incoming(.receiving)
        lone.machine.recordActivity(byteCount: 40_000, now: lone.now)
        _ = lone.machine.receiveContent(id, byteCount: 40_000, now: lone.now)
        answerPings(&lone, for: .seconds(60))
        #expect(lone.machine.transferRate(now: lone.now) == nil)
        _ = lone.machine.recordStored(id, upTo: 40_000, now: lone.now)
        #expect(lone.machine.transferRate(now: lone.now) == nil)
        #expect(lone.machine.transferRate(now: lone.now + .seconds(10)) == 4_000)
        for count in 1...UInt64(30) {
            lone.now = lone.now + .seconds(1)
            lone.machine.recordActivity(byteCount: 1, now: lone.now)
            _ = lone.machine.receiveContent(id, byteCount: 1, now: lone.now)
            _ = lone.machine.recordStored(id, upTo: 40_000 + count, now: lone.now)
        }
        #expect((0..<ProgressMeter.minimumRate).contains(lone.machine.transferRate(now: lone.now) ?? -1))
        let isFinishing = lone.machine.beginFinishing(id, now: lone.now)
        #expect(isFinishing && lone.machine.transferRate(now: lone.now + .seconds(60)) == nil)
    }

    enum OutgoingState: CaseIterable {
        case unknown, offered, locating, sending, awaitingReceipt, cancelling, cancellingComplete, ended
    }

    enum IncomingState: CaseIterable {
        case unknown, invited, locating, receiving, finishing, cancelling, ended
    }

    enum Expected: Equatable {
        case violation
        case nothing
        case reactions([DirectReaction])
    }

    private let id = Lone.id

    private func outgoing(_ state: OutgoingState) -> Lone {
        var lone = Lone()
        if state == .unknown { return lone }
        _ = lone.machine.offer(Lone.offer(), now: lone.now)
        if state == .offered { return lone }
        _ = lone.receive(.accept(id, window: 100))
        if state == .locating { return lone }
        _ = lone.receive(.resume(id, .start))
        if state == .cancellingComplete || state == .awaitingReceipt { lone.machine.willSendLastBlock(id) }
        if state == .cancelling || state == .cancellingComplete {
            _ = lone.machine.cancel(id, reason: .cancelled, now: lone.now)
        }
        if state == .ended { _ = lone.receive(.cancel(id, .cancelled)) }
        return lone
    }

    private func incoming(_ state: IncomingState) -> Lone {
        var lone = Lone()
        if state == .unknown { return lone }
        _ = lone.receive(.offer(Lone.offer()))
        if state == .invited { return lone }
        _ = lone.machine.accept(id, now: lone.now)
        if state == .locating { return lone }
        _ = lone.machine.resume(id, at: .start, now: lone.now)
        if state == .finishing { _ = lone.machine.beginFinishing(id, now: lone.now) }
        if state == .cancelling { _ = lone.machine.cancel(id, reason: .cancelled, now: lone.now) }
        if state == .ended { _ = lone.receive(.cancel(id, .cancelled)) }
        return lone
    }

    private func check(_ lone: Lone, _ frame: ControlFrame, _ expected: Expected, _ label: String) {
        var lone = lone
        let reactions = lone.receive(frame)
        switch expected {
        case .violation:
            #expect(reactions.isViolation, "\(label)")
            #expect(lone.machine.isClosed && lone.machine.deadline == nil, "\(label)")
            #expect(lone.receive(.ping(1)).isEmpty, "\(label): closed is closed")
        case .nothing:
            #expect(reactions.isEmpty, "\(label)")
            #expect(lone.receive(.ping(1)) == [.send(.pong(1))], "\(label): still open")
        case .reactions(let wanted):
            #expect(reactions == wanted, "\(label)")
            #expect(lone.receive(.ping(1)) == [.send(.pong(1))], "\(label): still open")
        }
        // An ended transfer stays ended: its id is not accepted again.
        if reactions.contains(where: { if case .outgoingEnded = $0 { true } else { false } }), !lone.machine.isClosed {
            #expect(lone.machine.isIdle, "\(label)")
            #expect(lone.receive(.offer(Lone.offer())).isViolation, "\(label)")
        }
    }

    @Test("A2, A3, A8: every frame in every state of an outgoing transfer", arguments: OutgoingState.allCases)
    func outgoingTable(_ state: OutgoingState) {
        let lone = outgoing(state)
        let cancelledHere = TransferOutcome.cancelled(by: .local)
        typealias Row = (frame: ControlFrame, expected: [Expected])
        // In the order of the states:    unknown, offered, locating, sending, awaiting receipt, cancelling, … complete, ended
        let ended: (TransferOutcome) -> Expected = { .reactions([.outgoingEnded(id, $0)]) }
        let stopped = Expected.reactions([
            .stopSending(id), .send(.cancelled(id)), .outgoingEnded(id, .cancelled(by: .remote)),
        ])
        let both = Expected.reactions([.send(.cancelled(id)), .outgoingEnded(id, cancelledHere)])
        let use = Expected.reactions([.windowRaised(id, upTo: 9)])
        let rows: [Row] = [
            (
                .accept(id, window: 9),
                [
                    .violation, .reactions([.offerAccepted(id), .windowRaised(id, upTo: 9)]), .violation, .violation,
                    .violation, .nothing,
                    .nothing, .nothing,
                ]
            ),
            (
                .decline(id, .noSpace),
                [
                    .violation, ended(.declined(.noSpace)), .violation, .violation, .violation, ended(.declined(.noSpace)),
                    ended(.declined(.noSpace)), .nothing,
                ]
            ),
            (
                .decline(id, nil),
                [.violation, ended(.expired), .violation, .violation, .violation, ended(.expired), ended(.expired), .nothing]
            ),
            (
                .resume(id, .start),
                [
                    .violation, .violation, .reactions([.startSending(id, from: .start)]), .violation, .violation, .nothing,
                    .nothing, .nothing,
                ]
            ),
            (.credit(id, upTo: 9), [.violation, .violation, .violation, use, use, use, use, .nothing]),
            (
                .stored(id),
                [.violation, .violation, .violation, .violation, ended(.completed), .violation, ended(.completed), .nothing]
            ),
            (.cancel(id, .cancelled), [.violation, stopped, stopped, stopped, stopped, both, both, .nothing]),
            (
                .cancelled(id),
                [
                    .violation, .violation, .violation, .violation, .violation, ended(cancelledHere), ended(cancelledHere),
                    .nothing,
                ]
            ),
        ]
        let column = OutgoingState.allCases.firstIndex(of: state)!
        for row in rows { check(lone, row.frame, row.expected[column], "\(row.frame) while \(state)") }
    }

    @Test("A2, A3, A8: every frame in every state of an incoming transfer", arguments: IncomingState.allCases)
    func incomingTable(_ state: IncomingState) {
        let lone = incoming(state)
        let cancelledByPeer = Expected.reactions([.send(.cancelled(id)), .incomingEnded(id, .cancelled(by: .remote))])
        let cancelledHere = Expected.reactions([.incomingEnded(id, .cancelled(by: .local))])
        let isOver = state == .ended
        switch state {
        case .unknown: check(lone, .cancel(id, .cancelled), .violation, "cancel while unknown")
        case .invited, .locating, .receiving: check(lone, .cancel(id, .cancelled), cancelledByPeer, "cancel while \(state)")
        // Both cancel at once: the sender's cancel counts on both sides.
        case .cancelling: check(lone, .cancel(id, .cancelled), cancelledByPeer, "cancel while cancelling")
        case .finishing: check(lone, .cancel(id, .cancelled), .nothing, "too late to cancel")
        case .ended: check(lone, .cancel(id, .cancelled), .nothing, "cancel after the end")
        }
        check(
            lone, .cancelled(id), state == .cancelling ? cancelledHere : isOver ? .nothing : .violation,
            "cancelled while \(state)")
        if state != .unknown { check(lone, .offer(Lone.offer()), .violation, "A3: the id again while \(state)") }
        // A sender must not send frames of a receiver.
        for frame in [
            ControlFrame.accept(id, window: 1), .decline(id, .busy), .resume(id, .start), .credit(id, upTo: 1), .stored(id),
        ] {
            check(lone, frame, .violation, "\(frame) while \(state)")
        }
    }

    @Test("A1, A2: content in every state", arguments: IncomingState.allCases) func content(_ state: IncomingState) {
        var lone = incoming(state)
        let (verdict, reactions) = lone.machine.receiveContent(id, byteCount: 10, now: lone.now)
        #expect(verdict == (state == .receiving ? .deliver : .drop))
        switch state {
        case .unknown, .invited, .locating, .finishing: #expect(reactions.isViolation)
        case .receiving, .cancelling, .ended: #expect(reactions.isEmpty && !lone.machine.isClosed)
        }
    }

    @Test("R1: content beyond the granted window is a violation, and grants follow the stored amount") func window() {
        var limits = DirectLimits()
        limits.window = 100
        var lone = Lone(limits: limits)
        _ = lone.receive(.offer(Lone.offer()))
        #expect(lone.machine.accept(id, now: lone.now) == [.send(.accept(id, window: 100))])
        #expect(lone.machine.resume(id, at: .start, now: lone.now) == [.send(.resume(id, .start))])
        #expect(lone.machine.resume(id, at: .start, now: lone.now).isEmpty)
        #expect(lone.machine.receiveContent(id, byteCount: 100, now: lone.now).verdict == .deliver)
        #expect(lone.machine.recordStored(id, upTo: 49, now: lone.now).isEmpty)
        #expect(lone.machine.recordStored(id, upTo: 50, now: lone.now) == [.send(.credit(id, upTo: 150))])
        #expect(lone.machine.receiveContent(id, byteCount: 50, now: lone.now).verdict == .deliver)
        #expect(lone.machine.receiveContent(id, byteCount: 1, now: lone.now).reactions.isViolation)
    }

    @Test("A8: a completely received transfer cannot be cancelled, but storing it may fail") func finishing() {
        var lone = incoming(.receiving)
        #expect(lone.machine.finish(id, now: lone.now).isEmpty, "nothing is confirmed before it may be stored")
        let (first, second) = (lone.machine.beginFinishing(id, now: lone.now), lone.machine.beginFinishing(id, now: lone.now))
        #expect(first && !second)
        #expect(lone.machine.cancel(id, reason: .cancelled, now: lone.now).isEmpty)
        var full = lone
        #expect(full.machine.cancel(id, reason: .noSpace, now: full.now) == [.send(.cancel(id, .noSpace))])
        #expect(full.machine.finish(id, now: full.now).isEmpty)
        #expect(lone.machine.finish(id, now: lone.now) == [.send(.stored(id)), .incomingEnded(id, .completed)])
        var cancelled = incoming(.cancelling)
        let mayFinish = cancelled.machine.beginFinishing(id, now: cancelled.now)
        #expect(!mayFinish)
    }

    @Test("A8: a cancel after all content was sent waits for the receiver's answer") func cancelAfterAllWasSent() {
        var lone = outgoing(.cancellingComplete)
        lone.machine.recordActivity(now: lone.now)
        #expect(lone.machine.advance(to: lone.now + DirectLimits.cancelTimeout).isEmpty)
        #expect(lone.receive(.stored(id)) == [.outgoingEnded(id, .completed)])
    }

    @Test("A9: an answer after the invitation has expired changes nothing") func expiry() {
        var receiver = Lone()
        guard case .offerReceived(_, let until)? = receiver.receive(.offer(Lone.offer(timeout: .seconds(30)))).first else {
            Issue.record("no invitation")
            return
        }
        #expect(until == receiver.now + .seconds(30))
        var late = receiver
        #expect(
            late.machine.accept(id, now: until) == [
                .send(.decline(id, nil)), .incomingEnded(id, .expired),
            ])
        var timely = receiver
        #expect(timely.machine.accept(id, now: until + .nanoseconds(-1)) == [.send(.accept(id, window: DirectLimits().window))])
        receiver.machine.recordActivity(now: until)
        #expect(receiver.machine.advance(to: until).contains(.incomingEnded(id, .expired)))
        #expect(receiver.machine.accept(id, now: until).isEmpty)
        #expect(receiver.machine.decline(id, reason: .declined).isEmpty)

        var sender = Lone()
        _ = sender.machine.offer(Lone.offer(timeout: .seconds(30)), now: sender.now)
        sender.now = sender.now + .seconds(36)
        #expect(
            sender.receive(.accept(id, window: 1)) == [.send(.cancel(id, .expired)), .outgoingEnded(id, .expired)])
        #expect(sender.receive(.cancelled(id)).isEmpty)
    }

    @Test(
        "R7: a sender's timeout is clamped to the allowed range",
        arguments: [(0, 1), (1, 1), (600, 600), (601, 600), (65_535, 600)] as [(Int, Int)])
    func timeout(_ example: (told: Int, taken: Int)) {
        var lone = Lone()
        let reactions = lone.receive(.offer(Lone.offer(timeout: .seconds(example.told))))
        #expect(
            reactions == [
                .offerReceived(Lone.offer(timeout: .seconds(example.told)), expiry: lone.now + .seconds(example.taken))
            ])
    }

    @Test("R4, R11: a second invitation while one waits is answered with busy") func busy() {
        var lone = Lone()
        _ = lone.receive(.offer(Lone.offer()))
        let second = TransferID(rawValue: 8)
        #expect(lone.receive(.offer(Lone.offer(second))) == [.send(.decline(second, .busy))])
        #expect(lone.receive(.cancel(second, .cancelled)).isEmpty)
        for number in 0..<4 as Range<UInt64> {
            var lone = Lone()
            for earlier in 0..<number {
                _ = lone.receive(.offer(Lone.offer(TransferID(rawValue: earlier))))
                _ = lone.machine.accept(TransferID(rawValue: earlier), now: lone.now)
            }
            #expect(lone.receive(.offer(Lone.offer(TransferID(rawValue: 50)))).count == 1)
            #expect(!lone.machine.isIdle)
        }
    }

    @Test("R4: each answer, cancel and end of a transfer lets the next offer go; those of the peer are independent")
    func offersInTurn() {
        var lone = Lone()
        let ids = (1...9 as ClosedRange<UInt64>).map { TransferID(rawValue: $0) }
        var sent: [TransferID] = []
        func record(_ reactions: [DirectReaction]) {
            for case .send(.offer(let offer)) in reactions { sent.append(offer.id) }
        }
        for id in ids { record(lone.machine.offer(Lone.offer(id), now: lone.now)) }
        let incoming = TransferID(rawValue: 50)
        let asked = lone.receive(.offer(Lone.offer(incoming)))
        #expect(sent == [ids[0]] && asked.count == 1)
        record(lone.receive(.decline(ids[0], .declined)))
        #expect(sent == Array(ids[0...1]))
        // Its cancel precedes the next offer.
        let cancelled = lone.machine.cancel(ids[1], reason: .cancelled, now: lone.now)
        record(cancelled)
        #expect(sent == Array(ids[0...2]) && cancelled.first == .stopSending(ids[1]))
        record(lone.machine.cancel(ids[3], reason: .cancelled, now: lone.now))
        for id in [ids[2], ids[4], ids[5]] { record(lone.receive(.accept(id, window: 1))) }
        // One is being cancelled, three run.
        #expect(sent == [ids[0], ids[1], ids[2], ids[4], ids[5]])
        record(lone.receive(.cancelled(ids[1])))
        record(lone.receive(.accept(ids[6], window: 1)))
        #expect(sent.last == ids[6])
        record(lone.receive(.cancel(ids[6], .noSpace)))
        #expect(sent.last == ids[7])
        let declined = lone.machine.declineOffers()
        #expect(declined == [.send(.decline(incoming, .declined)), .incomingEnded(incoming, .declined(.declined))])
        let closing = lone.machine.close(.goingAway)
        #expect(
            closing.contains(.outgoingEnded(ids[8], .interrupted)) && closing.last == .closed(.closed(by: .local, .goingAway)))
        #expect(lone.machine.isIdle)
    }

    @Test func `a hello reveals the nonce, and a second one is a violation`() {
        var lone = Lone(greeted: false)
        guard case .send(.hello)? = lone.machine.start().first else {
            Issue.record("no greeting")
            return
        }
        let code = ShortAuthenticationString(
            role: .initiator, handshakeHash: Lone.hash, nonce: [UInt8](repeating: 1, count: 32))
        let name = DisplayName(truncating: "Bea")!
        #expect(
            lone.receive(lone.hello) == [
                .helloReceived(name, time: WallTime(milliseconds: 2)), .send(.reveal(nonce: code.nonce)),
            ])
        #expect(lone.machine.peerName == name)
        guard case .authenticationStringReady(let text)? = lone.receive(.reveal(nonce: lone.theirCode.nonce)).first else {
            Issue.record("no code")
            return
        }
        #expect(lone.machine.authenticationDigits == text)
        #expect(lone.receive(lone.hello).isViolation)
    }

    @Test("A1: a frame before the greeting is a violation") func beforeGreeting() {
        for frame in [ControlFrame.ping(1), .offer(Lone.offer()), .reveal(nonce: Lone.hash), .compare, .stored(id)] {
            var lone = Lone(greeted: false)
            #expect(lone.receive(frame).isViolation, "\(frame)")
        }
        var lone = Lone(greeted: false)
        #expect(lone.receive(.close(.blocked)) == [.closed(.closed(by: .remote, .blocked))])
    }

    @Test func `a close instead of a hello ends the offers that were sent before it`() {
        var lone = Lone(greeted: false)
        _ = lone.machine.offer(Lone.offer(), now: lone.now)
        #expect(
            lone.receive(.close(.blocked)) == [
                .stopSending(Lone.offer().id), .outgoingEnded(Lone.offer().id, .interrupted),
                .closed(.closed(by: .remote, .blocked)),
            ])
        #expect(lone.machine.isIdle)
    }

    @Test("Q6: an offer on a link that gives way to another one is declined as busy, and one of a blocked peer as unwanted")
    func closedWithOffer() {
        for (reason, decline) in [(CloseReason.tooManyLinks, DeclineReason.busy), (.blocked, .acceptsNothing)] {
            var lone = Lone()
            _ = lone.receive(.offer(Lone.offer()))
            #expect(
                lone.machine.close(reason) == [
                    .send(.decline(Lone.offer().id, decline)), .incomingEnded(Lone.offer().id, .declined(decline)),
                    .send(.close(reason)), .closed(.closed(by: .local, reason)),
                ])
        }
    }

    @Test("an offer on a link that is closed is interrupted, and not declined: no user has answered")
    func closedWithUnansweredOffer() {
        for reason in [CloseReason.done, .goingAway] {
            var lone = Lone()
            _ = lone.receive(.offer(Lone.offer()))
            #expect(
                lone.machine.close(reason) == [
                    .send(.close(reason)), .incomingEnded(Lone.offer().id, .interrupted), .closed(.closed(by: .local, reason)),
                ])
        }
    }

    @Test("K3: a reveal that does not open its commitment ends the link") func wrongReveal() {
        var lone = Lone(greeted: false)
        _ = lone.receive(lone.hello)
        #expect(lone.receive(.reveal(nonce: Lone.hash)).contains(.send(.close(.verificationFailed))))
        #expect(lone.machine.isClosed)
    }

    @Test("K3: one comparison on a link, asked by one side and answered once by each") func comparison() {
        var asking = Lone()
        #expect(asking.machine.requestVerification() == [.send(.compare)])
        #expect(asking.machine.requestVerification().isEmpty)
        #expect(asking.machine.answerVerification(matches: true) == [.send(.compared(isSame: true))])
        #expect(asking.machine.answerVerification(matches: false).isEmpty)
        #expect(asking.receive(.compared(isSame: true)) == [.verificationAnswered(matches: true)])
        #expect(asking.machine.requestVerification().isEmpty)
        #expect(asking.receive(.compared(isSame: true)).isViolation)
        var asked = Lone()
        #expect(asked.machine.answerVerification(matches: true).isEmpty)
        #expect(asked.receive(.compare) == [.verificationRequested])
        #expect(asked.machine.answerVerification(matches: false) == [.send(.compared(isSame: false))])
        #expect(asked.machine.answerVerification(matches: true).isEmpty)
        #expect(asked.receive(.compared(isSame: true)) == [.verificationAnswered(matches: true)])
        #expect(asked.receive(.compare).isViolation)
        // Both may ask at the same moment, once.
        var crossing = Lone()
        _ = crossing.machine.requestVerification()
        #expect(crossing.receive(.compare).isEmpty)
        #expect(crossing.receive(.compared(isSame: true)) == [.verificationAnswered(matches: true)])
        #expect(crossing.machine.answerVerification(matches: true) == [.send(.compared(isSame: true))])
        #expect(crossing.receive(.compare).isViolation)
        var early = Lone(greeted: false)
        _ = early.receive(early.hello)
        #expect(early.machine.requestVerification().isEmpty)
        #expect(early.receive(.compare).isViolation)
    }

    @Test("R5: deadlines are reached in order: silence, loss, greeting") func silence() throws {
        var lone = Lone()
        #expect(lone.machine.deadline == lone.now + DirectLimits.keepaliveInterval)
        #expect(lone.machine.advance(to: lone.now + .seconds(3)).isEmpty)
        let quiet = lone.now + DirectLimits.keepaliveInterval
        #expect(lone.machine.advance(to: quiet) == [.send(.ping(UInt64(bitPattern: quiet.nanoseconds)))])
        #expect(lone.machine.deadline == quiet + DirectLimits.keepaliveInterval)
        #expect(lone.machine.advance(to: lone.now + DirectLimits.idleTimeout) == [.closed(.lost)])
        #expect(lone.machine.deadline == nil)
        var silent = Lone(greeted: false)
        let limit = silent.now + DirectLimits.handshakeTimeout
        silent.machine.recordActivity(now: limit)
        #expect(silent.machine.advance(to: limit) == [.send(.close(.violation)), .closed(.lost)])
    }

    @Test("a cancel is final even if it is not confirmed", arguments: [true, false]) func cancelTimer(isOutgoing: Bool) {
        var lone = isOutgoing ? outgoing(.cancelling) : incoming(.cancelling)
        let due = lone.now + DirectLimits.cancelTimeout
        #expect(lone.machine.deadline == due)
        let outcome = TransferOutcome.cancelled(by: .local)
        #expect(lone.machine.advance(to: due) == [isOutgoing ? .outgoingEnded(id, outcome) : .incomingEnded(id, outcome)])
        #expect(lone.machine.isIdle)
        #expect(lone.receive(.cancelled(id)).isEmpty)
    }

    @Test(
        "every reason of a cancel has its outcome",
        arguments: [
            (.cancelled, .cancelled(by: .remote)), (.expired, .expired), (.goingAway, .interrupted),
            (.noSpace, .failed(.noSpace, at: .remote)), (.sourceChanged, .failed(.sourceChanged, at: .remote)),
            (.refused, .failed(.refused, at: .remote)), (.storageFailed, .failed(.storageFailed, at: .remote)),
            (.outputClosed, .failed(.storageFailed, at: .remote)),
        ] as [(CancelReason, TransferOutcome)])
    func reasons(_ example: (reason: CancelReason, outcome: TransferOutcome)) {
        var lone = outgoing(.sending)
        #expect(lone.receive(.cancel(id, example.reason)).contains(.outgoingEnded(id, example.outcome)))
    }

    @Test("the end of a connection ends its transfers", arguments: OutgoingState.allCases) func ending(_ state: OutgoingState) {
        var lone = outgoing(state)
        let reactions = lone.machine.linkEnded()
        #expect(reactions.last == .closed(.lost))
        let outcome: TransferOutcome? =
            switch state {
            case .unknown, .ended: nil
            case .cancelling, .cancellingComplete: .cancelled(by: .local)
            default: .interrupted
            }
        #expect(reactions.contains { if case .outgoingEnded = $0 { true } else { false } } == (outcome != nil))
        if let outcome { #expect(reactions.contains(.outgoingEnded(id, outcome))) }
        #expect(lone.machine.linkEnded().isEmpty && lone.machine.close(.done).isEmpty)
        #expect(
            lone.machine.offer(Lone.offer(TransferID(rawValue: 99)), now: lone.now) == [
                .outgoingEnded(TransferID(rawValue: 99), .interrupted)
            ])
    }
}
