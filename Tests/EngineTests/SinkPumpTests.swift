import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("storing the content of one transfer") struct SinkPumpTests {
    private static let content = MemoryContent(file: "a", [1, 2, 3])

    private static func makeTransfer(_ clock: ManualClock) -> Transfer {
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .incoming, total: 3, totalEntries: 1)
        return Transfer(progress: progress, clock: clock.read)
    }

    private static func makePump(into sink: InMemorySink, for transfer: Transfer, _ clock: ManualClock) -> SinkPump {
        let offer = TransferOffer(
            id: TransferID(rawValue: 1), timeout: .seconds(60), resumeKey: Stage.resumeKey, context: [], offer: content.offer)
        return SinkPump(of: offer, transfer: transfer, sink: sink, keepsPartial: true, clock: clock.read)
    }

    /// Prepares a transfer into a sink, which then ends.
    /// - Returns: the phase in which the resume point is reported.
    private func phase(into sink: InMemorySink) -> TransferProgress.Phase? {
        let clock = ManualClock()
        let transfer = Self.makeTransfer(clock)
        let pump = Self.makePump(into: sink, for: transfer, clock)
        let reported = Monitor<TransferProgress.Phase?>(nil)
        pump.run(
            SinkPump.Reports(
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

    @Test("content behind a violation does not hold up the reading thread", .timeLimit(.minutes(1)))
    func contentBehindViolation() async throws {
        let clock = ManualClock()
        let transfer = Self.makeTransfer(clock)
        let pump = Self.makePump(into: InMemorySink(), for: transfer, clock)
        let isViolated = Monitor(false)
        async let run: Void = BlockingThread.run {
            pump.run(
                SinkPump.Reports(
                    listFiles: {}, requestDigests: { _ in }, reportPresent: { _, _ in }, resumePoint: { _ in },
                    stored: { _ in }, mayFinish: { false }, finished: { _ in }, failed: { _ in },
                    closeForViolation: { _ in isViolated.update { $0 = true } }))
        }
        try await BlockingThread.run {
            let block = BlockPool(byteCount: 64, kept: 0).acquire()
            _ = block.bytes.initializeMemory(as: UInt8.self, repeating: 0xFF)
            let piece = Piece(block: block, range: 0..<64)
            pump.receive([piece])
            isViolated.wait { $0 ? () : nil }
            // More than wait for a thread that stores.
            for _ in 0..<5_000 { pump.receive([piece]) }
            pump.end(.interrupted)
        }
        try await run
        #expect(transfer.hasEnded)
    }
}
