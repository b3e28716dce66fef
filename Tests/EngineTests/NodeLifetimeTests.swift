import Logging
import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

/// Nodes that run until they are stopped, rather than for the duration of a scope.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct NodeLifetimeTests {
    @Test("a node runs until stop(), which returns to all its callers when the node has ended", arguments: LinkKind.allCases)
    func stops(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let (first, second) = (Node.start(network.settings(0)), Node.start(network.settings(1)))
        let listener = try second.listen()
        let session = try first.startSession(TestNetwork.trusting)
        async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
        _ = try await session.invite(network.destination(1, listener.port))
        let joined = try #require(await accepted)
        try await session.send(SessionMessage(text: "hello"))
        async let texts = joined.messages.reduce(into: [String?]()) { $0.append($1.message.text) }
        async let invitations = listener.invitations.reduce(into: 0) { count, _ in count += 1 }
        try await session.send(SessionMessage(text: "bye")).delivered
        await withDiscardingTaskGroup { group in
            for node in [first, second, first, second] { group.addTask { await node.stop() } }
        }
        #expect(await texts == ["hello", "bye"])
        #expect(await invitations == 0)
        await first.stop()
    }

    @Test("a reader that is cancelled does not end the invitations of a listener", arguments: LinkKind.allCases)
    func cancelledReader(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let (first, second) = (Node.start(network.settings(0)), Node.start(network.settings(1)))
        let listener = try second.listen()
        let reader = Task { for await _ in listener.sessionInvitations {} }
        reader.cancel()
        await reader.value
        let session = try first.startSession(TestNetwork.trusting)
        async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
        _ = try await session.invite(network.destination(1, listener.port))
        _ = try #require(await accepted)
        for node in [first, second] { await node.stop() }
    }

    @Test("calls after the end are errors, and leave nothing behind", arguments: LinkKind.allCases)
    func callsAfterTheEnd(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let node = Node.start(network.settings(0))
        let session = try node.startSession()
        await node.stop()
        #expect(throws: NodeError.self) { try node.listen() }
        #expect(throws: NodeError.self) { try node.startSession() }
        await #expect(throws: SessionError.left) { try await session.invite(network.destination(1, 1)) }
        await #expect(throws: SessionError.left) { try await session.send(SessionMessage(text: "late")) }
        await #expect(throws: SessionError.left) { try await session.openStream(named: "late", to: network.id(1)) }
        await #expect(throws: NodeError.self) { try await node.find("anna", timeout: .seconds(1)) }
        await #expect(throws: NodeError.self) {
            try await node.withConnection(to: network.destination(1, 1)) { _ in }
        }
        #expect(await session.leave().isEmpty)
        #expect(await session.messages.first { _ in true } == nil)
    }

    @Test("stop() ends what browses, without an error, and what looks for a peer, with one")
    func stopEndsSearches() async throws {
        var settings = TestNetwork(.memory).settings(0)
        settings.discovery = InMemorySegment().join(host: "127.0.0.1")
        let node = Node.start(settings)
        let events = try await node.browse()
        let browsing = Task { try await events.reduce(into: 0) { count, _ in count += 1 } }
        let search = Task { try await node.find("nobody", timeout: .seconds(3_600)) }
        for try await event in try await node.browse() where event == .settled { break }
        await node.stop()
        #expect(try await browsing.value <= 1)
        await #expect(throws: NodeError.self) { try await search.value }
    }

    @Test("a scope ends as well when its node is stopped inside of it")
    func stopsInScope() async throws {
        let network = TestNetwork(.memory)
        let session = try await withNode(network.settings(0)) { node in
            let session = try node.startSession()
            await node.stop()
            return session
        }
        #expect(session.members.isEmpty)
    }

    @Test("a cancelled task waits for the end too; a task of the node does not wait for itself")
    func waits() async throws {
        let node = Node.start(TestNetwork(.memory).settings(0))
        let steps = Monitor<[String]>([])
        node.start {
            // The node awaits this task, so stop() must not wait for the node here.
            await node.stop()
            _ = await node.stopping.value
            steps.update { $0.append("task") }
        }
        _ = await node.stopping.value
        let stop = Task {
            await node.stop()
            steps.update { $0.append("stop") }
        }
        stop.cancel()
        await stop.value
        #expect(steps.withLock { $0 } == ["task", "stop"])
    }

    @Test(
        "stop() ends while a program's closure about a key does not answer, ignores its cancellation, and stops the node itself",
        arguments: [false, true])
    func unansweredClosure(_ asksUser: Bool) async throws {
        let network = TestNetwork(.memory)
        let (first, second) = (Node.start(network.settings(0)), Node.start(network.settings(1)))
        let (asked, stopped) = (Promise<Bool>(), Promise<Bool>())
        let answer = Promise<Bool>()
        let closure: @Sendable (IdentityCheck) async -> Bool = { _ in
            asked.fulfil(true)
            _ = await first.stopping.value
            await first.stop()
            stopped.fulfil(true)
            // Like a continuation that nothing resumes.
            return await answer.eventualValue ?? false
        }
        var settings = SessionSettings()
        settings.trust = asksUser ? .askingAtFirstMeeting(closure) : TrustPolicy(closure)
        let session = try first.startSession(settings)
        let listener = try second.listen()
        async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
        async let invited = session.invite(network.destination(1, listener.port))
        _ = await asked.value
        await first.stop()
        #expect(await stopped.value == true)
        answer.fulfil(true)
        _ = try? await invited
        await second.stop()
        _ = try? await accepted
    }

    @Test("a listener joins the mesh under the service type of nearshare, under another one only when asked")
    func joinsMesh() async throws {
        try await withNode(TestNetwork(.memory).settings(0)) { node in
            func accepts(_ service: ServiceType, _ joinsMesh: Bool?) throws -> Bool {
                let listener = try node.listen(as: service, joinsMesh: joinsMesh)
                defer { node.closePort(of: listener) }
                return listener.record.current.acceptsMeshLinks
            }
            let own = try ServiceType("my-game")
            #expect(try accepts(.nearshare, nil) && !accepts(own, nil))
            #expect(try accepts(own, true) && !accepts(.nearshare, false))
        }
    }

    @Test("a mesh that is joined while the node stops logs no error")
    func joinsMeshTooLate() async {
        let lines = Mutex<[String]>([])
        var settings = TestNetwork(.memory).settings(0)
        settings.log = Logger(label: "test") { _ in RecordingLogHandler { line in lines.withLock { $0.append(line) } } }
        settings.discovery = InMemorySegment().join(host: "10.0.0.1")
        // The shutdown begins before the mesh browses in some of them.
        for _ in 0..<100 {
            let node = Node.start(settings)
            _ = node.startMesh(initiator: .local, invitations: nil)
            node.beginShutdown()
            await node.stop()
        }
        #expect(lines.withLock { $0 }.isEmpty)
    }

    @Test("a node listens once under each service type") func listensOnce() async throws {
        try await withNode(TestNetwork(.memory).settings(0)) { node in
            let first = try node.listen()
            #expect(throws: NodeError.self) { try node.listen() }
            _ = try node.listen(as: try ServiceType("my-game"))
            node.closePort(of: first)
            let second = try node.listen()
            second.stopAdvertising()
            #expect(throws: NodeError.self) { try node.listen(port: 1) }
            let third = try node.listen(port: second.port)
            #expect(third.port == second.port)
            #expect(throws: NodeError.self) { try node.listen() }
        }
    }

    @Test("of two attempts to advertise a listener again, the later one stays, whichever ends first")
    func overlappingAttempts() throws {
        let socket = try TestNetwork(.memory).settings(0).transport.listen(port: 0, interface: nil)
        defer { socket.close() }
        let endpoint = ListenerEndpoint()
        endpoint.open(socket, nil)
        let untimely = endpoint.beginAdvertising(onPort: 0)?.attempt
        #expect(untimely == nil)
        endpoint.stopAdvertising()
        let first = try #require(endpoint.beginAdvertising(onPort: 0)?.attempt)
        endpoint.stopAdvertising()
        let second = try #require(endpoint.beginAdvertising(onPort: 0)?.attempt)
        let outcomes = [first, second].map { endpoint.finishAdvertising(nil, attempt: $0) }
        #expect(outcomes == [false, true])
    }

    @Test("a listener that has stopped advertising is advertised again by the next call, and its reader goes on")
    func advertisesAgain() async throws {
        let network = TestNetwork(.memory)
        let segment = InMemorySegment()
        var (settings, otherSettings) = (network.settings(0), network.settings(1))
        settings.discovery = segment.join(host: "10.0.0.1")
        otherSettings.discovery = segment.join(host: "10.0.0.2")
        try await withNode(settings) { [otherSettings] node in
            try await withNode(otherSettings) { other in
                let service = try ServiceType("my-chat")
                var events = try await other.browse(for: service).makeAsyncIterator()
                let settled = try await events.next()
                let listener = try node.listen(as: service, info: ["round": "1"])
                let found = try await events.next()
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                listener.stopAdvertising()
                let lost = try await events.next()
                try listener.update(info: ["round": "unseen"])
                let again = try node.listen(as: service, info: ["round": "2"])
                let foundAgain = try await events.next()
                #expect(settled == .settled)
                #expect(found?.change?.peer.info == ["round": "1"])
                #expect(lost?.change?.isPresent == false)
                #expect(foundAgain?.change?.peer.info == ["round": "2"])
                #expect(again.port == listener.port)
                try again.update(info: ["round": "3"])
                let updated = try await events.next()
                #expect(updated?.change?.peer.info == ["round": "3"])
                let session = try other.startSession(TestNetwork.trusting)
                let id = try await session.invite(network.destination(0, again.port))
                #expect(id == node.id)
                let joinedSession = try #require(await joined)
                await session.leave()
                await joinedSession.leave()
            }
        }
    }
}

/// Passes the messages of warnings and errors on.
private struct RecordingLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.warning
    private let record: @Sendable (String) -> Void

    init(_ record: @escaping @Sendable (String) -> Void) { self.record = record }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { record("\(event.message)") }
}
