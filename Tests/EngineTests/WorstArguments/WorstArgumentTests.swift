import NearshareTestTraits
import Testing

/// Every public call of the library with its worst arguments, used twice, at once and after the end. Nothing that a program does
/// ends its process, and each error has a type of the library.
@Suite(.timeLimit(.minutes(5)), .serialized, .leavesNothing) struct WorstArgumentTests {
    @Test("no public call traps, or fails with an error of an unknown type", arguments: WorstCall.all)
    func calls(_ call: WorstCall) async throws {
        try await call.run()
    }
}

extension WorstCall {
    static let all = values + nodes + offers + sessions + exchange
}
