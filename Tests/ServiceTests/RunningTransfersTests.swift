import Nearshare
import Testing

@testable import NearshareService

@Suite struct RunningTransfersTests {
    @Test func `nothing runs at first, and a cancel is remembered`() {
        let running = RunningTransfers()
        #expect(running.current.isEmpty && !running.isCancelled)
        #expect(!running.cancelAll())
        #expect(running.isCancelled)
    }

    @Test func `a wait ends when something is listed`() async {
        let running = RunningTransfers()
        #expect(!running.isActive)
        let waiting = Task { await running.waitForAddition() }
        let peer = RunningTransfers.Reconnecting(label: "anna", since: MonotonicInstant(nanoseconds: 0))
        await running.reconnecting(peer) {
            await waiting.value
            #expect(running.isActive)
        }
        #expect(!running.isActive)
    }

    @Test func `a wait ends when its task is cancelled`() async {
        let running = RunningTransfers()
        let waiting = Task { await running.waitForAddition() }
        waiting.cancel()
        await waiting.value
        #expect(!running.isActive)
    }
}
