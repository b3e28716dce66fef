import Glibc
import Nearshare
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareService
@testable import NearshareStorage

@Suite("a folder of which files vanish after it was accepted", .timeLimit(.minutes(1)), .leavesNothing)
struct WithdrawnFilesTests {
    private let stage = ServiceStage()
    private let reporter = EventRecorder()
    private let scratch = ScratchFolder()

    private func write(_ name: String, _ byteCount: Int) throws {
        mkdir(scratch("trip"), 0o700)
        let file = FileDescriptor(owning: open(scratch("trip/\(name)"), O_WRONLY | O_CREAT | O_TRUNC, 0o600))
        try file.write([UInt8](repeating: 7, count: byteCount))
    }

    private func operation(_ user: StageUser) throws -> SendOperation {
        SendOperation(
            machine: user.machine, source: .files(try FileSource(paths: [scratch("trip")])), reporter: reporter,
            timeout: .seconds(60), resumes: false, transport: .network)
    }

    private func send(
        _ ada: StageUser, to bea: StageUser, _ answer: @escaping @Sendable (Invitation) async -> Void
    ) async throws -> CommandFailure? {
        try await bea.listening(answer: answer) { _ in
            let operation = try operation(ada)
            return try await withNode(try ada.settings()) { node in
                await caughtFailure { try await operation.run(to: [.text("bea")], on: node) }
            }
        }
    }

    private func names(_ sink: InMemorySink) -> [String] {
        sink.received.entries.map { $0.header.path.map(\.shown).joined(separator: "/") }
    }

    @Test("a file that is removed after it was accepted is left out and named on both ends, and the sender's exit code is 6")
    func removed() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        for name in ["a", "b", "c"] { try write(name, 1000) }
        let sink = InMemorySink()
        let received = Mutex<TransferResult?>(nil)
        let failure = try await send(ada, to: bea) { invitation in
            unlink(scratch("trip/b"))
            let result = await invitation.accept(into: sink).result
            received.withLock { $0 = result }
        }
        #expect(failure?.status == .partly)
        #expect(failure?.message.contains("1 of 3 files was not stored: b; trip/b was changed, moved or removed") == true)
        let sent = try #require(reporter.sent.first)
        #expect(sent.missing?.listed.map(\.shown) == ["b"] && sent.missing?.offered == 3)
        #expect(sent.outcome == .failed(.sourceChanged, at: .local) && sent.byteCount == 2000)
        let recorded = try TransferLog(of: .sent, in: ada.machine.state).entries().last
        #expect(recorded?.size == 2000 && recorded?.offeredSize == 3000)
        let result = try #require(received.withLock { $0 })
        #expect(result.missing == sent.missing && result.isStored)
        #expect(result.outcome == .failed(.sourceChanged, at: .remote))
        #expect(result.detail == "1 of 3 files was not stored: b")
        #expect(names(sink) == ["trip", "trip/a", "trip/c"] && sink.end == .finished)
    }

    @Test("a file that shrinks while it is sent is left out, and what was received of it is removed")
    func shrunk() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try write("a", 1000)
        // More than the receiver's window.
        try write("b", 12 << 20)
        try write("c", 1000)
        let sink = InMemorySink(holdsAfter: 1 << 20)
        let failure = try await send(ada, to: bea) { invitation in
            let transfer = invitation.accept(into: sink)
            for await _ in sink.held { break }
            truncate(scratch("trip/b"), 8 << 20)
            sink.release()
            _ = await transfer.result
        }
        #expect(failure?.status == .partly)
        #expect(reporter.sent.first?.missing?.listed.map(\.shown) == ["b"])
        #expect(names(sink) == ["trip", "trip/a", "trip/c"] && sink.end == .finished)
    }

    @Test("a folder of which nothing is left is a failure")
    func nothing() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try write("a", 1000)
        let sink = InMemorySink()
        let failure = try await send(ada, to: bea) { invitation in
            unlink(scratch("trip/a"))
            _ = await invitation.accept(into: sink).result
        }
        #expect(failure?.status == .damaged)
        #expect(failure?.message.contains("trip/a was changed, moved or removed") == true)
        #expect(reporter.sent.first?.missing == nil && sink.end == .suspended)
    }
}
