import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("files with holes") struct SparseWriterTests {
    private let scratch = ScratchFolder()

    @Test("what is written in pieces of any size is what was there", arguments: seeds(1...20))
    func content(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var content: [UInt8] = []
        for _ in 0..<Int.random(in: 0...12, using: &random) {
            let count = [1, 100, 4095, 4096, 4097, 30_000].randomElement(using: &random) ?? 1
            content += bool(&random) ? bytes(count, seed: seed) : [UInt8](repeating: 0, count: count)
        }
        let file = try #require(try FileDescriptor.openDirectory(path: scratch("")).createFile("f"))
        var writer = SparseWriter(file)
        var rest = content[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(Int.random(in: 1...9000, using: &random)))
            rest = rest.dropFirst(piece.count)
            try piece.withUnsafeBytes { try writer.write($0) }
        }
        try writer.finish()
        #expect(writer.size == UInt64(content.count), "seed \(seed)")
        #expect(try scratch.read("f") == content, "seed \(seed)")
    }

    private func bool(_ random: inout SeededRandom) -> Bool { Bool.random(using: &random) }

    /// Content of a few bytes at both ends of many zeros.
    private let sparse = [1, 2, 3] + [UInt8](repeating: 0, count: 6 << 20) + [4, 5, 6]

    @Test("R12: zeros take no space, also where space was reserved, after an interruption and at the end", arguments: [0, 3])
    func holes(tail: Int) throws {
        let content = Array(sparse.dropLast(tail))
        let source = InMemorySource([.file("disk.img", content)])
        let rig = try InboxRig()
        do {
            let sink = try rig.sink(source.offer)
            try TransferRig(recordSize: 100_000, cut: 3_000_000).move(source, to: sink)
            sink.suspend()
        }
        let result = try TransferRig(recordSize: 100_000).move(source, to: try rig.sink(source.offer))
        #expect(result.resumed > 2_000_000)
        #expect(try rig.scratch.read("inbox/disk.img") == content)
        let status = try rig.scratch.status("inbox/disk.img")
        #expect(status.st_size == content.count && status.st_blocks * 512 < 1 << 20)
    }

    @Test func `a copy to another disk keeps holes`() throws {
        try scratch.write("from/disk.img", sparse)
        scratch.makeFolder("to")
        let (from, to) = (
            try FileDescriptor.openDirectory(path: scratch("from")), try FileDescriptor.openDirectory(path: scratch("to"))
        )
        try FileTree.copy("disk.img", in: from, to: "disk.img", in: to, rules: .linux)
        #expect(try scratch.read("to/disk.img") == sparse)
        #expect(try scratch.status("to/disk.img").st_blocks * 512 < 1 << 20)
    }
}
