import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("the locked folder of an incoming transfer")
struct StagedTransferTests {
    private let scratch = ScratchFolder()

    @Test("Q7: many small files of an earlier attempt are set aside, and removed when the transfer has ended")
    func setAside() throws {
        let rig = try InboxRig(scratch: scratch)
        for number in 0..<400 { try scratch.write("t/f\(number)", bytes(50)) }
        let source = try FileSource(paths: [scratch("t")])
        let sink = try rig.sink(source.offer)
        try TransferRig(cut: 14_000).move(source, to: sink)
        sink.suspend()
        func spooled(_ prefix: String) throws -> [String] {
            try FileDescriptor.openDirectory(path: scratch("state/spool")).names().filter { $0.hasPrefix(prefix) }
        }
        #expect(try spooled("t-").count == 1 && spooled("c-").isEmpty)
        // Another offer, which nothing of the earlier one is used for.
        try scratch.write("t/more", bytes(60))
        let other = try FileSource(paths: [scratch("t")])
        let second = try rig.sink(other.offer)
        #expect(try TransferRig().move(other, to: second).delivered?.first?.isInInbox == true)
        #expect(try spooled("t-").isEmpty && spooled("c-").count == 1)
        #expect(scratch.tree("inbox/t").count == 401)
        second.removeDiscarded()
        #expect(try spooled("").isEmpty)
    }

    @Test("a folder that is removed during the transfer is a failure of the receiver, not of what was sent")
    func removedDuringTransfer() throws {
        let rig = try InboxRig(scratch: scratch)
        let source = InMemorySource([.file("a", bytes(1 << 20), item: 0)])
        let sink = try rig.sink(source.offer)
        try sink.resume(at: try sink.resumePoint())
        let entry = try #require(source.entries.first)
        try sink.begin(entry.header, at: 0, entriesDigest: [UInt8](repeating: 1, count: 32))
        try entry.content.withUnsafeBytes { try sink.write($0) }
        try FileDescriptor.openDirectory(path: scratch("state")).removeTree("spool")
        let failure = #expect(throws: StorageError.self) {
            try sink.endEntry()
            _ = try sink.finish()
        }
        #expect(failure?.code == .failed || failure?.code == .notFound)
    }

    @Test("while one writer removes the folder, another never works in what is being removed")
    func removedMeanwhile() throws {
        let path = scratch("spool")
        let failures = Monitor<[String]>([])
        let workers = (0..<2).map { _ in
            Worker {
                do {
                    let area = try StagingArea(path: path)
                    for _ in 0..<500 {
                        let staged = try area.open(sender: anna, resumeKey: someKey)
                        try staged.replace("note", with: [1], durably: false)
                        if !staged.directory.exists("note") || !area.directory.exists(staged.name) {
                            failures.update { $0.append("removed while it was locked") }
                        }
                        staged.remove()
                    }
                } catch {
                    failures.update { $0.append("\(error)") }
                }
            }
        }
        for worker in workers { worker.wait() }
        #expect(failures.withLock { $0 }.isEmpty)
    }
}
