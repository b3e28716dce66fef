import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

/// Public calls with their worst arguments: each returns or throws an error, and none traps.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionWorstArgumentTests {
    private static let durations: [Duration] = [
        .zero, .seconds(-1), .nanoseconds(Int64.min), .seconds(Int64.min), .seconds(Int64.max), .nanoseconds(1),
    ]

    @Test("a member limit or timeout out of its bounds is an error", arguments: [Int.min, -1, 0, 1, 65, .max])
    func limits(limit: Int) async throws {
        let network = TestNetwork(.memory)
        try await withNode(network.settings(0)) { node in
            var settings = SessionSettings()
            settings.memberLimit = limit
            #expect(throws: NodeError.self) { try node.startSession(settings) }
            settings.memberLimit = 8
            for timeout in Self.durations where timeout < .seconds(1) {
                settings.timeout = timeout
                #expect(throws: NodeError.self) { try node.startSession(settings) }
            }
            settings.timeout = .seconds(Int64.max)
            let session = try node.startSession(settings)
            await session.leave(waiting: .seconds(Int64.max))
        }
    }

    @Test("an invitation that is accepted twice, or with settings out of their bounds, is an error")
    func acceptance() async throws {
        let network = TestNetwork(.memory)
        try await withNode(network.settings(0)) { first in
            try await withNode(network.settings(1)) { second in
                let listener = try second.listen()
                let session = try first.startSession(TestNetwork.trusting)
                async let member = session.invite(network.destination(1, listener.port))
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                var wrong = TestNetwork.trusting
                wrong.memberLimit = 65
                #expect(throws: SessionError.self) { try invitation.accept(wrong) }
                let joined = try invitation.accept(TestNetwork.trusting)
                #expect(throws: SessionError.self) { try invitation.accept() }
                invitation.decline()
                _ = try await member
                for waiting in Self.durations where waiting < .seconds(1) { await joined.leave(waiting: waiting) }
            }
        }
    }

    @Test("invitations, messages, streams and offers with the worst arguments", arguments: LinkKind.allCases)
    func calls(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let (session, other) = (sessions[0], network.id(1))
            let stranger = network.id(9)
            for timeout in Self.durations {
                await #expect(throws: SessionError.self) {
                    try await session.invite(PeerDestination(addresses: []), timeout: timeout)
                }
            }
            for host in ["", "\0", "%", "[::]", String(repeating: "x", count: 100_000), "999.999.999.999", "fe80::1%none"] {
                await #expect(throws: SessionError.self) {
                    try await session.invite(
                        PeerDestination(addresses: [LinkAddress(host: host, port: 0)]), secret: [1], timeout: .seconds(1))
                }
            }
            await #expect(throws: SessionError.notConnected(stranger)) {
                try await session.send(SessionMessage(bytes: []), to: [other, stranger])
            }
            await #expect(throws: SessionError.self) {
                try await session.send(SessionMessage(bytes: [UInt8](repeating: 0, count: 1201)), mode: .unreliable)
            }
            await #expect(throws: SessionError.invalidParameter("a receiver is listed twice")) {
                try await session.send(SessionMessage(kind: .structured, bytes: []), to: [other, other])
            }
            await #expect(throws: SessionError.notConnected(stranger)) { try await session.waitUntilConnected(to: stranger) }
            await #expect(throws: SessionError.notConnected(stranger)) {
                try await session.openStream(named: "", to: stranger)
            }
            let stream = try await session.openStream(named: "\0", to: other)
            try await stream.write([])
            try await stream.write([1, 2, 3])
            let incoming = try #require(await sessions[1].streams.first { _ in true })
            for (limit, byte) in zip([Int.min, -1, 0], [1, 2, 3] as [UInt8]) {
                #expect(try await incoming.read(upTo: limit) == [byte])
            }
            stream.finish()
            stream.finish()
            await #expect(throws: (any Error).self) { try await stream.write([1]) }
            let source = InMemorySource(MemoryContent(file: "a", [1]))
            for count in [0, 31, 33] {
                let error = SessionError.invalidParameter("the resume key has \(count) bytes; it must have 32")
                await #expect(throws: error) {
                    try await session.sendResource(source, to: [other], resumeKey: [UInt8](repeating: 0, count: count))
                }
            }
            let own = network.id(0)
            await #expect(throws: SessionError.thisNode) {
                try await session.send(SessionMessage(bytes: []), to: [other, own])
            }
            await #expect(throws: SessionError.thisNode) { try await session.openStream(named: "", to: own) }
            await #expect(throws: SessionError.thisNode) { try await session.waitUntilConnected(to: own) }
            await #expect(throws: SessionError.thisNode) {
                try await session.sendResource(source, to: [own], resumeKey: Stage.resumeKey)
            }
            await #expect(throws: SessionError.self) {
                try await session.sendResource(
                    source, to: [other], resumeKey: Stage.resumeKey, context: [UInt8](repeating: 0, count: 1025))
            }
            for timeout in Self.durations + [.seconds(601)] {
                await #expect(throws: SessionError.invalidParameter("the timeout of an offer must be 1 to 600 seconds")) {
                    try await session.sendResource(source, to: [other], resumeKey: Stage.resumeKey, timeout: timeout)
                }
            }
            let transfer = try await session.sendResource(
                source, to: [other], resumeKey: Stage.resumeKey, timeout: .seconds(600))[other]
            for _ in 0..<2 { transfer?.cancel() }
        }
    }

    @Test("a session that is over has no members, and takes no metadata") func over() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { _, sessions in
            await sessions[0].leave()
            #expect(sessions[0].members.isEmpty)
            #expect(throws: SessionError.left) { try sessions[0].setMetadata("gone") }
        }
    }
}
