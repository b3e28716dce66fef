import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

/// Members that leave during an operation, with a goodbye or without: all others are told, operations with the member end, and
/// the session of the others continues.
@Suite(.timeLimit(.minutes(3)), .leavesNothing) struct SessionDepartureTests {
    enum Going: CaseIterable, Sendable {
        case leaves
        /// All links are cut, without a goodbye.
        case isCutOff
    }

    enum Moment: CaseIterable, Sendable {
        case connected, floodedWithMessages, sendsResource, receivesResource, writesStream, readsStream
    }

    private static let settings: SessionSettings = {
        var settings = TestNetwork.trusting
        settings.timeout = .seconds(4)
        return settings
    }()

    private func go(_ going: Going, _ number: Int, _ network: TestNetwork, _ session: Session) async {
        switch going {
        case .leaves: await session.leave(waiting: .zero)
        case .isCutOff: network.isolate(number)
        }
    }

    /// - Parameter staying: the members that must be told once that `gone` is gone, and still reach each other.
    private func expectGone(
        _ gone: Int, _ going: Going, _ staying: [Int], _ network: TestNetwork, _ sessions: [Session]
    ) async throws {
        let id = network.id(gone)
        for number in staying {
            var last: Session.Change?
            for await change in sessions[number].changes where change.concerns(id) {
                last = change
                if case .left = change { break }
            }
            guard case .left(id, _)? = last else {
                Issue.record("\(String(describing: last))")
                continue
            }
            #expect(sessions[number].state(of: id) == nil)
            await #expect(throws: SessionError.notConnected(id)) {
                try await sessions[number].send(SessionMessage(bytes: []), to: [id])
            }
            await #expect(throws: SessionError.notConnected(id)) { try await sessions[number].waitUntilConnected(to: id) }
        }
        switch going {
        case .leaves: await #expect(throws: SessionError.left) { try await sessions[gone].send(SessionMessage(bytes: [])) }
        case .isCutOff:
            try await sessions[gone].wait { $0.members.isEmpty }
            guard
                case .invalidParameter? = await #expect(
                    throws: SessionError.self, performing: { try await sessions[gone].send(SessionMessage(bytes: [])) })
            else {
                Issue.record("sending to no peer succeeded")
                return
            }
        }
        for (one, other) in zip(staying, staying.dropFirst()) {
            try await sessions[one].send(SessionMessage(bytes: [99]), to: [network.id(other)])
            #expect(await sessions[other].messages.first { $0.sender == network.id(one) }?.message.bytes == [99])
        }
    }

    @Test("A8: a member goes during any operation: all are told, nothing hangs", arguments: Moment.allCases, Going.allCases)
    func goes(_ moment: Moment, _ going: Going) async throws {
        for linkKind in LinkKind.allCases {
            try await TestNetwork.withSession(of: 4, linkKind, settings: Self.settings) { network, sessions in
                let affair = try await Affair(moment, of: 1, with: 2, network, sessions)
                await go(going, 1, network, sessions[1])
                try await affair.expectEnd()
                try await expectGone(1, going, [0, 2, 3], network, sessions)
            }
        }
    }

    @Test(
        "a stream takes no more bytes once its session is left, and a message says that it is left",
        arguments: LinkKind.allCases)
    func writesAfterLeaving(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
            let stream = try await sessions[0].openStream(named: "numbers", to: network.id(1))
            await sessions[0].leave()
            await #expect(throws: StreamError.self) { try await stream.write([1]) }
            await #expect(throws: SessionError.left) { try await sessions[0].send(SessionMessage(bytes: [1]), to: []) }
        }
    }

    @Test("leaving waits for finished streams and running transfers", arguments: LinkKind.allCases, [false, true])
    func leavesAfterStreams(_ linkKind: LinkKind, isRelayed: Bool) async throws {
        try await TestNetwork.withSession(
            of: 3, linkKind, apart: isRelayed ? [(1, 2)] : [], settings: Self.settings
        ) { network, sessions in
            let bytes = [UInt8](repeating: 3, count: 1_500_000)
            let stream = try await sessions[1].openStream(named: "numbers", to: network.id(2))
            let content = MemoryContent(file: "a", bytes)
            let transfer = try #require(
                try await sessions[1].sendResource(
                    InMemorySource(content), to: [network.id(2)], resumeKey: Stage.resumeKey)[network.id(2)])
            let invitation = try #require(await sessions[2].resources.first { _ in true })
            let sink = InMemorySink()
            let receiving = invitation.accept(into: sink)
            async let count: Int = {
                var count = 0
                let incoming = try #require(await sessions[2].streams.first { _ in true })
                for try await more in incoming { count += more.count }
                return count
            }()
            try await stream.write(bytes)
            stream.finish()
            let undelivered = await sessions[1].leave(waiting: .seconds(100))
            #expect(undelivered.isEmpty)
            #expect(try await count == bytes.count)
            #expect(await transfer.result.outcome == .completed)
            #expect(await receiving.result.outcome == .completed)
        }
    }

    @Test(
        "nothing is accepted while a member leaves, and what was handed over before is delivered", arguments: LinkKind.allCases)
    func leavesWhileSending(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
            let (session, receiver) = (sessions[0], network.id(1))
            try await session.send(SessionMessage(text: "before"))
            async let undelivered = session.leave(waiting: .seconds(60))
            var count = 1
            do throws(SessionError) {
                // Until the call has begun.
                while true {
                    try await session.send(SessionMessage(text: "meanwhile"))
                    count += 1
                    try? await Task.sleep(for: .milliseconds(1))
                }
            } catch {
                #expect(error == .left)
            }
            await #expect(throws: SessionError.left) {
                try await session.send(SessionMessage(text: "meanwhile"), to: [receiver], mode: .unreliable)
            }
            await #expect(throws: SessionError.left) { try await session.openStream(named: "meanwhile", to: receiver) }
            await #expect(throws: SessionError.left) {
                try await session.sendResource(
                    InMemorySource(MemoryContent(file: "a", [1])), to: [receiver], resumeKey: Stage.resumeKey)
            }
            await #expect(throws: SessionError.left) { try await session.invite(network.destination(2, 1)) }
            #expect(throws: SessionError.left) { try session.setMetadata("meanwhile") }
            #expect(session.members.map(\.id) == [receiver], "the session was over before")
            var messages = sessions[1].messages.makeAsyncIterator()
            for _ in 0..<count { #expect(await messages.next()?.sender == network.id(0)) }
            #expect(await undelivered.isEmpty)
        }
    }

    @Test("leaving says what was not delivered", arguments: LinkKind.allCases)
    func leavesInHaste(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
            for number in 0..<3 { try await sessions[0].send(SessionMessage(bytes: [UInt8(number)])) }
            let stream = try await sessions[0].openStream(named: "unread", to: network.id(1))
            // The window is full, so the rest stays here.
            try await stream.write([UInt8](repeating: 1, count: 400_000))
            stream.finish()
            let unfinished = try await sessions[0].openStream(named: "unfinished", to: network.id(1))
            try await unfinished.write([UInt8](repeating: 1, count: 400_000))
            let complete = try await sessions[0].openStream(named: "without unsent bytes", to: network.id(1))
            let content = MemoryContent(file: "a", [1])
            _ = try await sessions[0].sendResource(
                InMemorySource(content), to: [network.id(1)], resumeKey: Stage.resumeKey)
            let undelivered = await sessions[0].leave(waiting: .milliseconds(100))
            #expect(undelivered.map(\.member) == [network.id(1)])
            #expect(undelivered.map(\.messages) == [3] && undelivered.map(\.streams) == [2])
            withExtendedLifetime((unfinished, complete)) {}
            #expect(undelivered.map(\.transfers) == [1])
        }
    }

    @Test(
        "what members have finished arrives when they leave together, or when one leaves, also the one between them",
        arguments: LinkKind.allCases, [[1, 2], [1], [0, 1, 2], [0]])
    func leaveTogether(_ linkKind: LinkKind, leaving: [Int]) async throws {
        for (byteCount, isRelayed) in [(350_050, false), (350_050, true), (100, false)] {
            try await TestNetwork.withSession(
                of: 3, linkKind, apart: isRelayed ? [(1, 2)] : [], settings: Self.settings
            ) { network, sessions in
                let bytes = [UInt8](repeating: 3, count: byteCount)
                for (writer, reader) in [(1, 2), (2, 1)] {
                    for _ in 0..<16 {
                        let stream = try await sessions[writer].openStream(named: "numbers", to: network.id(reader))
                        try await stream.write(bytes)
                        stream.finish()
                    }
                }
                let counts = try await withThrowingTaskGroup(of: [Int].self) { group in
                    for number in leaving {
                        group.addTask {
                            #expect(await sessions[number].leave(waiting: .seconds(60)) == [])
                            return []
                        }
                    }
                    for number in [1, 2] { group.addTask { try await Self.readStreams(of: sessions[number], count: 16) } }
                    return try await group.reduce(into: [Int]()) { $0 += $1 }
                }
                #expect(counts == [Int](repeating: byteCount, count: 32))
            }
        }
    }

    enum EarlyEnd: CaseIterable, Sendable {
        case secondCall, cancelledCall, nodeStops
    }

    @Test(
        "each call that waits says what was not delivered, whatever ends the session", arguments: LinkKind.allCases,
        EarlyEnd.allCases)
    func leavesTwice(_ linkKind: LinkKind, end: EarlyEnd) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { host in
            _ = try host.listen()
            let session = try host.startSession(Self.settings)
            try await withNode(network.settings(1)) { guest in
                let listener = try guest.listen()
                async let invited = session.invite(network.destination(1, listener.port))
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                let joined = try invitation.accept(Self.settings)
                #expect(try await invited == network.id(1))
                // Not read.
                try await session.send(SessionMessage(bytes: [1]))
                async let first = session.leave(waiting: .seconds(100))
                // The call has begun.
                while (try? session.setMetadata("meanwhile")) != nil { await Task.yield() }
                switch end {
                case .secondCall: #expect(await session.leave(waiting: .zero).map(\.messages) == [1])
                case .cancelledCall:
                    let second = Task { await session.leave(waiting: .seconds(100)) }
                    second.cancel()
                    #expect(await second.value.map(\.messages) == [1])
                case .nodeStops: host.beginShutdown()
                }
                #expect(await first.map(\.messages) == [1])
                #expect(await session.leave().isEmpty, "the session was over before the last call")
                withExtendedLifetime(joined) {}
            }
        }
    }

    enum StreamEnd: CaseIterable, Sendable {
        case finish, reset, cut
        /// There is no stream.
        case missing
    }

    @Test(
        "leaving waits for a member that does not answer as long as a stream from it has not ended, and no longer",
        arguments: LinkKind.allCases, StreamEnd.allCases)
    func leavesUnanswered(_ linkKind: LinkKind, end: StreamEnd) async throws {
        let network = TestNetwork(linkKind)
        // Like a member of an earlier version, it skips the announcement.
        let silent = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let link = try await silent.connect(to: listener.port, over: network.settings(9).transport)
            defer { link.close() }
            async let joined = listener.sessionInvitations.first { _ in true }?.accept(Self.settings)
            try await silent.join(link)
            let session = try #require(await joined)
            try await session.waitUntilConnected(to: silent.id)
            let id = StreamID(rawValue: 3)
            var stream: ByteStream?
            if end != .missing {
                link.say(StreamFrame.open(id, .bytes, StreamName("numbers")!).encoded)
                link.say(StreamFrame.data(id, [1, 2, 3]).encoded)
                stream = await session.streams.first { _ in true }
                try #require(stream != nil)
            }
            let start = SystemClock.monotonic()
            async let undelivered = session.leave(waiting: .seconds(100))
            try await link.wait { frame in
                if case .leaving(_, isDone: false)? = try? SessionFrame(decoding: frame[...]) { true } else { false }
            }
            if end != .missing {
                // Longer than the time in which all members are waited for.
                let isOver = await withTimeout(.milliseconds(1_500)) { await session.ended != nil }
                #expect(isOver == nil, "the session was over before the stream")
            }
            switch end {
            case .finish: link.say(StreamFrame.finish(id).encoded)
            case .reset: link.say(StreamFrame.reset(id, .cancelled).encoded)
            case .cut: stream?.cut()
            case .missing: break
            }
            #expect(await undelivered.isEmpty)
            #expect(SystemClock.monotonic() - start < .seconds(50))
            withExtendedLifetime(stream) {}
        }
    }

    @Test(
        "leaving counts a finished stream whose bytes a member does not confirm, and waits for that no longer than its time",
        arguments: LinkKind.allCases, [true, false])
    func leavesUnconfirmed(_ linkKind: LinkKind, isConfirmed: Bool) async throws {
        let network = TestNetwork(linkKind)
        let member = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let link = try await member.connect(to: listener.port, over: network.settings(9).transport)
            defer { link.close() }
            async let joined = listener.sessionInvitations.first { _ in true }?.accept(Self.settings)
            try await member.join(link)
            let session = try #require(await joined)
            try await session.waitUntilConnected(to: member.id)
            if !isConfirmed { link.ignorePings() }
            do {
                let stream = try await session.openStream(named: "numbers", to: member.id)
                try await stream.write([1, 2, 3])
                stream.finish()
            }
            try await link.wait { if case .finish? = try? StreamFrame(decoding: $0[...]) { true } else { false } }
            let start = SystemClock.monotonic()
            let undelivered = await session.leave(waiting: isConfirmed ? .seconds(100) : .milliseconds(200))
            #expect(undelivered.map(\.streams) == (isConfirmed ? [] : [1]))
            #expect(SystemClock.monotonic() - start < .seconds(50))
        }
    }

    @Test(
        "leaving counts a finished stream that was cut on its way, on a direct link and through another member",
        arguments: LinkKind.allCases, [false, true])
    func countsCutStream(_ linkKind: LinkKind, isRelayed: Bool) async throws {
        try await TestNetwork.withSession(
            of: 3, linkKind, apart: isRelayed ? [(1, 2)] : [], settings: Self.settings
        ) { network, sessions in
            let id = network.id(2)
            let stream = try await sessions[1].openStream(named: "numbers", to: id)
            network.isolate(2)
            // The end may be known already.
            let isWritten = (try? await stream.write([1])) != nil
            stream.finish()
            try await sessions[1].wait { $0.state(of: id)?.isConnected != true }
            let undelivered = await sessions[1].leave(waiting: .zero)
            #expect(undelivered.map(\.streams) == (isWritten ? [1] : []))
        }
    }

    /// Reads streams to their ends.
    /// - Returns: the number of bytes of each.
    private static func readStreams(of session: Session, count: Int) async throws -> [Int] {
        try await withThrowingTaskGroup(of: Int.self) { group in
            for await stream in session.streams.prefix(count) {
                group.addTask {
                    var byteCount = 0
                    for try await bytes in stream { byteCount += bytes.count }
                    return byteCount
                }
            }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
    }

    @Test(
        "leaving counts what a member did not get that has gone before, also before it is given up",
        arguments: Going.allCases, [true, false])
    func countsGone(_ going: Going, waitsForDeparture: Bool) async throws {
        for linkKind in LinkKind.allCases {
            try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
                let id = network.id(1)
                for number in 0..<3 { try await sessions[0].send(SessionMessage(bytes: [UInt8(number)])) }
                let stream = try await sessions[0].openStream(named: "unread", to: id)
                // The window is full, so the rest stays here.
                try await stream.write([UInt8](repeating: 1, count: 400_000))
                stream.finish()
                let transfers = try await sessions[0].sendResource(
                    InMemorySource(MemoryContent(file: "a", [1])), to: [id], resumeKey: Stage.resumeKey)
                // Not answered, until the link ends.
                let offer = try #require(await sessions[1].resources.first { _ in true })
                await go(going, 1, network, sessions[1])
                let outcome = await transfers[id]?.result.outcome
                #expect(outcome == (going == .leaves ? .declined(.declined) : .interrupted))
                if waitsForDeparture { try await sessions[0].wait { $0.state(of: id) == nil } }
                let undelivered = await sessions[0].leave(waiting: .milliseconds(100))
                #expect(undelivered.map(\.member) == [id])
                #expect(undelivered.map(\.messages) == [3] && undelivered.map(\.streams) == [1])
                #expect(undelivered.map(\.transfers) == [outcome == .interrupted ? 1 : 0])
                withExtendedLifetime(offer) {}
            }
        }
    }

    @Test(
        "an offer that a program has not answered when it leaves is declined, whichever end leaves first",
        arguments: LinkKind.allCases, [true, false])
    func unansweredOffer(_ linkKind: LinkKind, isReceiverFirst: Bool) async throws {
        for _ in 0..<20 {
            try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
                let id = network.id(1)
                let transfer = try #require(
                    try await sessions[0].sendResource(
                        InMemorySource(MemoryContent(file: "a", [1])), to: [id], resumeKey: Stage.resumeKey)[id])
                let offer = try #require(await sessions[1].resources.first { _ in true })
                let leaving = isReceiverFirst ? nil : Task { await sessions[0].leave(waiting: .seconds(60)) }
                if leaving != nil {
                    // Until the call has begun.
                    while (try? sessions[0].setMetadata(1)) != nil { await Task.yield() }
                }
                await sessions[1].leave()
                #expect(await transfer.result.outcome == .declined(.declined))
                if let leaving { #expect(await leaving.value.isEmpty) }
                #expect(await sessions[0].leave().isEmpty)
                withExtendedLifetime(offer) {}
            }
        }
    }

    @Test("offers that wait for their turn count when their sender leaves", arguments: LinkKind.allCases)
    func waitingOffers(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
            let id = network.id(1)
            var transfers: [Transfer] = []
            for _ in 0..<3 {
                let content = MemoryContent(file: "a", [1])
                let sent = try await sessions[0].sendResource(InMemorySource(content), to: [id], resumeKey: Stage.resumeKey)
                transfers.append(try #require(sent[id]))
            }
            let undelivered = await sessions[0].leave(waiting: .milliseconds(100))
            #expect(undelivered.map(\.transfers) == [3])
            for transfer in transfers { #expect(await transfer.result.outcome == .interrupted) }
        }
    }

    @Test("a member that goes is reported with the number of messages that are lost", arguments: LinkKind.allCases)
    func countsLostMessages(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
            network.isolate(1)
            try await sessions[0].wait { $0.state(of: network.id(1))?.isConnected != true }
            for number in 0..<5 { try await sessions[0].send(SessionMessage(bytes: [UInt8(number)])) }
            let left = await sessions[0].changes.first { if case .left = $0 { true } else { false } }
            #expect(left == .left(network.id(1), lost: 5))
        }
    }

    @Test("A8: the relay goes during a resource and a stream", arguments: LinkKind.allCases, Going.allCases)
    func relayGoes(_ linkKind: LinkKind, _ going: Going) async throws {
        try await TestNetwork.withSession(of: 3, linkKind, apart: [(1, 2)], settings: Self.settings) {
            network, sessions in
            var affairs: [Affair] = []
            for moment in [Moment.sendsResource, .receivesResource, .writesStream, .readsStream] {
                affairs.append(try await Affair(moment, of: 1, with: 2, network, sessions))
            }
            await go(going, 0, network, sessions[0])
            for affair in affairs { try await affair.expectEnd() }
            for (one, other) in [(1, 2), (2, 1)] {
                try await expectGone(0, going, [one], network, sessions)
                // No member is left that could relay between them.
                try await sessions[one].wait { $0.state(of: network.id(other)) == nil }
            }
        }
    }

    @Test("A8: a member goes while another connects to it", arguments: LinkKind.allCases, Going.allCases)
    func goesWhileConnecting(_ linkKind: LinkKind, _ going: Going) async throws {
        try await TestNetwork.withSession(of: 3, linkKind, settings: Self.settings) { network, sessions in
            // The member with the lower id connects.
            let (one, goer) = network.id(1).hex < network.id(2).hex ? (1, 2) : (2, 1)
            network.holdConnecting(one, goer)
            defer { network.letConnect(one, goer) }
            network.breakLinks(one, goer)
            // Meanwhile the two are connected through the third.
            try await sessions[one].waitUnannounced { _ in !network.hasNoPendingConnection(one, goer) }
            await go(going, goer, network, sessions[goer])
            try await expectGone(goer, going, [0, one], network, sessions)
            // The late connection finds no peer, and that changes nothing.
            network.letConnect(one, goer)
            try await sessions[one].waitUnannounced { _ in network.hasNoPendingConnection(one, goer) }
            try await sessions[one].send(SessionMessage(bytes: [98]), to: [network.id(0)])
            #expect(await sessions[0].messages.first { _ in true }?.message.bytes == [98])
            #expect(sessions[one].members.map(\.id) == [network.id(0)])
        }
    }

    @Test("A8: the inviting or the invited member goes before there is an answer", arguments: LinkKind.allCases, Going.allCases)
    func goesWhileInvited(_ linkKind: LinkKind, _ going: Going) async throws {
        for hostGoes in [true, false] {
            try await TestNetwork.withSession(of: 2, linkKind, settings: Self.settings) { network, sessions in
                try await withNode(network.settings(2)) { guest in
                    let listener = try guest.listen()
                    async let outcome = invite(sessions[0], network.destination(2, listener.port))
                    let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                    if hostGoes {
                        await go(going, 0, network, sessions[0])
                    } else {
                        switch going {
                        case .leaves: guest.beginShutdown()
                        case .isCutOff: network.isolate(2)
                        }
                    }
                    // Told at once, not after the timeout.
                    #expect(await invitation.ended != nil)
                    #expect(throws: SessionError.self) { try invitation.accept(Self.settings) }
                    switch await outcome {
                    case .failure(.left) where hostGoes && going == .leaves: break
                    case .failure(.unavailable) where !hostGoes || going == .isCutOff: break
                    case .failure(.declined) where !hostGoes && going == .leaves: break
                    case let other: Issue.record("\(other)")
                    }
                    let (one, other) = hostGoes ? (1, 0) : (0, 1)
                    if hostGoes {
                        try await sessions[1].wait { $0.members.isEmpty }
                    } else {
                        #expect(sessions[one].members.map(\.id) == [network.id(other)])
                    }
                }
            }
        }
    }

    private func invite(_ session: Session, _ guest: PeerDestination) async -> Result<PeerID, SessionError> {
        do throws(SessionError) {
            return .success(try await session.invite(guest))
        } catch {
            return .failure(error)
        }
    }

    @Test(
        "a member restarts before its loss is detected: all are told how many messages are lost", arguments: LinkKind.allCases)
    func beginsAnew(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { host in
            _ = try host.listen()
            let session = try host.startSession(TestNetwork.trusting)
            for life in 0..<2 {
                var settings = network.settings(1)
                settings.name = DisplayName(truncating: "life \(life)")!
                try await withNode(settings) { guest in
                    let listener = try guest.listen()
                    async let invited = session.invite(network.destination(1, listener.port))
                    let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                    let joined = try invitation.accept(TestNetwork.trusting)
                    #expect(try await invited == network.id(1))
                    if life == 1 {
                        var changes: [Session.Change] = []
                        for await change in session.changes {
                            changes.append(change)
                            if case .restarted = change { break }
                        }
                        #expect(changes.last == .restarted(network.id(1), lost: 3))
                        #expect(changes.dropLast().last == .state(network.id(1), .connected(via: nil)))
                        try await session.send(SessionMessage(text: "for the second"))
                        #expect(await joined.messages.first { _ in true }?.message.text == "for the second")
                        return
                    }
                    // Only a member whose epoch is known can be seen to restart.
                    try await joined.send(SessionMessage(text: "the first"))
                    #expect(await session.messages.first { _ in true }?.message.text == "the first")
                    // The peer does not read them.
                    for _ in 0..<3 { try await session.send(SessionMessage(text: "for the first")) }
                    network.isolate(1)
                    try await session.wait { $0.state(of: network.id(1))?.isConnected != true }
                }
                network.bringBack(1)
            }
        }
    }

    @Test(
        "a second program with a member's key takes its place, and the session of the first one ends",
        arguments: LinkKind.allCases)
    func takesPlace(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { host in
            let session = try host.startSession(TestNetwork.trusting)
            @Sendable func join(_ listener: Listener) async throws -> Session {
                async let invited = session.invite(network.destination(1, listener.port))
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                let joined = try invitation.accept(TestNetwork.trusting)
                #expect(try await invited == network.id(1))
                return joined
            }
            try await withNode(network.settings(1)) { one in
                let first = try await join(one.listen())
                // Only a member whose epoch is known can be replaced.
                try await first.send(SessionMessage(text: "first"))
                #expect(await session.messages.first { _ in true }?.message.text == "first")
                try await withNode(network.settings(1)) { two in
                    let second = try await join(two.listen())
                    let end = await first.ended
                    #expect("\(String(describing: end))".contains("another program with this node's key"))
                    try await session.send(SessionMessage(text: "second"))
                    #expect(await second.messages.first { _ in true }?.message.text == "second")
                    try await second.send(SessionMessage(text: "third"))
                    #expect(await session.messages.first { _ in true }?.message.text == "third")
                }
            }
        }
    }
}

