import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareMesh
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

/// Texts and files that the router does not accept, or that come too late.
@Suite(.timeLimit(.minutes(1))) struct MeshSenderTests {
    private let settings = Stage(.memory).sender
    private let link = MeshLinkID(rawValue: 1)

    /// The router of a node that knows Bea by an announcement. Nothing is written to the link, so no text is acknowledged.
    private func routerWithBea() throws -> (router: RouterDriver, bea: MeshPeer) {
        let router = RouterDriver(settings)
        let bea = router.update { router, now in
            router.linkUp(link, .stream, now: now)
            var remote = MeshRouter(identity: Stage.bea, name: settings.name, random: SystemRandomNumberGenerator())
            remote.linkUp(link, .stream, now: now)
            while let frame = remote.dequeueFrame(for: link) { router.receive(frame[...], from: link, now: now) }
            return router.peer(remote.id)
        }
        return (router, try #require(bea))
    }

    /// Sends texts one after the other.
    private func send(_ texts: [String], to peer: MeshPeer, through router: RouterDriver) async throws -> [Transfer] {
        try await send(texts.map { InMemorySource(MemoryContent(text: $0)) }, to: peer, through: router)
    }

    private func send(
        _ sources: [any ResourceSource], to peer: MeshPeer, through router: RouterDriver
    ) async throws -> [Transfer] {
        let tasks = OwnedTasks()
        async let end: Void = tasks.run()
        let sender = MeshSender(settings, router: router, tasks: tasks, transfers: TransferProgressManager())
        var transfers: [Transfer] = []
        for source in sources {
            let transfer = try sender.send(source, to: peer, isEncrypted: true, timeout: .seconds(600))
            for await progress in transfer.progress where progress.phase == .waiting { break }
            transfers.append(transfer)
        }
        let open = sender.outgoing.withLock { $0.transfers.map(\.id) }
        #expect(open == transfers.filter { !$0.hasEnded }.map(\.id))
        tasks.finish()
        await end
        return transfers
    }

    @Test func `a text for a peer that has left ends, and leaves nothing behind`() async throws {
        let (_, bea) = try routerWithBea()
        let transfers = try await send(["hello"], to: bea, through: RouterDriver(settings))
        let result = await transfers[0].result
        #expect(result.outcome == .interrupted && result.detail == MeshSendError.unknownPeer.description)
    }

    @Test func `a long text for which the queue of its receiver has no room is not sent at all`() async throws {
        let (router, bea) = try routerWithBea()
        try router.update { router, now in
            for number in 0..<255 { try router.sendPrivateMessage("\(number)", id: "\(number)", to: bea.id, now: now) }
        }
        let long = String(repeating: "x", count: MeshPrivateMessage.maximumTextByteCount + 1)
        let transfers = try await send([long, "short", "late"], to: bea, through: router)
        #expect(transfers.map(\.hasEnded) == [true, false, true])
        for transfer in transfers where transfer.hasEnded {
            let result = await transfer.result
            #expect(result.outcome == .interrupted && result.detail == MeshSendError.queueFull.description)
        }
    }

    @Test func `a text with more parts than may ever wait is too large`() async throws {
        let (router, bea) = try routerWithBea()
        let endless = String(repeating: "x", count: 256 * MeshPrivateMessage.maximumTextByteCount + 1)
        let transfers = try await send([endless], to: bea, through: router)
        let result = await transfers[0].result
        #expect(result.outcome == .failed(.tooLarge, at: .local))
        #expect(result.detail == MeshSendError.textTooLong(limit: 65_280).description)
    }

    @Test func `content that was read, and is not sent, differs from content that could not be read`() async throws {
        let (router, bea) = try routerWithBea()
        let file = InMemorySource.Entry.file("a.txt", [1])
        let sources: [any ResourceSource] = [
            InMemorySource([.file("empty", [])]), InMemorySource(MemoryContent(text: "[FAVORITED]")),
            InMemorySource([file], failure: failure(.changed)), InMemorySource([file], failure: failure(.failed)),
        ]
        let transfers = try await send(sources, to: bea, through: router)
        let failures: [TransferFailure] = [.refused, .refused, .sourceChanged, .sourceUnreadable]
        for (transfer, failure) in zip(transfers, failures) {
            let result = await transfer.result
            #expect(result.outcome == .failed(failure, at: .local), "\(result)")
        }
    }

    private func failure(_ code: StorageError.Code) -> InMemorySource.Failure {
        InMemorySource.Failure(entry: 0, offset: 0, error: StorageError(code, "for a test"))
    }

    @Test(arguments: [MemoryContent(text: "hello"), MemoryContent(file: "a.txt", [1])])
    func `content that was read after the time limit is not sent`(_ content: MemoryContent) async throws {
        let (router, bea) = try routerWithBea()
        let tasks = OwnedTasks()
        async let end: Void = tasks.run()
        let sender = MeshSender(settings, router: router, tasks: tasks, transfers: TransferProgressManager())
        let source = HeldSource(content)
        let transfer = try sender.send(source, to: bea, isEncrypted: true, timeout: .milliseconds(1))
        let result = await transfer.result
        #expect(result.outcome == .expired)
        source.release()
        tasks.finish()
        await end
        let open = sender.outgoing.withLock { $0.transfers.count }
        #expect(open == 0)
    }
}
