import FoundationEssentials
import NearshareBase
import NearshareInterfaces
import NearshareStorage
import NearshareTesting
import Testing

@Suite("transfers in which files have failed") struct PartialFinishTests {
    private let digest = [UInt8](repeating: 1, count: 32)

    private func name(_ text: String) throws -> ClaimedFileName { try #require(ClaimedFileName(text)) }

    private func header(_ item: UInt32, _ path: String, _ kind: EntryHeader.Kind = .file) throws -> EntryHeader {
        EntryHeader(
            item: item, kind: kind, path: try path.split(separator: "/").map { try name(String($0)) },
            size: kind == .file ? 4 : 0, modified: nil, permissions: nil)
    }

    /// Three files, and a folder with two.
    private func offer() throws -> Offer {
        func file(_ text: String) throws -> OfferedItem {
            OfferedItem(kind: .file, name: try name(text), size: 4, entryCount: 1, mediaType: .unknown)
        }
        let folder = OfferedItem(kind: .folder, name: try name("t"), size: 8, entryCount: 3, mediaType: .folder)
        return Offer(
            items: [try file("a"), folder, try file("b"), try file("c")], itemCount: 4, entryCount: 6, totalSize: 20)
    }

    private func write(_ header: EntryHeader, to sink: any ResourceSink, isWhole: Bool = true) throws {
        for count in 1..<header.path.count {
            let path = header.path.prefix(count).map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
            try sink.enterFolder(try self.header(header.item, path, .folder), entriesDigest: digest)
        }
        try sink.begin(header, at: 0, entriesDigest: digest)
        let content = Array((isWhole ? "four" : "f").utf8)
        try content.withUnsafeBytes { try sink.write($0) }
        if isWhole { try sink.endEntry() } else { try sink.abandonEntry() }
    }

    @Test("F4: the files that are whole are delivered under their names, whichever have failed")
    func finish() throws {
        // In any order: the numbers of the files that fail, of a, t/x, t/y, b and c.
        for failed in [[0], [1], [2], [1, 2], [0, 3], [3, 4], [0, 1, 2, 3], [1, 2, 3, 4]] {
            let rig = try InboxRig()
            let sink = try rig.sink(try offer())
            _ = try sink.resumePoint()
            try sink.resume(at: .start)
            let all = [try header(0, "a"), try header(1, "t/x"), try header(1, "t/y"), try header(2, "b"), try header(3, "c")]
            for number in [3, 1, 0, 4, 2] { try write(all[number], to: sink, isWhole: !failed.contains(number)) }
            let stored = all.indices.filter { !failed.contains($0) }.map { all[$0] }
            let delivered = try sink.finish(only: stored)
            let names = Set(delivered.map { String(decoding: $0.claimedName.bytes, as: UTF8.self) })
            #expect(names == Set(stored.map { String(decoding: $0.path[0].bytes, as: UTF8.self) }), "\(failed)")
            #expect(delivered.map(\.item) == delivered.indices.map { UInt32($0) })
            for (number, file) in all.enumerated() {
                let path = file.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
                let content = FileManager.default.contents(atPath: rig.scratch("inbox/\(path)")).map { Array($0) }
                #expect(content == (failed.contains(number) ? nil : Array("four".utf8)), "\(failed): \(path)")
            }
        }
    }
}
