import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("storing the content of one transfer") struct SinkPumpTests {
    private static let content = MemoryContent(file: "a", [1, 2, 3])

    /// Prepares a transfer into a sink, which then ends.
    /// - Returns: the phase in which the resume point is reported.
    private func phase(into sink: InMemorySink) -> TransferProgress.Phase? {
        let clock = ManualClock()
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .incoming, total: 3, totalEntries: 1)
        let transfer = Transfer(progress: progress, clock: clock.read)
        let pump = SinkPump(
            of: Self.content.offer, contents: [], features: [], wireID: TransferID(rawValue: 1), transfer: transfer, sink: sink,
            keepsPartial: true, clock: clock.read)
        let reported = Monitor<TransferProgress.Phase?>(nil)
        pump.run(
            SinkPump.Link(
                listFiles: {}, requestDigests: { _ in }, reportPresent: { _, _ in },
                resumePoint: { _ in
                    reported.update { $0 = transfer.snapshot.phase }
                    pump.end(.interrupted)
                }, stored: { _ in }, mayFinish: { false }, finished: { _ in }, failed: { _ in }, closeForViolation: { _ in }))
        return reported.withLock { $0 }
    }

    @Test func `a receiver without parts waits for content, and compares nothing`() {
        #expect(phase(into: InMemorySink()) == .moving)
        let kept = MemoryReceiver(kept: Self.content, entries: 0, bytes: 1)
        #expect(phase(into: InMemorySink(kept: kept)) == .comparing)
    }
}
