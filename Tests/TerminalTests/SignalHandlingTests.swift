import Glibc
import Testing

@testable import NearshareTerminal

@Suite("signal handling", .serialized) struct SignalHandlingTests {
    @Test("without a signal the body's result and error pass through")
    func passThrough() async throws {
        struct Failure: Error {}
        #expect(try await SignalHandling.run(onSignal: {}, { 7 }) == 7)
        await #expect(throws: Failure.self) { try await SignalHandling.run(onSignal: {}, { throw Failure() }) }
    }

    @Test("a SIGINT that means something else is none of the terminations")
    func excludedInterrupt() async {
        await SignalHandling.withoutInterrupt {
            var terminations = SignalHandling.terminations().makeAsyncIterator()
            kill(getpid(), SIGINT)
            kill(getpid(), SIGHUP)
            let received = await terminations.next()
            #expect(received == SIGHUP)
        }
    }
}
