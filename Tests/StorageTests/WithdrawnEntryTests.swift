import Glibc
import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

/// Whether a file without permissions cannot be read: user 0 can, unless it lacks the capability.
private let permissionsHold: Bool = {
    let scratch = ScratchFolder()
    guard let path = try? scratch.write("f", []) else { return false }
    chmod(path, 0)
    return access(path, R_OK) != 0
}()

@Suite("entries that vanish, shrink or become unreadable after the offer") struct WithdrawnEntryTests {
    private let scratch = ScratchFolder()

    /// `t` with the folders `a`, `b` and `c` of two files each, and the file `z`.
    private func source() throws -> FileSource {
        for folder in ["a", "b", "c"] {
            for file in ["1", "2"] { try scratch.write("t/\(folder)/\(file)", bytes(100), modified: 1) }
        }
        try scratch.write("z", bytes(50), modified: 1)
        return try FileSource(paths: [scratch("t"), scratch("z")])
    }

    /// Reads everything; the paths that are withdrawn, and those that can be read.
    private func read(_ reader: any ResourceReader) throws -> (withdrawn: [String], readable: [String]) {
        var (withdrawn, readable): ([String], [String]) = ([], [])
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 1)
        defer { buffer.deallocate() }
        while let header = try reader.nextEntry() {
            while try reader.read(into: buffer) > 0 {}
            let path = header.path.map(\.shown).joined(separator: "/")
            if reader.withdrawal == nil { readable.append(path) } else { withdrawn.append(path) }
        }
        return (withdrawn, readable)
    }

    private let all = ["t", "t/a", "t/a/1", "t/a/2", "t/b", "t/b/1", "t/b/2", "t/c", "t/c/1", "t/c/2", "z"]

    private enum Change: CaseIterable {
        case removed, shrunk, grown, replaced, becameLink, renamed
    }

    @Test("all entries are returned as they were offered, and those that are not there as withdrawn")
    func withdrawn() throws {
        for change in Change.allCases {
            let source = try source()
            let file = scratch("t/b/1")
            switch change {
            case .removed: unlinkFile(file)
            case .shrunk: try scratch.write("t/b/1", bytes(99))
            case .grown: try scratch.write("t/b/1", bytes(101))
            case .replaced:
                unlinkFile(file)
                try scratch.write("t/b/1/in", bytes(100))
            case .becameLink:
                unlinkFile(file)
                symlink("2", file)
            case .renamed: renameFile(file, scratch("t/b/3"))
            }
            let reader = try source.makeReader()
            reader.allowWithdrawal()
            let (withdrawn, readable) = try read(reader)
            #expect(withdrawn == ["t/b/1"], "\(change)")
            #expect(readable == all.filter { $0 != "t/b/1" }, "\(change)")
            // Without the receiver's agreement it is a failure.
            if change != .renamed { #expect(throws: StorageError.self, "\(change)") { try read(try source.makeReader()) } }
            removeTree("t")
        }
    }

    private func removeTree(_ name: String) {
        let parts = name.split(separator: "/").map { String($0) }
        let parent = ([scratch.path] + parts.dropLast()).joined(separator: "/")
        (try? FileDescriptor.openDirectory(path: parent))?.removeTree(parts.last ?? "")
    }

    @Test("a folder that has vanished takes all of its entries along, also the first, the last and an item")
    func folders() throws {
        for (name, gone) in [
            ("t/a", ["t/a", "t/a/1", "t/a/2"]), ("t/c", ["t/c", "t/c/1", "t/c/2"]), ("t", all.filter { $0 != "z" }),
            ("z", ["z"]),
        ] {
            let source = try source()
            removeTree(name)
            let reader = try source.makeReader()
            reader.allowWithdrawal()
            let (withdrawn, readable) = try read(reader)
            #expect(withdrawn == gone)
            #expect(readable == all.filter { !gone.contains($0) })
            removeTree("t")
        }
    }

    @Test("a file and a folder that can no longer be read are withdrawn", .enabled(if: permissionsHold))
    func unreadable() throws {
        let source = try source()
        chmod(scratch("t/a/1"), 0)
        chmod(scratch("t/b"), 0)
        defer { chmod(scratch("t/b"), 0o700) }
        let reader = try source.makeReader()
        reader.allowWithdrawal()
        #expect(try read(reader).withdrawn == ["t/a/1", "t/b", "t/b/1", "t/b/2"])
    }

    @Test("what is added after the offer is not sent, and a file of the offered size is sent as it is now")
    func added() throws {
        let source = try source()
        for name in ["t/a/0", "t/a/3", "t/bb/1", "t/zz"] { try scratch.write(name, bytes(10)) }
        try scratch.write("t/c/1", bytes(100, seed: 2), modified: 9)
        let reader = try source.makeReader()
        reader.allowWithdrawal()
        let (withdrawn, readable) = try read(reader)
        #expect(withdrawn.isEmpty && readable == all)
        let again = try source.makeReader()
        again.allowWithdrawal()
        var modified: [Int64?] = []
        while let header = try again.nextEntry() { if header.path.last?.shown == "1" { modified.append(header.modified) } }
        #expect(modified == [1, 1, 9])
    }

    @Test("A10: a file that shrinks or is rewritten while it is read is withdrawn in its middle, one that grows is cut")
    func whileReading() throws {
        for (content, isWithdrawn) in [
            (bytes(60), true), (bytes(100, seed: 5), true), (bytes(100) + bytes(70), false),
        ] {
            let source = try source()
            let reader = try source.makeReader()
            reader.allowWithdrawal()
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 50, alignment: 1)
            defer { buffer.deallocate() }
            for _ in 0..<3 { _ = try reader.nextEntry() }
            #expect(try reader.read(into: buffer) == 50)
            try scratch.write("t/a/1", content)
            var count = 50
            while case let more = try reader.read(into: buffer), more > 0 { count += more }
            #expect((reader.withdrawal != nil) == isWithdrawn)
            #expect(isWithdrawn ? count < 100 : count == 100)
            #expect(try read(reader).withdrawn.isEmpty)
            removeTree("t")
        }
    }

    @Test("a single file that vanishes is a failure, after which what was received can be resumed")
    func single() throws {
        let source = try FileSource(paths: [try scratch.write("f", bytes(10))])
        unlinkFile(scratch("f"))
        let reader = try source.makeReader()
        reader.allowWithdrawal()
        #expect(throws: StorageError.self) { try reader.nextEntry() }
    }

    @Test("a source of more entries than are remembered fails with the first that is lost")
    func tooMany() throws {
        let header = EntryHeader(
            item: 0, kind: .file, path: [try #require(ClaimedFileName(String(repeating: "n", count: 255)))], size: 1,
            modified: nil, permissions: 0o600)
        var entries = OfferedEntries()
        entries.append(header)
        var iterator = entries.makeIterator()
        #expect(iterator.next() == header && iterator.next() == nil && entries.isComplete)
        for _ in 0...OfferedEntries.maximumByteCount / 255 { entries.append(header) }
        #expect(!entries.isComplete)
        iterator = entries.makeIterator()
        #expect(iterator.next() == nil)
    }

    // MARK: Receiving

    private func move(_ source: FileSource, to rig: InboxRig, cut: Int? = nil) throws -> TransferRig.Result {
        try TransferRig(recordSize: 500, cut: cut, withdrawsEntries: true).move(source, to: try rig.sink(source.offer))
    }

    @Test("the rest is delivered, an item of which nothing is left is not, and the sizes are those of what is there")
    func delivered() throws {
        for (removed, names, size) in [
            ("t/b/1", ["t", "z"], 500), ("t/b", ["t", "z"], 400), ("t", ["z"], nil), ("z", ["t"], 600),
        ] as [(String, [String], UInt64?)] {
            let rig = try InboxRig()
            let source = try source()
            removeTree(removed)
            let delivered = try #require(try move(source, to: rig).delivered)
            #expect(delivered.map { String(decoding: $0.claimedName.bytes, as: UTF8.self) } == names, "\(removed)")
            #expect(delivered.first { $0.kind == .folder }?.size == size, "\(removed)")
            #expect(rig.scratch.tree("inbox").sorted() == scratch.tree("").sorted(), "\(removed)")
            removeTree("t")
        }
    }

    @Test("a file that is withdrawn in its middle leaves nothing behind")
    func middle() throws {
        let rig = try InboxRig()
        let source = try source()
        let sink = try rig.sink(source.offer)
        // The reader opens a file when its turn comes.
        let shrinking = ShrinkingSource(source, file: "2") { _ = try? scratch.write("t/b/2", bytes(60)) }
        let delivered = try TransferRig(recordSize: 50, withdrawsEntries: true).move(shrinking, to: sink).delivered
        #expect(delivered?.count == 2)
        #expect(!rig.scratch.exists("inbox/t/b/2") && rig.scratch.exists("inbox/t/b/1") && rig.scratch.exists("inbox/t/c/2"))
    }

    @Test("P13: a transfer that breaks after a withdrawn entry goes on before it, and gets it if it is there again")
    func resumed() throws {
        let rig = try InboxRig()
        let source = try source()
        let content = try scratch.read("t/b/1")
        unlinkFile(scratch("t/b/1"))
        let whole = try TransferRig.streamByteCount(of: source, withdrawsEntries: true)
        #expect(try move(source, to: rig, cut: whole - 60).delivered == nil)
        try scratch.write("t/b/1", content, modified: 1)
        let result = try move(source, to: rig)
        #expect(result.resumed == 200 && result.delivered?.count == 2)
        #expect(rig.scratch.tree("inbox").filter { $0.hasPrefix("f ") }.count == 7)
        #expect(try rig.scratch.read("inbox/t/b/1") == content)
    }

    /// Calls an action after the first read of a file of the folder `b`.
    private final class ShrinkingSource: ResourceSource {
        private final class Reader: ResourceReader {
            private let base: any ResourceReader
            private let source: ShrinkingSource
            private var header: EntryHeader?

            init(_ base: any ResourceReader, _ source: ShrinkingSource) { (self.base, self.source) = (base, source) }

            func allowWithdrawal() { base.allowWithdrawal() }
            var withdrawal: StorageError? { base.withdrawal }
            func nextEntry() throws(StorageError) -> EntryHeader? {
                header = try base.nextEntry()
                return header
            }
            func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
                let count = try base.read(into: buffer)
                if header?.path.map(\.shown).suffix(2) == ["b", source.file] { source.action() }
                return count
            }
            func seek(to offset: UInt64) throws(StorageError) { try base.seek(to: offset) }
            func cancel() { base.cancel() }
        }

        private let base: FileSource
        fileprivate let file: String
        fileprivate let action: @Sendable () -> Void

        init(_ base: FileSource, file: String, _ action: @escaping @Sendable () -> Void) {
            (self.base, self.file, self.action) = (base, file, action)
        }

        var offer: Offer { base.offer }
        func makeReader() throws(StorageError) -> any ResourceReader { Reader(try base.makeReader(), self) }
    }
}
