import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("quota of an incoming transfer")
struct TransferQuotaTests {
    private func quota(total: UInt64?, entries: UInt64 = 1, _ change: (inout InboxLimits) -> Void = { _ in })
        throws(StorageError)
        -> TransferQuota
    {
        var limits = InboxRig.limits
        change(&limits)
        let quota = try TransferQuota(
            offer: Offer(items: [], itemCount: 1, entryCount: entries, totalSize: total), limits: limits)
        try quota.checkSize()
        return quota
    }

    @Test("R8, R13: offers beyond the limits are refused")
    func offers() throws {
        #expect(throws: StorageError.self) { try quota(total: 11) { $0.maximumSize = 10 } }
        #expect(throws: StorageError.self) { try quota(total: nil, entries: 4) { $0.maximumEntries = 3 } }
        #expect(throws: Never.self) { try quota(total: 10) { ($0.maximumSize, $0.maximumEntries) = (10, 1) } }
        #expect(throws: StorageError.self) { try quota(total: 10, entries: 3) { $0.maximumSize = 8201 } }
        #expect(throws: Never.self) { try quota(total: 10, entries: 3) { $0.maximumSize = 8202 } }
    }

    @Test("R8: the rest of a transfer has to fit beside the reserve")
    func space() throws {
        let quota = try quota(total: 100) { $0.reserve = 50 }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: 4246) }
        #expect(throws: StorageError.self) { try quota.checkSpace(beyond: 0, free: 4245) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 1, free: 4245) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: .max, free: 0) }
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: nil) }
        #expect(throws: Never.self) { try self.quota(total: nil).checkSpace(beyond: 0, free: 4096) }
    }

    @Test("R7, R8: a limit holds while writing, also for counts near the end of 64 bits")
    func writing() throws {
        var quota = try quota(total: nil) { $0.maximumSize = 1000 }
        #expect(throws: Never.self) { try quota.checkWrite(of: 400, received: 600) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 401, received: 600) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 2, received: .max) { nil } }
    }

    @Test("R8: files that are present do not count, unless they are sent all the same")
    func presentFiles() throws {
        var limits = InboxRig.limits
        limits.maximumSize = 5000
        var quota = try TransferQuota(
            offer: Offer(items: [], itemCount: 1, entryCount: 2, totalSize: 9000), limits: limits)
        #expect(throws: StorageError.self) { try quota.checkSize() }
        quota.recordPresent((1, 8000))
        #expect(throws: Never.self) { try quota.checkSize() }
        #expect(quota.storedByteCount == 1000 + Offer.entryByteCount)
        #expect(throws: Never.self) { try quota.checkSpace(beyond: 0, free: 5096) }
        #expect(throws: StorageError.self) { try quota.checkSpace(beyond: 0, free: 5095) }
        #expect(throws: Never.self) { try quota.checkWrite(of: 1000, received: 0) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 1001, received: 0) { nil } }
        quota.recordUnsent(8000)
        #expect(throws: Never.self) { try quota.checkWrite(of: 1000, received: 8000) { nil } }
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 1001, received: 8000) { nil } }
    }

    @Test("the free space is read only now and then")
    func interval() throws {
        var quota = try quota(total: nil) { $0.reserve = 10 }
        var reads = 0
        for _ in 0..<127 {
            try quota.checkWrite(of: 1 << 20, received: 0) {
                reads += 1
                return 10
            }
        }
        #expect(reads == 1)
        #expect(throws: StorageError.self) { try quota.checkWrite(of: 1 << 20, received: 0) { 9 } }
    }
}

@Suite("times of checkpoints")
struct CheckpointScheduleTests {
    @Test("a checkpoint is due after 2 s, a durable one after 30 s")
    func intervals() {
        let clock = TestClock()
        var schedule = CheckpointSchedule(clock: clock.read)
        #expect(!schedule.isCheckpointDue)
        clock.advance(by: .seconds(2))
        #expect(schedule.isCheckpointDue && !schedule.isDurableCheckpointDue)
        schedule.recordCheckpoint()
        #expect(!schedule.isCheckpointDue)
        clock.advance(by: .seconds(28))
        #expect(schedule.isDurableCheckpointDue)
        schedule.recordDurableCheckpoint()
        #expect(!schedule.isDurableCheckpointDue)
    }
}

