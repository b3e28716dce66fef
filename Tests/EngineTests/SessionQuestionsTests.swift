import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The questions to the users of both ends about one short code.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct SessionQuestionsTests {
    private static func id(_ number: UInt8) -> PeerID { PeerID(bytes: [number] + [UInt8](repeating: 0, count: 7))! }
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func link(
        _ questions: SessionQuestions, _ purpose: OutgoingSessionLink.Purpose = .room
    ) throws -> OutgoingSessionLink {
        let session = try #require(SessionID(bytes: [UInt8](repeating: 3, count: SessionID.byteCount)))
        return OutgoingSessionLink(
            invitation: .invite(session, timeout: .seconds(10), proof: [], context: []), secret: nil, questions: questions,
            expected: nil, voucher: nil, purpose: purpose, outcome: Promise<Result<PeerID, SessionError>>())
    }

    @Test("S20: a user is asked about one peer on one link at a time") func asksOnce() throws {
        let (questions, peer) = (SessionQuestions(own: Self.id(9)), Self.id(1))
        let links = [try link(questions), try link(questions)]
        #expect(links[0].beginInvitation(of: peer, isRemembered: false, now: Self.start))
        #expect(!links[1].beginInvitation(of: peer, isRemembered: false, now: Self.start))
        #expect(links[1].beginInvitation(of: peer, isRemembered: true, now: Self.start), "it asks nothing")
        // The second link has not asked, and does not end the question of the first one.
        links[1].endQuestion()
        #expect(questions.asks(about: peer))
        links[0].endQuestion()
        #expect(!questions.asks(about: peer))
        #expect(questions.beginAnswer(about: peer, now: Self.start) == nil)
        #expect(questions.beginAnswer(about: peer, now: Self.start) == .busy)
        #expect(!links[0].beginInvitation(of: peer, isRemembered: false, now: Self.start))
        questions.endAnswer(about: peer)
        #expect(!questions.asks(about: peer))
    }

    @Test("S20: of two invitations that cross, both ends choose that of the higher id") func crossing() async throws {
        let (low, high) = (SessionQuestions(own: Self.id(1)), SessionQuestions(own: Self.id(9)))
        let links = [try link(low), try link(high)]
        #expect(links[0].beginInvitation(of: Self.id(9), isRemembered: false, now: Self.start))
        #expect(links[1].beginInvitation(of: Self.id(1), isRemembered: false, now: Self.start))
        #expect(low.beginAnswer(about: Self.id(9), now: Self.start) == nil)
        #expect(high.beginAnswer(about: Self.id(1), now: Self.start) == .busy)
        #expect(await links[0].isSettled(within: .seconds(10)), "it gives way before its user is asked")
        #expect(await !links[1].isSettled(within: .milliseconds(1)))
        #expect(links[0].waitsToAsk(own: Self.id(1), about: Self.id(9)))
        #expect(!links[1].waitsToAsk(own: Self.id(9), about: Self.id(1)))
        // The link that gave way does not end the question of the other one.
        links[0].endQuestion()
        #expect(low.asks(about: Self.id(9)))
    }

    @Test(
        "an invitation that both ends have accepted and that cannot join fails for the reason of that",
        arguments: [
            SessionError.left, .full, .unavailable("the link is lost"),
        ]) func joinFails(_ reason: SessionError) throws
    {
        let link = try link(SessionQuestions(own: Self.id(9)), .program)
        let early = link.recordAcceptance {
            Issue.record("it joined without a decision about the key")
            return .failure(.left)
        }
        #expect(early.isEmpty && link.outcome.current == nil)
        let frames = link.recordTrust(true) { .failure(reason) }
        #expect(frames.isEmpty && link.link == nil)
        #expect(link.outcome.current == .failure(reason))
    }

    @Test("an invitation that is withdrawn before both ends have agreed never joins, and one that has joined is not withdrawn")
    func withdraws() throws {
        func expectNoJoin(_ link: OutgoingSessionLink) {
            let join = { () -> Result<SessionLink, SessionError> in
                Issue.record("it joined")
                return .failure(.left)
            }
            let frames = link.recordAcceptance(join) + link.recordTrust(true, join)
            #expect(frames.isEmpty && link.outcome.current == nil && !link.awaitsTrust)
        }
        let steps: [(OutgoingSessionLink) -> Void] = [
            { _ in },
            { _ = $0.recordAcceptance { .failure(.left) } },
            { _ = $0.recordTrust(true) { .failure(.left) } },
        ]
        for step in steps {
            let withdrawn = try link(SessionQuestions(own: Self.id(9)), .program)
            step(withdrawn)
            #expect(withdrawn.withdraw())
            expectNoJoin(withdrawn)
        }
        let joined = try link(SessionQuestions(own: Self.id(9)), .program)
        for step in steps { step(joined) }
        #expect(!joined.withdraw())
        #expect(joined.outcome.current == .failure(.left), "for the reason of the join")
    }

    @Test("S20: a question that was not answered in time is asked again a minute later, also where the peer invites")
    func unanswered() throws {
        let (questions, peer) = (SessionQuestions(own: Self.id(9)), Self.id(1))
        let first = try link(questions)
        #expect(first.beginInvitation(of: peer, isRemembered: false, now: Self.start))
        // Refused before the user saw it.
        first.recordUnanswered(now: Self.start)
        #expect(!questions.isPaused(about: peer, now: Self.start))
        first.recordShown()
        first.recordUnanswered(now: Self.start)
        first.endQuestion()
        for seconds in [0, 59] {
            let now = Self.start + .seconds(seconds)
            #expect(questions.beginAnswer(about: peer, now: now) == .expired)
            #expect(try !link(questions).beginInvitation(of: peer, isRemembered: false, now: now))
        }
        let later = Self.start + SessionQuestions.pause
        // The pause of the other end may have begun a moment later.
        #expect(try !link(questions).beginInvitation(of: peer, isRemembered: false, now: later))
        #expect(questions.beginAnswer(about: peer, now: later) == nil)
        questions.endAnswer(about: peer)
        questions.recordUnanswered(about: peer, now: later)
        #expect(try link(questions, .program).beginInvitation(of: peer, isRemembered: false, now: later))
    }

    @Test("S20: a peer whose user has declined is not invited for ten minutes, unless the program does, or the peer invites")
    func declined() throws {
        let (questions, peer) = (SessionQuestions(own: Self.id(9)), Self.id(1))
        let first = try link(questions)
        #expect(first.beginInvitation(of: peer, isRemembered: false, now: Self.start))
        first.recordDecline(now: Self.start)
        first.endQuestion()
        for seconds in [0, 599] {
            let now = Self.start + .seconds(seconds)
            #expect(questions.isDeclined(by: peer, now: now))
            #expect(try !link(questions, .renewal).beginInvitation(of: peer, isRemembered: false, now: now))
        }
        #expect(!questions.isDeclined(by: peer, now: Self.start + .seconds(600)))
        #expect(!questions.isDeclined(by: Self.id(2), now: Self.start))
        let own = try link(questions, .program)
        #expect(own.beginInvitation(of: peer, isRemembered: false, now: Self.start))
        own.endQuestion()
        #expect(!questions.isDeclined(by: peer, now: Self.start))
        questions.recordDecline(by: peer, now: Self.start)
        #expect(questions.beginAnswer(about: peer, now: Self.start) == nil)
        #expect(!questions.isDeclined(by: peer, now: Self.start))
        questions.endAnswer(about: peer)
    }

    @Test(
        "S20: a program that has restarted refuses a peer that remembers it, and a member that is not remembered is a question",
        arguments: LinkKind.allCases)
    func states(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let hostile = HostileMember(TestNetwork.identity(9))
            let transport = network.settings(9).transport
            let id = hostile.session
            func invite(isRemembered: Bool?, timeout: Duration = .seconds(30)) async throws -> HostileLink {
                let link = try await hostile.connect(to: listener.port, over: transport)
                if let isRemembered { link.say(SessionFrame.statement(id, isRemembered: isRemembered).encoded) }
                link.say(SessionFrame.invite(id, timeout: timeout, proof: [], context: []).encoded)
                return link
            }
            func wait(for wanted: SessionFrame, on link: HostileLink) async throws {
                try await link.wait { (try? SessionFrame(decoding: $0[...])) == wanted }
            }
            let remembering = try await invite(isRemembered: true)
            defer { remembering.close() }
            try await wait(for: .refuse(id, .unremembered), on: remembering)
            let first = try await invite(isRemembered: false)
            defer { first.close() }
            let invitation = try #require(await listener.sessionInvitations.first { _ in true })
            let session = try invitation.accept()
            try await wait(for: .accept(id), on: first)
            let member = try await invite(isRemembered: true)
            defer { member.close() }
            try await wait(for: .accept(id), on: member)
            // Its user is asked, and this one as well.
            let second = try await invite(isRemembered: false, timeout: .seconds(1))
            defer { second.close() }
            let question = try #require(await session.identityQuestions.first { _ in true })
            #expect(question.check.peer.id == hostile.id)
            try await wait(for: .refuse(id, .expired), on: second)
            #expect(await question.ended != nil)
            let third = try await invite(isRemembered: false)
            defer { third.close() }
            try await wait(for: .refuse(id, .expired), on: third)
            // An earlier version does so. This program has forgotten it, so that it is no member that joins again.
            let silent = try await invite(isRemembered: nil)
            defer { silent.close() }
            try await wait(for: .refuse(id, .expired), on: silent)
            #expect(!session.questions.asks(about: hostile.id))
            await session.leave(waiting: .zero)
        }
    }

    @Test(
        "S20: both users are asked about one code again when an invited program has restarted while it was a member",
        arguments: LinkKind.allCases)
    func restarts(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { host in
            let session = try host.startSession()
            for _ in 0..<2 {
                try await withNode(network.settings(1)) { guest in
                    let listener = try guest.listen()
                    let destination = network.destination(1, listener.port)
                    async let invited = session.invite(destination)
                    let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                    let question = try #require(await session.identityQuestions.first { _ in true })
                    #expect(await invitation.shortCode == question.check.shortCode)
                    #expect(question.answer(isSame: true))
                    let joined = try invitation.accept()
                    let member = try await invited
                    #expect(member == network.id(1))
                    for each in [session, joined] { try await each.waitUntilAllAreConnected(1) }
                }
                // Not noticed yet, the loss of the link would make the host keep what it remembers.
                try await session.waitUnannounced { $0.linksTo(network.id(1)).isEmpty }
                #expect(session.isMember(network.id(1)))
            }
            await session.leave(waiting: .zero)
        }
    }
}
