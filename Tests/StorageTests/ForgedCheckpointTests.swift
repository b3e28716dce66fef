import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("checkpoints that others have made up")
struct ForgedCheckpointTests {
    @Test("R7: counts near the end of 64 bits mean starting again")
    func counts() throws {
        for change in [
            { (checkpoint: inout TransferCheckpoint) in checkpoint.completeBytes = .max },
            { $0.completeEntries = .max },
            { $0.namesByteCount = .max },
            { $0.folders = [TransferCheckpoint.OpenFolder(claimed: [], stored: "x")] },
        ] as [(inout TransferCheckpoint) -> Void] {
            let rig = try InboxRig()
            let source = InMemorySource([.file("x", bytes(5000)), .file("y", bytes(5000), item: 1)])
            do {
                let sink = try rig.sink(source.offer)
                try TransferRig(recordSize: 100, cut: 7000).move(source, to: sink)
                sink.suspend()
            }
            let staged = try #require(try FileDescriptor.openDirectory(path: rig.scratch("state/spool")).names().first)
            for name in [TransferCheckpoint.fileName, TransferCheckpoint.durableFileName] {
                let path = "state/spool/\(staged)/\(name)"
                var checkpoint = try JSONDecoder().decode(TransferCheckpoint.self, from: Data(try rig.scratch.read(path)))
                change(&checkpoint)
                try rig.scratch.write(path, checkpoint.encoded)
            }
            #expect(try rig.sink(source.offer).resumePoint() == .start)
            #expect(try rig.receive(source).count == 2)
        }
    }
}
