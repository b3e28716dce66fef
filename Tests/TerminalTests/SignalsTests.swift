import Glibc
import Testing

@testable import NearshareTerminal

@Suite struct SignalsTests {
    @Test("every signal reaches all subscribers, whichever thread the kernel interrupts")
    func subscribers() async {
        let (one, other) = (Signals.stream([SIGUSR2]), Signals.stream([SIGUSR2, SIGWINCH]))
        var first = one.makeAsyncIterator()
        var second = other.makeAsyncIterator()
        for _ in 0..<200 {
            kill(getpid(), SIGUSR2)
            let received = (await first.next(), await second.next())
            #expect(received == (SIGUSR2, SIGUSR2))
        }
        kill(getpid(), SIGWINCH)
        let received = await second.next()
        #expect(received == SIGWINCH)
    }
}
