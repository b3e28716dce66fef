import Nearshare
import NearshareDirect
import Testing

@testable import NearshareService

@Suite struct ProgressReportTests {
    @Test func `the end of the content is reported once, and other phases without content are not`() {
        var progress = TransferProgress(id: TransferID(rawValue: 1), direction: .incoming, total: 10, totalEntries: 1)
        func isReported(_ phase: TransferProgress.Phase, _ done: UInt64, after reported: UInt64) -> Bool {
            (progress.phase, progress.done) = (phase, done)
            return progress.isReported(after: reported)
        }
        for phase in [TransferProgress.Phase.finishing, .ended(.completed)] {
            #expect(isReported(phase, 10, after: 4) && !isReported(phase, 10, after: 10))
        }
        #expect(isReported(.moving, 4, after: 4))
        for phase in [TransferProgress.Phase.connecting, .waiting, .comparing, .ended(.interrupted)] {
            #expect(!isReported(phase, 10, after: 4))
        }
    }
}
