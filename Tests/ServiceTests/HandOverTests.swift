import Nearshare
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("the requests of a node that hands its role over", .timeLimit(.minutes(1)), .leavesNothing)
struct HandOverTests {
    @Test("no request is admitted once the hand-over is requested, before the node begins to leave")
    func gate() async throws {
        let gate = RequestGate()
        try await gate.perform { gate.requestHandOver() }
        #expect(gate.isClosed)
        gate.end()
        let failure = await #expect(throws: ControlFailure.self) {
            try await gate.perform { Issue.record("the request was admitted") }
        }
        #expect(failure?.kind == .gone)
        var requests = gate.handOverRequests.makeAsyncIterator()
        #expect(await requests.next() != nil)
    }

    @Test("a request that runs is waited for")
    func draining() async throws {
        let gate = RequestGate()
        let (hasStarted, mayEnd) = (Promise<Void>(), Promise<Void>())
        let hasEnded = Monitor(false)
        async let request: Void = gate.perform {
            hasStarted.fulfil()
            _ = await mayEnd.value
            hasEnded.withLock { $0 = true }
        }
        _ = await hasStarted.value
        gate.requestHandOver()
        mayEnd.fulfil()
        await gate.drain(timeout: .seconds(30))
        #expect(hasEnded.withLock { $0 })
        try await request
    }

    @Test("a file that is being started keeps the role at the node, and no file starts once the role is given away")
    func files() async throws {
        let transfers = FileTransferFollower(ContactDirectory(try ServiceStage().user("anna").machine))
        try await transfers.performStart { #expect(!transfers.closeIfIdle()) }
        // A start that fails leaves nothing behind.
        await #expect(throws: CancellationError.self) {
            try await transfers.performStart { throw CancellationError() }
        }
        #expect(transfers.closeIfIdle())
        let failure = await #expect(throws: ControlFailure.self) {
            try await transfers.performStart { Issue.record("a file was started") }
        }
        #expect(failure?.kind == .gone)
    }
}