/// An operation in progress between two members.
private struct Affair {
    private let expectation: @Sendable () async throws -> Void

    /// Waits until it is in progress and cannot complete by itself.
    init(
        _ moment: SessionDepartureTests.Moment, of goer: Int, with partner: Int, _ network: TestNetwork,
        _ sessions: [Session]
    ) async throws {
        switch moment {
        case .connected: expectation = {}
        case .floodedWithMessages:
            let sender = sessions[partner]
            let id = network.id(goer)
            let sending = Task { () -> SessionError? in
                do throws(SessionError) {
                    // The other side reads none of them.
                    while true { try await sender.send(SessionMessage(bytes: [UInt8](repeating: 1, count: 1000)), to: [id]) }
                } catch {
                    return error
                }
            }
            expectation = { #expect(await sending.value == .notConnected(id)) }
        case .sendsResource:
            expectation = try await Self.resource(from: goer, to: partner, network, sessions)
        case .receivesResource:
            expectation = try await Self.resource(from: partner, to: goer, network, sessions)
        case .writesStream: expectation = try await Self.stream(from: goer, to: partner, network, sessions)
        case .readsStream: expectation = try await Self.stream(from: partner, to: goer, network, sessions)
        }
    }

    /// Both sides know by now that it has ended.
    func expectEnd() async throws { try await expectation() }

    private static func resource(
        from sender: Int, to receiver: Int, _ network: TestNetwork, _ sessions: [Session]
    ) async throws -> @Sendable () async throws -> Void {
        let id = network.id(receiver)
        let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 2_000_000))
        let sent = try #require(
            try await sessions[sender].sendResource(InMemorySource(content), to: [id], resumeKey: Stage.resumeKey)[id])
        let invitation = try #require(await sessions[receiver].resources.first { _ in true })
        let sink = InMemorySink(holdsAfter: 1)
        let received = invitation.accept(into: sink)
        for await _ in sink.held { break }
        return {
            sink.release()
            #expect(await sent.result.outcome == .interrupted)
            #expect(await received.result.outcome == .interrupted)
            #expect(sink.end == .suspended)
        }
    }

    private static func stream(
        from writer: Int, to reader: Int, _ network: TestNetwork, _ sessions: [Session]
    ) async throws -> @Sendable () async throws -> Void {
        let outgoing = try await sessions[writer].openStream(named: "numbers", to: network.id(reader))
        let writing = Task { while true { try await outgoing.write([UInt8](repeating: 1, count: 64 << 10)) } }
        let incoming = try #require(await sessions[reader].streams.first { _ in true })
        #expect(try await incoming.read() != nil)
        // It waits now for a window that the other side does not open.
        return {
            await #expect(throws: StreamError.self) { try await writing.value }
            await #expect(throws: StreamError.self) { while try await incoming.read() != nil {} }
        }
    }
}

extension Session.Change {
    fileprivate func concerns(_ id: PeerID) -> Bool {
        switch self {
        case .joined(let member): member.id == id
        case .state(let member, _), .restarted(let member, _), .left(let member, _), .slow(let member),
            .metadata(let member, _):
            member == id
        }
    }
}
