import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("checkpoints of an incoming transfer")
struct CheckpointWriterTests {
    private let scratch = ScratchFolder()
    private let clock = ManualClock()

    private func writer() throws -> (CheckpointWriter, StagedTransfer) {
        let staged = try StagingArea(path: scratch("spool")).open(sender: anna, resumeKey: someKey)
        return (CheckpointWriter(of: staged, clock: clock.read), staged)
    }

    private static func checkpoint(entries: UInt64) -> TransferCheckpoint {
        TransferCheckpoint(completeEntries: entries, entriesDigest: Array(repeating: 7, count: 32))
    }

    private func read(_ staged: StagedTransfer, bootID: String = TransferCheckpoint.currentBootID) -> TransferCheckpoint? {
        TransferCheckpoint.read(in: staged.directory, bootID: bootID)
    }

    @Test("one is due after 2 s, and is valid until the machine restarts")
    func ordinary() throws {
        var (writer, staged) = try writer()
        #expect(!writer.isDue)
        clock.advance(by: .seconds(2))
        #expect(writer.isDue)
        try writer.write(Self.checkpoint(entries: 1))
        #expect(!writer.isDue)
        #expect(read(staged)?.completeEntries == 1)
        #expect(read(staged, bootID: "another") == nil)
    }

    @Test("after 30 s one is also written that survives a restart")
    func durable() throws {
        var (writer, staged) = try writer()
        clock.advance(by: .seconds(30))
        try writer.write(Self.checkpoint(entries: 1))
        clock.advance(by: .seconds(2))
        try writer.write(Self.checkpoint(entries: 2))
        #expect(read(staged)?.completeEntries == 2)
        #expect(read(staged, bootID: "another")?.completeEntries == 1)
    }

    @Test("a durable one waits until an entry is complete")
    func nothingComplete() throws {
        var (writer, staged) = try writer()
        clock.advance(by: .seconds(30))
        try writer.write(TransferCheckpoint())
        #expect(!staged.directory.exists(TransferCheckpoint.durableFileName))
        try writer.write(Self.checkpoint(entries: 1))
        #expect(staged.directory.exists(TransferCheckpoint.durableFileName))
    }
}