@Suite("folders of an incoming transfer")
struct StagedTreeTests {
    private let scratch = ScratchFolder()

    private func tree() throws -> StagedTree {
        let area = try StagingArea(path: scratch("spool"))
        return StagedTree(try area.open(sender: anna, resumeKey: someKey), limits: InboxLimits())
    }

    private func entry(_ path: [String], item: UInt32 = 0) throws -> EntryHeader {
        EntryHeader(
            item: item, kind: .folder, path: try path.map { try #require(ClaimedFileName($0)) }, size: 0,
            modified: 5_000_000_000,
            permissions: 0o777)
    }

    /// Creates a folder and returns its stored name.
    private func createFolder(_ path: [String], item: UInt32 = 0, in tree: inout StagedTree) throws -> String {
        let entry = try entry(path, item: item)
        _ = try tree.enterItem(item)
        let directory = try tree.enterParent(of: entry.path)
        return try tree.createFolder(entry, named: SafeFileName(try #require(entry.path.last)), in: directory)
    }

    @Test("folders are created inside each other, and completed when they are left")
    func nesting() throws {
        var tree = try tree()
        #expect(try tree.enterItem(0) && !tree.enterItem(0))
        for path in [["t"], ["t", "a"], ["t", "a", "b"]] { _ = try createFolder(path, in: &tree) }
        #expect(tree.folders.map(\.stored) == ["t", "a", "b"])
        let inner = try tree.enterParent(of: try entry(["t", "a", "b", "x"]).path)
        _ = try createFolder(["t", "c"], in: &tree)
        #expect(tree.folders.map(\.stored) == ["t", "c"])
        // P6: no write access for others; the time is set when nothing can change it any more.
        #expect(try inner.status().st_mode & 0o7777 == 0o755 && inner.status().modifiedNanoseconds == 5_000_000_000)
        try tree.completeFolders(downTo: 0)
        #expect(tree.folders.isEmpty)
    }

    @Test("an entry before its folder is refused")
    func order() throws {
        var tree = try tree()
        _ = try createFolder(["t"], in: &tree)
        #expect(throws: StorageError.self) { try createFolder(["t", "missing", "x"], in: &tree) }
        #expect(throws: StorageError.self) { try createFolder(["u", "x"], in: &tree) }
        #expect(throws: StorageError.self) { try tree.enterParent(of: []) }
    }

    @Test("P9: names that become equal are numbered, each item on its own")
    func numbering() throws {
        var tree = try tree()
        _ = try createFolder(["t"], in: &tree)
        let names = try (0..<3).map { _ in
            let stored = try createFolder(["t", "x"], in: &tree)
            try tree.completeFolders(downTo: 1)
            return stored
        }
        #expect(names == ["x", "x (2)", "x (3)"])
        #expect(try createFolder(["x"], item: 1, in: &tree) == "x" && tree.item == 1)
    }

    @Test("P3: a link in the place of a file is not followed")
    func links() throws {
        var tree = try tree()
        _ = try tree.enterItem(0)
        let directory = try tree.enterParent(of: try entry(["x"]).path)
        #expect(symlinkat(scratch("victim"), directory.rawValue, "x") == 0)
        let (_, stored) = try tree.createFile(named: SafeFileName(try #require(ClaimedFileName("x"))), in: directory)
        #expect(stored == "x (2)" && !scratch.exists("victim"))
    }
}

@Suite("list of received names")
struct CompletedNamesTests {
    private let scratch = ScratchFolder()

    private func directory() throws -> FileDescriptor { try FileDescriptor.openDirectory(path: scratch.path) }

    @Test("the names in the folders that were open last are read back")
    func chain() throws {
        var names = try CompletedNames(in: directory(), keeping: 0)
        try names.appendItem()
        try names.append("old", depth: 0)
        try names.appendItem()
        for (name, depth) in [("t", 0), ("a", 1), ("x", 2), ("b", 1), ("y", 2)] { try names.append(name, depth: depth) }
        try names.flush()
        var read = try CompletedNames(in: directory(), keeping: names.byteCount)
        let levels = try read.namesInOpenFolders()
        #expect(levels == [["t"], ["a", "b"], ["y"]].map { Set($0.map { Array($0.utf8) }) })
    }

    @Test("P13: names can be read while some are still to be written, and none is lost")
    func pending() throws {
        var names = try CompletedNames(in: directory(), keeping: 0)
        try names.append("a", depth: 0)
        let first = try names.namesInOpenFolders()
        try names.append("b", depth: 0)
        try names.flush()
        var read = try CompletedNames(in: directory(), keeping: names.byteCount)
        let second = try read.namesInOpenFolders()
        #expect(first == [[Array("a".utf8)]] && second == [[Array("a".utf8), Array("b".utf8)]])
    }

    @Test("P13, P9: two names that strings compare as equal are two files: the complete one does not keep the other")
    func equivalentNames() throws {
        let (composed, decomposed) = ("\u{e9}", "e\u{301}")
        var names = try CompletedNames(in: directory(), keeping: 0)
        try names.append(composed, depth: 0)
        let levels = try names.namesInOpenFolders()
        #expect(levels[0].contains(Array(composed.utf8)) && !levels[0].contains(Array(decomposed.utf8)))
    }

    @Test("what is beyond the checkpoint is dropped")
    func truncated() throws {
        var names = try CompletedNames(in: directory(), keeping: 0)
        try names.append("a", depth: 0)
        let byteCount = names.byteCount
        try names.append("b", depth: 0)
        try names.flush()
        var kept = try CompletedNames(in: directory(), keeping: byteCount)
        let levels = try kept.namesInOpenFolders()
        #expect(levels == [[Array("a".utf8)]])
        #expect(throws: StorageError.self) { try CompletedNames(in: directory(), keeping: 1000) }
        #expect(throws: StorageError.self) { try CompletedNames(in: directory(), keeping: .max) }
    }

    @Test("P13: damaged lists are refused", arguments: [[1, 1, 65], [0], [0, 5, 65], [0, 1, 65, 2, 1, 65]] as [[UInt8]])
    func damaged(_ bytes: [UInt8]) throws {
        try scratch.write(CompletedNames.fileName, bytes)
        var names = try CompletedNames(in: directory(), keeping: UInt64(bytes.count))
        #expect(throws: StorageError.self) { try names.namesInOpenFolders() }
    }

    @Test("names and depths beyond a byte are refused")
    func bounds() throws {
        var names = try CompletedNames(in: directory(), keeping: 0)
        #expect(throws: StorageError.self) { try names.append(String(repeating: "x", count: 256), depth: 0) }
        #expect(throws: StorageError.self) { try names.append("x", depth: 255) }
        #expect(throws: StorageError.self) { try names.append("x", depth: -1) }
        try names.append(String(repeating: "x", count: 255), depth: 0)
    }
}

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

@Suite("complete reads and writes")
struct DescriptorIOTests {
    @Test("everything is written through a pipe that takes little at a time")
    func pipes() throws {
        let pipe = Pipe()
        let content = bytes(1 << 20)
        let writer = Worker {
            try? pipe.write(content)
            pipe.closeWriting()
        }
        #expect(try pipe.readEnd.read(upTo: 2 << 20) == content)
        writer.wait()
    }

    @Test("errors name their cause")
    func errors() {
        #expect(throws: SystemCallError(code: EBADF)) { try DescriptorIO.writeAll([UInt8](1...3), to: -1) }
        #expect(throws: SystemCallError(code: EFBIG)) { try DescriptorIO.writeAll([UInt8](1...3), to: -1, at: .max) }
    }
}

extension DescriptorIO {
    fileprivate static func writeAll(_ bytes: [UInt8], to descriptor: Int32, at position: UInt64? = nil) throws {
        try bytes.withUnsafeBytes { bytes in
            if let position { try writeAll(bytes, to: descriptor, at: position) } else { try writeAll(bytes, to: descriptor) }
        }
    }
}
