import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

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
        let (first, again) = try (tree.enterItem(0), tree.enterItem(0))
        #expect(first && !again)
        for path in [["t"], ["t", "a"], ["t", "a", "b"]] { _ = try createFolder(path, in: &tree) }
        #expect(tree.folders.map(\.stored) == ["t", "a", "b"])
        let inner = try tree.enterParent(of: try entry(["t", "a", "b", "x"]).path)
        _ = try createFolder(["t", "c"], in: &tree)
        #expect(tree.folders.map(\.stored) == ["t", "c"])
        // The time is set when nothing can change it any more.
        #expect(try inner.status().modifiedNanoseconds == 5_000_000_000)
        try tree.completeFolders(downTo: 0)
        #expect(tree.folders.isEmpty)
    }

    @Test("P6: a folder gets no write access for others")
    func permissions() throws {
        var tree = try tree()
        _ = try createFolder(["t"], in: &tree)
        let folder = try tree.enterParent(of: try entry(["t", "x"]).path)
        try tree.completeFolders(downTo: 0)
        #expect(try folder.status().st_mode & 0o7777 == 0o755)
    }

    @Test("an entry before its folder, and one without a name, are rejected")
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
