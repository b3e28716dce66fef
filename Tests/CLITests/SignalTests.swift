import Glibc
import Testing

@testable import NearshareCLI

@Suite struct SignalTests {
    @Test("every signal is heard, by all who listen for it, whichever thread the kernel gives it to")
    func heard() async {
        let (one, other) = (Signals.stream([SIGUSR2]), Signals.stream([SIGUSR2, SIGWINCH]))
        var first = one.makeAsyncIterator()
        var second = other.makeAsyncIterator()
        for _ in 0..<200 {
            kill(getpid(), SIGUSR2)
            let heard = (await first.next(), await second.next())
            #expect(heard == (SIGUSR2, SIGUSR2))
        }
        kill(getpid(), SIGWINCH)
        let heard = await second.next()
        #expect(heard == SIGWINCH)
    }
}
