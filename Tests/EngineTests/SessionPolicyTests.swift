import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

/// Admission by a policy, without a question for each invitation.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct SessionPolicyTests {
    /// Node 0 invites node 1, which answers by a policy.
    /// - Returns: The outcome for node 0.
    private func invite(
        _ linkKind: LinkKind, policy: InvitationPolicy, host hostTrust: TrustPolicy = .anyKey, secret: [UInt8]? = nil,
        trustStatus: @escaping @Sendable (AuthenticatedPeer, DisplayName?) -> TrustStatus = { _, _ in .new },
        meanwhile: @escaping @Sendable (_ host: Session) async -> Void = { _ in },
        joined: @escaping @Sendable (_ guest: Session) async throws -> Void = { _ in }
    ) async throws -> Result<PeerID, SessionError> {
        let network = TestNetwork(linkKind)
        var guestSettings = network.settings(1)
        guestSettings.trustStatus = trustStatus
        return try await withNode(guestSettings) { guest in
            let listener = try guest.listen()
            return try await withNode(network.settings(0)) { host in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    let joinedCount = Monitor(0)
                    // Asks about unknown peers.
                    group.addTask {
                        for await session in try listener.sessions(policy) {
                            joinedCount.update { $0 += 1 }
                            try await joined(session)
                        }
                    }
                    var settings = SessionSettings()
                    settings.trust = hostTrust
                    let session = try host.startSession(settings)
                    group.addTask { await meanwhile(session) }
                    let outcome: Result<PeerID, SessionError>
                    do throws(SessionError) {
                        outcome = .success(
                            try await session.invite(
                                network.destination(1, listener.port), secret: secret, timeout: .seconds(20)))
                    } catch {
                        outcome = .failure(error)
                    }
                    await session.leave()
                    guest.beginShutdown()
                    try await group.waitForAll()
                    // The question about an admitted peer comes afterwards; a declined invitation admits no peer.
                    let isRefused = [SessionError.declined, Self.emptySecret].contains { outcome == .failure($0) }
                    #expect(joinedCount.withLock { $0 } == (isRefused ? 0 : 1))
                    return outcome
                }
            }
        }
    }

    private static let emptySecret = SessionError.invalidParameter("the secret of an invitation is empty")
    private static let host = TestNetwork.identity(0).peerID
    private static let guest = TestNetwork.identity(1).peerID

    @Test(
        "K1: under the program's own policy the invited side is asked about the inviting peer; both sides see the same code",
        arguments: LinkKind.allCases)
    func bothSee(_ linkKind: LinkKind) async throws {
        for answer in [true, false, nil] as [Bool?] {
            let (codeOfHost, codeOfGuest) = (Promise<String>(), Promise<String>())
            let outcome = try await invite(
                linkKind, policy: InvitationPolicy { _ in true }, host: .askAtFirstMeeting,
                meanwhile: { session in
                    for await question in session.identityQuestions {
                        codeOfHost.fulfil(question.check.shortCode)
                        question.answer(isSame: true)
                    }
                },
                joined: { session in
                    #expect(session.members.isEmpty)
                    var questions = session.identityQuestions.makeAsyncIterator()
                    // Released at the end of this scope.
                    if let question = await questions.next() {
                        #expect(question.check.peer.id == Self.host && question.check.voucher == nil)
                        codeOfGuest.fulfil(question.check.shortCode)
                        // Without a yes the invitation ends, and the host is no longer asked.
                        _ = await codeOfHost.value
                        if let answer { question.answer(isSame: answer) }
                    }
                    // Ends with the session, which no peer has joined where the answer was no.
                    for await change in session.changes {
                        if answer != true { Issue.record("\(change)") }
                    }
                })
            #expect(codeOfHost.current != nil && codeOfHost.current == codeOfGuest.current)
            switch (answer, outcome) {
            case (true?, .success(Self.guest)), (false?, .failure(.untrusted)), (nil, .failure(.untrusted)): break
            default: Issue.record("\(String(describing: answer)) led to \(outcome)")
            }
        }
    }

    @Test("K14: the policy for friends decides by the proven key, without a question", arguments: LinkKind.allCases)
    func friends(_ linkKind: LinkKind) async throws {
        for (friend, expected) in [(Self.host, .success(Self.guest)), (Self.guest, .failure(.declined))]
            as [(PeerID, Result<PeerID, SessionError>)]
        {
            let outcome = try await invite(
                linkKind, policy: .friends,
                trustStatus: { peer, _ in
                    // A peer with the friend's name and another key is no friend.
                    peer.id == friend
                        ? .known(.verified, isFriend: true) : .nameClash(knownAs: TestNetwork.identity(5).fingerprint)
                },
                joined: { session in
                    #expect(session.members.map(\.id) == [Self.host])
                    for await question in session.identityQuestions { Issue.record("\(question.check.peer.id.hex)") }
                })
            #expect(outcome == expected)
        }
    }

    @Test("S12: the policy for a secret admits a peer that proves it without a question", arguments: LinkKind.allCases)
    func secrets(_ linkKind: LinkKind) async throws {
        let cases: [(wanted: String, said: String, expected: Result<PeerID, SessionError>)] = [
            ("cherry", "cherry", .success(Self.guest)), ("cherry", "plum", .failure(.declined)),
            ("", "plum", .failure(.declined)),
            ("", "", .failure(Self.emptySecret)),
        ]
        for (wanted, said, expected) in cases {
            let outcome = try await invite(
                linkKind, policy: .secret(Array(wanted.utf8)), secret: Array(said.utf8),
                joined: { session in
                    #expect(session.members.map(\.id) == [Self.host])
                    for await question in session.identityQuestions { Issue.record("\(question.check.peer.id.hex)") }
                })
            #expect(outcome == expected)
        }
    }

    @Test("K1: the program's own invitation asks again about a key that was declined", arguments: LinkKind.allCases)
    func asksAgain(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            try await withNode(network.settings(0)) { host in
                let session = try host.startSession()
                var questions = session.identityQuestions.makeAsyncIterator()
                var invitations = listener.sessionInvitations.makeAsyncIterator()
                let destination = network.destination(1, listener.port)
                for isSame in [false, true] {
                    let inviting = Task { () -> Result<PeerID, SessionError> in
                        do throws(SessionError) {
                            return .success(try await session.invite(destination))
                        } catch {
                            return .failure(error)
                        }
                    }
                    let invitation = try #require(await invitations.next())
                    let question = try #require(await questions.next())
                    question.answer(isSame: isSame)
                    if isSame { _ = try invitation.accept(TestNetwork.trusting) }
                    switch (isSame, await inviting.value) {
                    case (true, .success(Self.guest)), (false, .failure(.untrusted)): break
                    case (_, let outcome): Issue.record("the answer \(isSame) led to \(outcome)")
                    }
                }
                await session.leave()
            }
        }
    }

    @Test("K1: a question that no program reads fails the invitation, and leaves no session", arguments: [true, false])
    func unread(_ guestAsks: Bool) async throws {
        let network = TestNetwork(.memory)
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            try await withNode(network.settings(0)) { host in
                let session = try host.startSession(guestAsks ? TestNetwork.trusting : SessionSettings())
                let guestDestination = network.destination(1, listener.port)
                async let outcome = #expect(throws: SessionError.self) {
                    try await session.invite(guestDestination, timeout: .seconds(3))
                }
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                let joined =
                    try guestAsks ? invitation.accept(asksTrust: true) : invitation.accept(TestNetwork.trusting)
                let end = await joined.ended
                guard case .untrusted? = await outcome else {
                    Issue.record("the invitation ended with \(String(describing: await outcome))")
                    return
                }
                switch (guestAsks, end) {
                case (true, .left), (false, .unavailable): break
                default: Issue.record("the joined session ended with \(String(describing: end))")
                }
                #expect(session.members.isEmpty && joined.members.isEmpty)
            }
        }
    }

    @Test(
        "A8: the host gives up while the guest compares the code: the guest's session ends",
        arguments: LinkKind.allCases)
    func givesUp(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            try await withNode(network.settings(0)) { host in
                let session = try host.startSession(TestNetwork.trusting)
                let guestDestination = network.destination(1, listener.port)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        await #expect(throws: SessionError.left) { try await session.invite(guestDestination) }
                    }
                    for await joined in try listener.sessions(InvitationPolicy { _ in true }) {
                        var questions = joined.identityQuestions.makeAsyncIterator()
                        let question = try #require(await questions.next())
                        await session.leave()
                        for await change in joined.changes { Issue.record("\(change)") }
                        question.answer(isSame: true)
                        await #expect(throws: SessionError.left) { try await joined.send(SessionMessage(bytes: [])) }
                        break
                    }
                    try await group.waitForAll()
                }
            }
        }
    }

    @Test("an invitation whose question is not answered holds up no other one")
    func unansweredQuestion() async throws {
        let network = TestNetwork(.memory)
        let (asked, answer) = (Promise<Bool>(), Promise<Bool>())
        let policy = InvitationPolicy { invitation in
            guard invitation.peer.id == Self.host else { return true }
            asked.fulfil(true)
            return await answer.eventualValue ?? false
        }
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            let destination = network.destination(1, listener.port)
            try await withNode(network.settings(0)) { first in
                try await withNode(network.settings(2)) { second in
                    let waiting = try first.startSession(TestNetwork.trusting)
                    let session = try second.startSession(TestNetwork.trusting)
                    async let joined = listener.sessions(policy, settings: TestNetwork.trusting).first { _ in true }
                    async let outcome = #expect(throws: SessionError.declined) { try await waiting.invite(destination) }
                    _ = await asked.value
                    let member = try await session.invite(destination)
                    #expect(member == Self.guest)
                    let ids = try await joined?.members.map(\.id)
                    #expect(ids == [TestNetwork.identity(2).peerID])
                    // Declined when the reader has gone, although the closure has not returned.
                    _ = await outcome
                    answer.fulfil(true)
                }
            }
        }
    }

    @Test("settings out of their bounds are an error, and not a session that declines all invitations")
    func wrongSettings() async throws {
        try await withNode(TestNetwork(.memory).settings(0)) { node in
            let listener = try node.listen()
            var settings = SessionSettings()
            settings.memberLimit = 1
            let wrong = settings
            #expect(throws: SessionError.self) { _ = try listener.sessions(.friends, settings: wrong) }
        }
    }

    /// The reason why no answer about a key is needed any more.
    enum Ending: CaseIterable {
        case leaving
        case cancelling
    }

    @Test(
        "a closure about a key is cancelled when the session is over or its node is cancelled, and the key is not refused",
        arguments: Ending.allCases)
    func unneededAnswer(_ ending: Ending) async throws {
        let network = TestNetwork(.memory)
        let (asked, isCancelled, answer) = (Promise<Bool>(), Promise<Bool>(), Promise<Bool>())
        let port = Promise<UInt16>()
        try await withNode(network.settings(0)) { host in
            let guest = Task {
                try await withNode(network.settings(1)) { guest in
                    var settings = SessionSettings()
                    settings.trust = TrustPolicy { _ in
                        asked.fulfil(true)
                        _ = await answer.value
                        isCancelled.fulfil(Task.isCancelled)
                        return false
                    }
                    let listener = try guest.listen()
                    port.fulfil(listener.port)
                    let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                    let joined = try invitation.accept(settings, asksTrust: true)
                    _ = await asked.value
                    if ending == .leaving { await joined.leave() }
                    // Until the task is cancelled.
                    _ = await answer.value
                }
            }
            let listeningPort = try #require(await port.value)
            let destination = network.destination(1, listeningPort)
            let session = try host.startSession(TestNetwork.trusting)
            async let outcome = #expect(throws: SessionError.self) { try await session.invite(destination) }
            _ = await asked.value
            if ending == .cancelling { guest.cancel() }
            #expect(await isCancelled.value == true)
            let error = await outcome
            if case .untrusted? = error { Issue.record("the key was refused") }
            guest.cancel()
            try await guest.value
        }
    }
}
