import NearshareBase
import NearshareDirect
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("the handle of one transfer") struct TransferTests {
    private let clock = ManualClock()
    private let cuts = CallCounter()

    /// Counts the calls of an action.
    private final class CallCounter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func call() { value.withLock { $0 += 1 } }
    }

    private func incoming() -> Transfer {
        let progress = TransferProgress(
            id: TransferID(rawValue: 1), direction: .incoming, total: 100, totalEntries: 1)
        let transfer = Transfer(progress: progress) { [clock] in clock.now }
        transfer.onCut { [cuts] in cuts.call() }
        return transfer
    }

    @Test func `the link of a transfer is cut only when nothing has moved for the time`() {
        let transfer = incoming()
        clock.advance(by: .milliseconds(900))
        transfer.recordProgress(to: 10, entries: 0)
        clock.advance(by: .milliseconds(900))
        #expect(!transfer.interrupt(ifStalledFor: .seconds(1)))
        #expect(cuts.count == 0)
        clock.advance(by: .milliseconds(100))
        #expect(transfer.interrupt(ifStalledFor: .seconds(1)))
        #expect(cuts.count == 1)
    }

    @Test func `after the end of a transfer there is no link to cut`() async {
        let transfer = incoming()
        transfer.end(TransferResult(outcome: .interrupted))
        clock.advance(by: .seconds(10))
        #expect(!transfer.interrupt(ifStalledFor: .seconds(1)))
        transfer.onCut { [cuts] in cuts.call() }
        #expect(!transfer.interrupt(ifStalledFor: .seconds(1)))
        #expect(cuts.count == 0)
        #expect(await transfer.result.outcome == .interrupted)
    }

    @Test func `the time before the first content is no stall`() {
        let beginnings: [(Transfer) -> Void] = [{ $0.enter(.moving) }, { $0.recordResume(after: 0, entries: 0) }]
        for begin in beginnings {
            let transfer = incoming()
            clock.advance(by: .seconds(60))
            begin(transfer)
            #expect(transfer.timeSinceLastContent == .zero)
        }
    }

    @Test func `the action for a cancel is run also when it is set after the cancel`() {
        let transfer = incoming()
        transfer.cancel()
        let cancels = CallCounter()
        transfer.onCancel { cancels.call() }
        #expect(cancels.count == 1)
    }

    @Test func `the progress of a transfer ends with the transfer`() async {
        let transfer = incoming()
        let progress = transfer.progress
        transfer.end(TransferResult(outcome: .completed))
        var phases: [TransferProgress.Phase] = []
        for await value in progress { phases.append(value.phase) }
        #expect(phases == [.ended(.completed)])
    }
}
