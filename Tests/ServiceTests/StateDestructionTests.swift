import Glibc
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService
@testable import NearshareStorage

@Suite("destruction of the identity, after its node") struct StateDestructionTests {
    private let scratch = ScratchFolder()

    @Test("without another node, all state is removed at once") func withoutNode() async throws {
        let state = try StateDirectory(path: scratch("state"))
        _ = try state.identity()
        try await state.destroy(after: nil)
        #expect(try !state.hasIdentity && state.isEmpty)
    }

    @Test("nothing is removed while the node runs, which the user learns to end") func runningNode() async throws {
        let state = try StateDirectory(path: scratch("state"))
        let identity = try state.identity()
        // This process stands for the node.
        let node = try #require(ProcessHandle(getpid()))
        let failure = await #expect(throws: CommandFailure.self) { try await state.destroy(after: node, timeout: .zero) }
        #expect(failure?.message.contains("end it with `kill -9 \(getpid())`") == true)
        #expect(try state.identity().fingerprint == identity.fingerprint)
    }
}
