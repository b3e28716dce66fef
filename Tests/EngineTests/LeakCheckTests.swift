import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTesting
import Testing

@Suite("the check for leaks", .timeLimit(.minutes(1))) struct LeakCheckTests {
    @Test("links and listeners that are still held are named, and nothing once they are released") func names() async throws {
        let resources = StoryResources()
        try await resources.counting {
            let transport = StoryResources.counted(LinkKind.memory.transport)
            let listener = try transport.listen(port: 0, interface: nil)
            let link = try transport.connect(to: .init(host: "127.0.0.1", port: listener.port), timeout: .seconds(1))
            let left = await resources.leftovers(within: .zero)
            #expect(left.count == 2, "\(left)")
            withExtendedLifetime((listener, link)) {}
        }
        #expect(await resources.leftovers(within: .seconds(20)).isEmpty)
    }

    @Test("a process holds no more threads and descriptors after stories over TCP than before") func process() async {
        await #expect(processExitsWith: .success) {
            // The first stories start the threads of the concurrency pool, and open what the process keeps.
            for _ in 0..<2 { try await Self.story() }
            let before = ProcessResources()
            for _ in 0..<3 { try await Self.story() }
            let left = await ProcessResources.leftovers(since: before, within: .seconds(20))
            #expect(left.isEmpty, "\(left)")
        }
    }

    /// A file, and a session of two.
    private static func story() async throws {
        let stage = Stage(.tcp)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            async let answers: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: InMemorySink()).result }
            }()
            try await withNode(stage.sender) { sender in
                _ = sender.joinMesh()
                let outcome = try await sender.withConnection(to: stage.destination(listener.port)) { connection in
                    let content = MemoryContent(file: "a", [UInt8](repeating: 7, count: 300_000))
                    return await connection.send(
                        InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60)
                    ).result.outcome
                }
                #expect(outcome == .completed)
                let session = try sender.startSession(TestNetwork.trusting)
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                _ = try await session.invite(stage.destination(listener.port))
                try await session.send(SessionMessage(bytes: [1]))
                let other = try #require(await joined)
                for await _ in other.messages { break }
                await session.leave()
                await other.leave()
            }
            receiver.beginShutdown()
            await answers
        }
    }
}
