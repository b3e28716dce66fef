import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTCP
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Admission to a session, and the guarantees for its members.
extension SessionStoryTests {
    /// Node 0 invites node 1, which answers the invitation with `answer`.
    /// - Returns: The outcome for node 0.
    private func invite(
        _ linkKind: LinkKind, secret: [UInt8]? = nil, timeout: Duration = .seconds(30),
        settings: SessionSettings = TestNetwork.trusting,
        adjust: @Sendable (Int, inout NodeSettings) -> Void = { _, _ in },
        answer: @escaping @Sendable (SessionInvitation) async throws -> Void,
        meanwhile: @escaping @Sendable (Session) async -> Void = { _ in }
    ) async throws -> Result<PeerID, SessionError> {
        let network = TestNetwork(linkKind)
        var host = network.settings(0)
        var guest = network.settings(1)
        adjust(0, &host)
        adjust(1, &guest)
        return try await withNode(guest) { [host] guest in
            let listener = try guest.listen()
            return try await withNode(host) { host in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { for await invitation in listener.sessionInvitations { try await answer(invitation) } }
                    let session = try host.startSession(settings)
                    group.addTask { await meanwhile(session) }
                    let outcome: Result<PeerID, SessionError>
                    do throws(SessionError) {
                        outcome = .success(
                            try await session.invite(
                                network.destination(1, listener.port), context: [1, 2], secret: secret,
                                timeout: timeout))
                    } catch {
                        outcome = .failure(error)
                    }
                    await session.leave()
                    guest.beginShutdown()
                    try await group.waitForAll()
                    return outcome
                }
            }
        }
    }

    private static let guest = TestNetwork.identity(1).peerID

    @Test("an invitation is refused as busy where another process has sessions with the key", arguments: LinkKind.allCases)
    func claimedElsewhere(_ linkKind: LinkKind) async throws {
        let refusal = "process 1 takes part in sessions"
        let outcome = try await invite(
            linkKind,
            adjust: { number, settings in
                guard number == 1 else { return }
                settings.claimSessions = { () throws(NodeError) -> (any Sendable)? in throw .unavailable(refusal) }
            },
            answer: { invitation in
                #expect(throws: SessionError.unavailable(refusal)) { try invitation.accept(TestNetwork.trusting) }
            })
        #expect(outcome == .failure(SessionError(.busy)))
    }

    @Test("sessions that a node starts at the same time share one port", arguments: LinkKind.allCases)
    func onePort(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { node in
            let sessions = try await withThrowingTaskGroup { group in
                for _ in 0..<16 { group.addTask { try node.startSession(TestNetwork.trusting) } }
                var sessions: [Session] = []
                for try await session in group { sessions.append(session) }
                return sessions
            }
            #expect(network.portCount(of: 0) == 1)
            for session in sessions { await session.leave() }
        }
    }

    @Test(
        "D1: an invitation reaches the peer although another one answers at an announced address", arguments: LinkKind.allCases)
    func otherAddress(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(2)) { impostor in
            let other = try impostor.listen()
            try await withNode(network.settings(1)) { guest in
                let listener = try guest.listen()
                try await withNode(network.settings(0)) { host in
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for await invitation in listener.sessionInvitations {
                                _ = try invitation.accept(TestNetwork.trusting)
                            }
                        }
                        let session = try host.startSession(TestNetwork.trusting)
                        var destination = network.destination(1, other.port)
                        destination.addresses += network.destination(1, listener.port).addresses
                        #expect(try await session.invite(destination) == Self.guest)
                        await session.leave()
                        guest.beginShutdown()
                        try await group.waitForAll()
                    }
                }
            }
        }
    }

    @Test(
        "D1: an invitation reaches the peer although an address that accepts connections and stays silent comes first",
        arguments: LinkKind.allCases)
    func silentAddresses(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let transport = network.settings(3).transport
        let silent = try transport.listen(port: 0, interface: linkKind.interface)
        defer { silent.close() }
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            try await withNode(network.settings(0)) { host in
                let session = try host.startSession(TestNetwork.trusting)
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                let unreached = network.destination(1, silent.port)
                let error = await #expect(throws: SessionError.self) {
                    try await session.invite(unreached, timeout: .seconds(1))
                }
                #expect(error == .timedOut("the peer at \(unreached.addresses[0]) did not answer in time"))
                var destination = unreached
                destination.addresses += network.destination(1, listener.port).addresses
                // Less than the limit on a handshake, which would leave no time: 9 seconds for each.
                #expect(try await session.invite(destination, timeout: .seconds(18)) == Self.guest)
                _ = try #require(await joined)
                await session.leave()
            }
        }
    }

    @Test(
        "of two peers that two members invite for the last place one joins, and no older member leaves",
        arguments: LinkKind.allCases)
    func lastPlace(_ linkKind: LinkKind) async throws {
        var settings = TestNetwork.trusting
        settings.memberLimit = 3
        try await TestNetwork.withSession(of: 2, linkKind, settings: settings) { [settings] network, sessions in
            try await withNode(network.settings(2)) { first in
                try await withNode(network.settings(3)) { second in
                    let listeners = [try first.listen(), try second.listen()]
                    let guests = try await withThrowingTaskGroup(of: Session?.self) { group in
                        for (number, listener) in listeners.enumerated() {
                            // Fails for one of them, unless its session ends a moment later.
                            group.addTask {
                                _ = try? await sessions[number].invite(network.destination(number + 2, listener.port))
                                return nil
                            }
                            group.addTask {
                                let invitation = await withTimeout(.seconds(5)) {
                                    await listener.sessionInvitations.first { _ in true }
                                }
                                return try? invitation??.accept(settings)
                            }
                        }
                        var guests: [Session] = []
                        for try await session in group { if let session { guests.append(session) } }
                        return guests
                    }
                    try await sessions[0].waitUnannounced { _ in
                        let staying = sessions + guests.filter { !$0.isOver && !$0.members.isEmpty }
                        return staying.count == 3
                            && staying.allSatisfy { $0.members.count == 2 && $0.members.allSatisfy(\.state.isConnected) }
                    }
                    #expect(sessions.allSatisfy { !$0.isOver })
                    for guest in guests { await guest.leave(waiting: .zero) }
                }
            }
        }
    }

    @Test("an invitation is accepted, declined, or released, which declines it", arguments: LinkKind.allCases)
    func answers(_ linkKind: LinkKind) async throws {
        let accepted = try await invite(linkKind) { invitation in
            #expect(invitation.context == [1, 2] && invitation.peer.id == TestNetwork.identity(0).peerID)
            _ = try invitation.accept(TestNetwork.trusting)
        }
        #expect(accepted == .success(Self.guest))
        #expect(try await invite(linkKind) { $0.decline() } == .failure(.declined))
        #expect(try await invite(linkKind) { _ in } == .failure(.declined))
    }

    @Test("A9: accepting an expired invitation throws that error", arguments: LinkKind.allCases) func expires(
        _ linkKind: LinkKind
    )
        async throws
    {
        let outcome = try await invite(linkKind, timeout: .seconds(1)) { invitation in
            #expect(await invitation.ended == .timedOut("the invitation was not answered in time"))
            #expect(throws: SessionError.timedOut("the invitation was not answered in time")) {
                try invitation.accept(TestNetwork.trusting)
            }
        }
        guard case .failure(.timedOut) = outcome else {
            Issue.record("\(outcome)")
            return
        }
    }

    @Test("A2: cancelling withdraws an invitation, and accepting it then is an error", arguments: LinkKind.allCases)
    func withdraws(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            try await withNode(network.settings(0)) { host in
                let session = try host.startSession(TestNetwork.trusting)
                await withTaskGroup(of: Void.self) { group in
                    group.addTask {
                        await #expect(throws: SessionError.cancelled) {
                            try await session.invite(network.destination(1, listener.port))
                        }
                    }
                    let invitation = await listener.sessionInvitations.first { _ in true }
                    group.cancelAll()
                    #expect(await invitation?.ended != nil)
                    #expect(throws: SessionError.self) { try invitation?.accept(TestNetwork.trusting) }
                }
                #expect(session.members.isEmpty)
            }
        }
    }

    @Test(
        "A2: an invitation that is cancelled at the moment of its acceptance has made both ends members, or neither",
        arguments: LinkKind.allCases, [true, false])
    func cancelledWhileAccepted(_ linkKind: LinkKind, isJoined: Bool) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(1)) { guest in
            let listener = try guest.listen()
            let destination = network.destination(1, listener.port)
            try await withNode(network.settings(0)) { host in
                for _ in 0..<10 {
                    let session = try host.startSession(TestNetwork.trusting)
                    let inviting = Task { () async -> Result<PeerID, SessionError> in
                        do throws(SessionError) {
                            return .success(try await session.invite(destination))
                        } catch {
                            return .failure(error)
                        }
                    }
                    let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                    let joined = try invitation.accept(TestNetwork.trusting)
                    // Either the acceptance is processed, and the call has not returned; or the two frames cross.
                    if isJoined { try await session.wait { !$0.members.isEmpty } }
                    inviting.cancel()
                    switch await inviting.value {
                    case .success(let id):
                        #expect(id == network.id(1))
                        try await session.waitUntilAllAreConnected(1)
                        try await joined.waitUntilAllAreConnected(1)
                    case .failure(let error):
                        #expect(error == .cancelled && !isJoined)
                        #expect(session.members.isEmpty)
                        let end = await joined.ended
                        if case .unavailable? = end {} else { Issue.record("\(String(describing: end))") }
                    }
                    await session.leave(waiting: .zero)
                    await joined.leave(waiting: .zero)
                }
            }
        }
    }

    @Test("S12: a policy admits only peers that prove the secret", arguments: LinkKind.allCases) func secrets(
        _ linkKind: LinkKind
    )
        async throws
    {
        for (said, outcome) in [("cherry", .success(Self.guest)), ("plum", .failure(.declined)), (nil, .failure(.declined))]
            as [(String?, Result<PeerID, SessionError>)]
        {
            let result = try await invite(linkKind, secret: said.map { Array($0.utf8) }) { invitation in
                if invitation.proves(Array("cherry".utf8)) { _ = try invitation.accept(TestNetwork.trusting) }
            }
            #expect(result == outcome, "\(said ?? "none")")
        }
    }

    @Test("K1: a different short code, or an unanswered question, admits no peer", arguments: LinkKind.allCases)
    func questions(_ linkKind: LinkKind) async throws {
        for answer in [true, false, nil] as [Bool?] {
            let outcome = try await invite(linkKind, settings: SessionSettings()) { invitation in
                do throws(SessionError) {
                    _ = try invitation.accept(TestNetwork.trusting)
                } catch {
                    // The inviter withdraws it once the peer is not trusted, and then the test stops this node.
                    switch error {
                    case .unavailable, .left: if answer == true { throw error }
                    default: throw error
                    }
                }
            } meanwhile: { session in
                for await question in session.identityQuestions {
                    #expect(question.check.peer.id == Self.guest && question.check.voucher == nil)
                    if let answer { question.answer(isSame: answer) }
                }
            }
            switch (answer, outcome) {
            case (true?, .success(Self.guest)), (false?, .failure(.untrusted)), (nil, .failure(.untrusted)): break
            default: Issue.record("\(String(describing: answer)) led to \(outcome)")
            }
        }
    }

    @Test("K12: incompatible preferences are refused, and no peer is invited", arguments: LinkKind.allCases)
    func encryption(_ linkKind: LinkKind) async throws {
        for (local, remote, fits) in [
            (.required, .none, false), (.none, .required, false), (.optional, .none, true), (.required, .optional, true),
        ] as [(EncryptionPreference, EncryptionPreference, Bool)] {
            let outcome = try await invite(linkKind) { number, settings in
                settings.encryption = number == 0 ? local : remote
            } answer: { invitation in
                #expect(fits)
                _ = try invitation.accept(TestNetwork.trusting)
            }
            switch (fits, outcome) {
            case (true, .success(Self.guest)), (false, .failure(.incompatible)): break
            default: Issue.record("\(local) with \(remote) led to \(outcome)")
            }
        }
    }

    @Test(
        "unreliable messages arrive as UDP datagrams where these get through, otherwise over the link",
        arguments: [true, false])
    func unreliable(_ hasPackets: Bool) async throws {
        try await TestNetwork.withSession(of: 2, .tcp) { _, settings in
            if hasPackets { settings.datagrams = UDPTransport() }
        } _: { network, sessions in
            // Repeated until one arrives: each may be lost.
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    while !Task.isCancelled {
                        _ = try? await sessions[0].send(SessionMessage(bytes: [4]), mode: .unreliable)
                        try? await Task.sleep(for: .milliseconds(20))
                    }
                }
                let received = await sessions[1].messages.first { _ in true }
                #expect(
                    received?.mode == .unreliable && received?.sender == network.id(0) && received?.message.bytes == [4])
                group.cancelAll()
            }
            await #expect(throws: SessionError.self) {
                try await sessions[0].send(SessionMessage(bytes: [UInt8](repeating: 0, count: 1201)), mode: .unreliable)
            }
        }
    }

    @Test("a resource goes to four members at once; one of them declines", arguments: LinkKind.allCases)
    func resourceToFour(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 5, linkKind) { network, sessions in
            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 300_000))
            let ids = (1...4).map(network.id)
            let transfers = try await sessions[0].sendResource(InMemorySource(content), to: ids, resumeKey: Stage.resumeKey)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...4 {
                    group.addTask {
                        let invitation = try #require(await sessions[number].resources.first { _ in true })
                        guard number < 4 else { return invitation.decline() }
                        let sink = InMemorySink()
                        #expect(await invitation.accept(into: sink).result.outcome == .completed)
                        #expect(sink.received.entries == content.entries)
                    }
                }
                try await group.waitForAll()
            }
            for id in ids.dropLast() { #expect(await transfers[id]?.result.outcome == .completed) }
            #expect(await transfers[ids[3]]?.result.outcome == .declined(.declined))
        }
    }

    /// Offers small files to a member, one right after the other.
    private func offerFiles(_ count: Int, to id: PeerID, by session: Session) async throws -> [Transfer] {
        var transfers: [Transfer] = []
        for number in 0..<count {
            let content = MemoryContent(file: "f\(number)", [UInt8](repeating: 5, count: 1000))
            let sent = try await session.sendResource(InMemorySource(content), to: [id], resumeKey: Stage.resumeKey)
            transfers.append(try #require(sent[id]))
        }
        return transfers
    }

    @Test(
        "R4: of resources that are offered in a loop, each is offered once the one before is answered, in their order",
        arguments: LinkKind.allCases, [3, 10])
    func resourcesInTurn(_ linkKind: LinkKind, count: Int) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let transfers = try await offerFiles(count, to: network.id(1), by: sessions[0])
            // The first one is still received while the others are.
            let slow = InMemorySink(holdsAfter: 0)
            var received: [Transfer] = []
            for number in 0..<count {
                let invitation = try #require(await sessions[1].resources.first { _ in true })
                #expect(invitation.offer.items.map(\.name) == [ClaimedFileName("f\(number)")])
                let later = transfers.suffix(count - number).map(\.snapshot)
                #expect(later.allSatisfy { $0.phase == .waiting && $0.done == 0 })
                received.append(invitation.accept(into: number == 0 ? slow : InMemorySink()))
            }
            slow.release()
            for transfer in transfers + received { #expect(await transfer.result.outcome == .completed) }
        }
    }

    @Test(
        "A8: a resource that waits for its turn can be cancelled, and ends with its link; the others do not notice",
        arguments: LinkKind.allCases)
    func waitingResources(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let id = network.id(1)
            let transfers = try await offerFiles(5, to: id, by: sessions[0])
            let back = try await offerFiles(1, to: network.id(0), by: sessions[1])
            transfers[1].cancel()
            #expect(await transfers[1].result.outcome == .cancelled(by: .local))
            // The other direction has a turn of its own.
            let incoming = try #require(await sessions[0].resources.first { _ in true })
            _ = incoming.accept(into: InMemorySink())
            #expect(await back[0].result.outcome == .completed)
            let first = try #require(await sessions[1].resources.first { _ in true })
            first.decline(.noSpace)
            #expect(await transfers[0].result.outcome == .declined(.noSpace))
            let second = try #require(await sessions[1].resources.first { _ in true })
            #expect(second.offer.items.map(\.name) == [ClaimedFileName("f2")])
            network.isolate(1)
            for transfer in transfers[2...] { #expect(await transfer.result.outcome == .interrupted) }
            withExtendedLifetime(second) {}
        }
    }

    @Test("R1: 256 resources may wait for a member's answers") func waitingLimit() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            let id = network.id(1)
            let transfers = try await offerFiles(257, to: id, by: sessions[0])
            guard
                case .unavailable? = await #expect(
                    throws: SessionError.self, performing: { try await offerFiles(1, to: id, by: sessions[0]) })
            else {
                Issue.record("another error")
                return
            }
            for transfer in transfers { transfer.cancel() }
            for transfer in transfers { #expect(await transfer.result.outcome == .cancelled(by: .local)) }
        }
    }

    @Test("a resource goes to seven members at once, of whom one cancels it midway", arguments: LinkKind.allCases)
    func resourceToSeven(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 8, linkKind) { network, sessions in
            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 1_000_000))
            let ids = (1...7).map(network.id)
            let transfers = try await sessions[0].sendResource(InMemorySource(content), to: ids, resumeKey: Stage.resumeKey)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...7 {
                    group.addTask {
                        let invitation = try #require(await sessions[number].resources.first { _ in true })
                        let sink = number < 7 ? InMemorySink() : InMemorySink(holdsAfter: 1)
                        let received = invitation.accept(into: sink)
                        guard number < 7 else {
                            for await _ in sink.held { break }
                            received.cancel()
                            sink.release()
                            return #expect(await received.result.outcome == .cancelled(by: .local))
                        }
                        #expect(await received.result.outcome == .completed)
                        #expect(sink.received.entries == content.entries)
                    }
                }
                try await group.waitForAll()
            }
            for id in ids.dropLast() { #expect(await transfers[id]?.result.outcome == .completed) }
            #expect(await transfers[ids[6]]?.result.outcome == .cancelled(by: .remote))
        }
    }

    @Test("offers made at the same time do not exceed the limit on those that wait") func waitingOffers() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            let (session, id) = (sessions[0], network.id(1))
            let source = InMemorySource(MemoryContent(file: "a", [1]))
            let count = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<400 {
                    group.addTask {
                        (try? await session.sendResource(source, to: [id], resumeKey: Stage.resumeKey)) != nil
                    }
                }
                var count = 0
                for await isOffered in group where isOffered { count += 1 }
                return count
            }
            // The first is sent, and is not answered.
            #expect(count == 257)
        }
    }

    @Test("A8: either side can cancel a resource, and both are told", arguments: LinkKind.allCases) func cancels(
        _ linkKind: LinkKind
    )
        async throws
    {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 2_000_000))
            for isSender in [true, false] {
                let id = network.id(1)
                let sent = try await sessions[0].sendResource(InMemorySource(content), to: [id], resumeKey: Stage.resumeKey)[id]
                let invitation = try #require(await sessions[1].resources.first { _ in true })
                let sink = InMemorySink(holdsAfter: 1)
                let received = invitation.accept(into: sink)
                for await _ in sink.held { break }
                isSender ? sent?.cancel() : received.cancel()
                sink.release()
                #expect(await sent?.result.outcome == .cancelled(by: isSender ? .local : .remote))
                #expect(await received.result.outcome == .cancelled(by: isSender ? .remote : .local))
            }
        }
    }

    @Test(
        "S8: a slow reader of one stream blocks only its own writer, and no other stream or message",
        arguments: LinkKind.allCases)
    func slowReader(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let slow = try await sessions[0].openStream(named: "slow", to: network.id(1))
            try await withThrowingTaskGroup(of: Void.self) { group in
                // Far more than all windows and buffers together, so that it cannot end before it is read.
                group.addTask {
                    for _ in 0..<64 { try await slow.write([UInt8](repeating: 1, count: 256 << 10)) }
                    slow.finish()
                }
                let slowThere = try #require(await sessions[1].streams.first { _ in true })
                let fast = try await sessions[0].openStream(named: "fast", to: network.id(1))
                group.addTask {
                    for _ in 0..<16 { try await fast.write([UInt8](repeating: 2, count: 256 << 10)) }
                    fast.finish()
                }
                let fastThere = try #require(await sessions[1].streams.first { _ in true })
                var count = 0
                for try await bytes in fastThere { count += bytes.count }
                #expect(count == 4 << 20)
                try await sessions[0].send(SessionMessage(bytes: [1]))
                #expect(await sessions[1].messages.first { _ in true }?.message.bytes == [1])
                count = 0
                for try await bytes in slowThere { count += bytes.count }
                #expect(count == 16 << 20)
                try await group.waitForAll()
            }
        }
    }

    @Test func `an address without a host is rejected for that reason`() {
        let error = #expect(throws: LinkError.self) {
            _ = try TCPTransport().connect(to: LinkAddress(host: "", port: 1), timeout: .seconds(1))
        }
        #expect(error?.description.contains("the address has no host") == true)
    }

    @Test("two members with the same name are distinct", arguments: LinkKind.allCases) func oneName(_ linkKind: LinkKind)
        async throws
    {
        try await TestNetwork.withSession(of: 3, linkKind) {
            $1.name = DisplayName(truncating: "twin")!
        } _: { network, sessions in
            #expect(Set(sessions[0].members.map(\.name.claimed)) == ["twin"])
            try await sessions[0].send(SessionMessage(bytes: [1]), to: [network.id(1)])
            try await sessions[0].send(SessionMessage(bytes: [2]), to: [network.id(2)])
            for number in 1...2 {
                #expect(await sessions[number].messages.first { _ in true }?.message.bytes == [UInt8(number)])
            }
        }
    }

    @Test("the relay leaves: the others report the loss of each other", arguments: LinkKind.allCases) func relayLeaves(
        _ linkKind: LinkKind
    )
        async throws
    {
        try await TestNetwork.withSession(of: 3, linkKind, apart: [(1, 2)]) { network, sessions in
            await sessions[0].leave()
            for (one, other) in [(1, 2), (2, 1)] {
                try await sessions[one].wait { $0.state(of: network.id(0)) == nil }
                try await sessions[one].wait { $0.state(of: network.id(other))?.isConnected != true }
                await #expect(throws: SessionError.notConnected(network.id(other))) {
                    try await sessions[one].openStream(named: "x", to: network.id(other))
                }
            }
        }
    }

    @Test("invalid parameters throw an error that names them", arguments: LinkKind.allCases) func parameters(
        _ linkKind: LinkKind
    ) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            func refuses(_ body: () async throws -> Void) async {
                do {
                    try await body()
                    Issue.record("it was taken")
                } catch SessionError.invalidParameter {
                } catch {
                    Issue.record("\(error)")
                }
            }
            let session = sessions[0]
            let other = network.id(1)
            await refuses { try await session.send(SessionMessage(bytes: [UInt8](repeating: 0, count: (1 << 20) + 1))) }
            await refuses { try await session.send(SessionMessage(bytes: []), to: []) }
            await refuses { _ = try await session.openStream(named: String(repeating: "x", count: 256), to: other) }
            await refuses {
                _ = try await session.invite(network.destination(1, 1), context: [UInt8](repeating: 0, count: 1025))
            }
            await refuses { _ = try await session.invite(network.destination(1, 1), timeout: .seconds(601)) }
            let source = InMemorySource(MemoryContent(file: "a", [1]))
            await refuses { _ = try await session.sendResource(source, to: [], resumeKey: Stage.resumeKey) }
            await refuses { _ = try await session.sendResource(source, to: [other, other], resumeKey: Stage.resumeKey) }
            await refuses { _ = try await session.sendResource(source, to: [other], resumeKey: [1]) }
        }
    }
}
