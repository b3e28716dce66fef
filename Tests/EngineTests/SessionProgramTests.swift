import Glibc
import Nearshare
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

/// Common uses of a session in a program.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionProgramTests {
    /// - Parameter body: is given the session of the host, and that of the guest.
    private func withTwo(
        _ network: TestNetwork, _ linkKind: LinkKind, _ settings: SessionSettings = TestNetwork.trusting,
        _ body: @escaping @Sendable (Session, Session) async throws -> Void
    ) async throws {
        try await withNode(network.settings(0)) { first in
            try await withNode(network.settings(1)) { second in
                let listener = try second.listen()
                let session = try first.startSession(settings)
                async let invited = session.invite(network.destination(1, listener.port))
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                let joined = try invitation.accept(settings)
                try await body(session, joined)
                _ = try await invited
            }
        }
    }

    @Test("a member that has just accepted can wait until streams are allowed", arguments: LinkKind.allCases)
    func waitsUntilConnected(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            let other = try #require(joined.members.first)
            try await joined.waitUntilConnected(to: other.id)
            let stream = try await joined.openStream(named: "greeting", to: other.id)
            try await stream.write([1, 2, 3])
            let incoming = try #require(await session.streams.first { _ in true })
            #expect(try await incoming.read() == [1, 2, 3])
            await session.leave()
            await #expect(throws: SessionError.self) { try await session.waitUntilConnected(to: other.id) }
        }
    }

    @Test("an admitted member reconnects after a break without a question", arguments: LinkKind.allCases)
    func asksOnce(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withTwo(network, linkKind, SessionSettings()) { session, joined in
            var questions = session.identityQuestions.makeAsyncIterator()
            try #require(await questions.next()).answer(isSame: true)
            try await joined.waitUntilConnected(to: network.id(0))
            try await session.send(SessionMessage(text: "before"))
            var messages = joined.messages.makeAsyncIterator()
            #expect(await messages.next()?.message.text == "before")
            network.partition(0, 1)
            network.heal(0, 1)
            try await session.send(SessionMessage(text: "after"))
            #expect(await messages.next()?.message.text == "after")
            await session.leave()
            #expect(await questions.next() == nil)
        }
    }

    @Test("a stream opened too early is a local error, never a refusal by the peer", arguments: LinkKind.allCases)
    func opensEarly(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            let other = try #require(joined.members.first).id
            var early: ByteStream?
            do throws(SessionError) {
                early = try await joined.openStream(named: "early", to: other)
            } catch {
                #expect(error == .notConnected(other))
            }
            guard let early else { return }
            try await early.write([1])
            let incoming = try #require(await session.streams.first { _ in true })
            #expect(try await incoming.read() == [1])
        }
    }

    @Test("a sent message is delivered when its receiver's program has read it", arguments: LinkKind.allCases)
    func receipts(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            try await session.waitUntilAllAreConnected(1)
            let first = try await session.send(SessionMessage(text: "first"))
            let second = try await session.send(SessionMessage(text: "second"))
            #expect(first.receivers == session.members.map(\.id))
            var messages = joined.messages.makeAsyncIterator()
            #expect(await messages.next()?.message.text == "first")
            try await first.delivered
            let isRead = Atomic(false)
            async let isDeliveredAfterRead: Bool = {
                try await second.delivered
                return isRead.load(ordering: .acquiring)
            }()
            // The first receipt is asked for again while the second one is waited for.
            try await first.delivered
            isRead.store(true, ordering: .releasing)
            #expect(await messages.next()?.message.text == "second")
            #expect(try await isDeliveredAfterRead)
            // An unreliable message has no receipt.
            try await session.send(SessionMessage(text: "x"), mode: .unreliable).delivered
        }
    }

    @Test("a member tells its neighbours, and what it has not read", arguments: LinkKind.allCases)
    func memberFacts(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind, apart: [(1, 2)]) { network, sessions in
            try await sessions[1].waitUnannounced { session in
                session.members.first { $0.id == network.id(2) }?.neighbours == [network.id(0)]
            }
            for _ in 0..<2 { try await sessions[0].send(SessionMessage(bytes: [1, 2]), to: [network.id(1)]) }
            let last = try await sessions[0].send(SessionMessage(bytes: [1, 2]), to: [network.id(1)])
            let full = try #require(sessions[0].members.first { $0.id == network.id(1) })
            #expect(full.unacknowledgedMessages == 3 && full.unacknowledgedBytes == 3 * (2 + 64))
            try await sessions[0].waitUnannounced { session in session.members.allSatisfy { $0.queuedBytes == 0 } }
            #expect(sessions[0].members.contains { $0.unacknowledgedBytes > 0 })
            var messages = sessions[1].messages.makeAsyncIterator()
            for _ in 0..<3 { _ = await messages.next() }
            try await last.delivered
            #expect(sessions[0].members.allSatisfy { $0.unacknowledgedMessages == 0 && $0.unacknowledgedBytes == 0 })
        }
    }

    @Test("a message that its receiver has not read when it leaves is not delivered", arguments: LinkKind.allCases)
    func lostReceipts(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            try await session.waitUntilAllAreConnected(1)
            let read = try await session.send(SessionMessage(text: "read"))
            let unread = try await session.send(SessionMessage(text: "unread"))
            #expect(await joined.messages.first { _ in true }?.message.text == "read")
            try await read.delivered
            let member = try #require(session.members.first).id
            await joined.leave(waiting: .zero)
            await #expect(throws: SessionError.notDelivered(to: [member])) { try await unread.delivered }
            // The message that was read before stays delivered.
            try await read.delivered
        }
    }

    @Test("a receipt keeps its outcome when the session is over", arguments: LinkKind.allCases)
    func keptReceipts(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            try await session.waitUntilAllAreConnected(1)
            let read = try await session.send(SessionMessage(text: "read"))
            let last = try await session.send(SessionMessage(text: "read as well"))
            for text in ["read", "read as well"] {
                #expect(await joined.messages.first { _ in true }?.message.text == text)
            }
            try await read.delivered
            let undelivered = await session.leave()
            #expect(undelivered.isEmpty)
            try await read.delivered
            // Its outcome was known, though the program had not asked for it.
            try await last.delivered
        }
        try await withTwo(TestNetwork(linkKind), linkKind) { session, _ in
            try await session.waitUntilAllAreConnected(1)
            let unread = try await session.send(SessionMessage(text: "unread"))
            await session.leave(waiting: .zero)
            await #expect(throws: SessionError.left) { try await unread.delivered }
        }
    }

    struct Reading: Codable, Equatable {
        var celsius: Double
        var raw: [UInt8]
    }

    @Test("structured messages arrive as sent, texts as texts", arguments: LinkKind.allCases)
    func structuredMessages(_ linkKind: LinkKind) async throws {
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            let reading = Reading(celsius: 21.5, raw: [0, 255])
            try await joined.send(SessionMessage(encoding: reading))
            try await joined.send(SessionMessage(["greeting": "hello", "to": ["anna", "ben"]]))
            try await joined.send(SessionMessage(text: "good bye"))
            try await joined.send(SessionMessage(kind: .structured, bytes: [0xff]))
            var messages = session.messages.makeAsyncIterator()
            #expect(try await messages.next()?.message.decode(Reading.self) == reading)
            #expect(try await messages.next()?.message.structured?["to"]?[1] == "ben")
            let text = try #require(await messages.next()?.message)
            #expect(text.text == "good bye")
            #expect(try text.structured == nil)
            #expect(throws: DecodingError.self) { try text.decode(Reading.self) }
            // Malformed: delivered, and reported when it is read.
            let wrong = try #require(await messages.next()?.message)
            #expect(throws: MalformedInput.self) { try wrong.structured }
            #expect(throws: DecodingError.self) { try wrong.decode(Reading.self) }
        }
    }

    @Test("a file sent by path is stored in the inbox under the sender's name for it", arguments: LinkKind.allCases)
    func filesByPath(_ linkKind: LinkKind) async throws {
        let scratch = ScratchFolder()
        let inbox = try Inbox(path: scratch("inbox"), spoolPath: scratch("spool"))
        let file = try #require(fopen(scratch("notes.txt"), "w"))
        fputs("hello", file)
        fclose(file)
        try await withTwo(TestNetwork(linkKind), linkKind) { session, joined in
            let other = try #require(joined.members.first?.id)
            try await joined.waitUntilConnected(to: other)
            await #expect(throws: StorageError.self) { try await joined.sendResource(at: scratch("missing"), to: [other]) }
            for name in ["", ".", "..", "a/b", "a\0", String(repeating: "x", count: 256)] {
                await #expect(throws: StorageError.self, "\(name)") {
                    try await joined.sendResource(at: scratch("notes.txt"), named: name, to: [other])
                }
            }
            let transfers = try await joined.sendResource(
                at: scratch("notes.txt"), named: "agenda.txt", to: [other])
            let invitation = try #require(await session.resources.first { _ in true })
            #expect(invitation.offer.items.map(\.name) == [ClaimedFileName("agenda.txt")])
            let result = await (try invitation.accept(into: inbox)).result
            #expect(result.delivered.map(\.path) == ["\(inbox.path)/agenda.txt"])
            #expect(await transfers[other]?.result.outcome == .completed)
        }
    }
}
