import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@Suite("R3: a machine that lets no more threads start", .timeLimit(.minutes(1)), .leavesNothing) struct RefusedThreadsTests {
    private let advice =
        "could not start a thread; end other programs, or raise the limit: TasksMax= of systemd, or `ulimit -u`"

    /// Runs `body` with a node whose threads are counted, and expects all of them to end with it.
    private func withLimitedNode<Result: Sendable>(
        _ settings: NodeSettings, _ threads: ThreadGroup, _ body: @escaping @Sendable (Node) async throws -> Result
    ) async throws -> Result {
        let result = try await ThreadGroup.$current.withValue(threads) { try await withNode(settings) { try await body($0) } }
        await threads.waitUntilEmpty()
        return result
    }

    /// Connects to Bea and offers a file.
    private func send(_ content: MemoryContent, to port: UInt16, _ stage: Stage, _ sender: Node) async throws -> TransferOutcome
    {
        try await sender.withConnection(to: stage.destination(port)) { connection in
            await connection.send(InMemorySource(content), resumeKey: Stage.resumeKey, timeout: .seconds(60)).result.outcome
        }
    }

    private let content = MemoryContent(file: "a", [UInt8](repeating: 7, count: 100_000))

    @Test("a thread beyond the limit is a typed error, and one that ends makes room") func limit() async throws {
        let threads = ThreadGroup(limit: 1)
        try await ThreadGroup.$current.withValue(threads) {
            let count = try await BlockingThread.run { () -> Int in
                #expect(throws: ThreadError.self) { _ = try BlockingThread.start {} }
                return ThreadGroup.current?.count ?? 0
            }
            #expect(count == 1)
            await threads.waitUntilEmpty()
            let isRun = try await BlockingThread.run { true }
            #expect(isRun)
        }
    }

    @Test("listening, connecting and starting a session fail, and say what to do", arguments: LinkKind.allCases)
    func refused(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        try await withNode(stage.receiver) { receiver in
            let listener = try receiver.listen()
            try await withLimitedNode(stage.sender, ThreadGroup(limit: 0)) { node in
                #expect { try node.listen() } throws: { ($0 as? NodeError)?.description == advice }
                #expect { try node.startSession() } throws: { ($0 as? NodeError)?.description == advice }
                await #expect {
                    try await node.withConnection(to: stage.destination(listener.port)) { _ in }
                } throws: {
                    ($0 as? NodeError)?.description == advice
                }
            }
        }
    }

    @Test("incoming links are closed, and accepted again later", arguments: LinkKind.allCases) func incoming(
        _ linkKind: LinkKind
    ) async throws {
        let stage = Stage(linkKind)
        let threads = ThreadGroup()
        let sink = InMemorySink()
        try await withLimitedNode(stage.receiver, threads) { receiver in
            let listener = try receiver.listen(joinsMesh: false)
            async let answer: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: sink).result }
            }()
            try await withNode(stage.sender) { sender in
                threads.setLimit(threads.count)
                for _ in 0..<20 {
                    await #expect(throws: NodeError.self) { try await send(content, to: listener.port, stage, sender) }
                }
                threads.setLimit(.max)
                let outcome = try await send(content, to: listener.port, stage, sender)
                #expect(outcome == .completed)
            }
            receiver.beginShutdown()
            await answer
        }
        #expect(sink.received.entries.map(\.bytes) == content.entries.map(\.bytes))
    }

    @Test("a link and its transfers end, whichever of their threads is refused", arguments: 1...6)
    func anyThread(_ limit: Int) async throws {
        let stage = Stage(.memory)
        let threads = ThreadGroup()
        try await withLimitedNode(stage.receiver, threads) { receiver in
            let listener = try receiver.listen(joinsMesh: false)
            async let answer: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: InMemorySink()).result }
            }()
            // The receiver's threads first, then the sender's.
            threads.setLimit(threads.count + limit)
            try await withNode(stage.sender) { sender in
                _ = try? await send(content, to: listener.port, stage, sender)
            }
            threads.setLimit(.max)
            try await withLimitedNode(stage.sender, ThreadGroup(limit: limit)) { sender in
                _ = try? await send(content, to: listener.port, stage, sender)
            }
            try await withNode(stage.sender) { sender in
                let outcome = try await send(content, to: listener.port, stage, sender)
                #expect(outcome == .completed)
            }
            receiver.beginShutdown()
            await answer
        }
    }

    @Test("a node without a thread for the mesh sends and receives directly", arguments: 1...5)
    func mesh(_ limit: Int) async throws {
        let stage = Stage(.memory)
        let threads = ThreadGroup(limit: limit)
        try await withLimitedNode(stage.receiver, threads) { receiver in
            let mesh = receiver.joinMesh()
            await #expect(throws: NodeError.self) { try await mesh.find("nobody", timeout: .milliseconds(1)) }
            threads.setLimit(.max)
            let listener = try receiver.listen(joinsMesh: true)
            async let answer: Void = {
                for await invitation in listener.invitations { _ = await invitation.accept(into: InMemorySink()).result }
            }()
            try await withNode(stage.sender) { sender in
                let outcome = try await send(content, to: listener.port, stage, sender)
                #expect(outcome == .completed)
            }
            receiver.beginShutdown()
            await answer
        }
    }

    @Test("a session without a thread is over, and its user learns it", arguments: 1...4) func session(_ limit: Int)
        async throws
    {
        let threads = ThreadGroup(limit: limit)
        try await withLimitedNode(Stage(.memory).receiver, threads) { node in
            let session = try node.startSession()
            if limit == 1 { for await _ in session.changes {} }
            await session.leave(waiting: .zero)
        }
    }
}
