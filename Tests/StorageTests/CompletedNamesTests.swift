import FoundationEssentials
import Glibc
import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

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

    @Test("P13: damaged lists are rejected", arguments: [[1, 1, 65], [0], [0, 5, 65], [0, 1, 65, 2, 1, 65]] as [[UInt8]])
    func damaged(_ bytes: [UInt8]) throws {
        try scratch.write(CompletedNames.fileName, bytes)
        var names = try CompletedNames(in: directory(), keeping: UInt64(bytes.count))
        #expect(throws: StorageError.self) { try names.namesInOpenFolders() }
    }

    @Test("names and depths beyond a byte are rejected")
    func bounds() throws {
        var names = try CompletedNames(in: directory(), keeping: 0)
        #expect(throws: StorageError.self) { try names.append(String(repeating: "x", count: 256), depth: 0) }
        #expect(throws: StorageError.self) { try names.append("x", depth: 255) }
        #expect(throws: StorageError.self) { try names.append("x", depth: -1) }
        try names.append(String(repeating: "x", count: 255), depth: 0)
    }
}
