import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareStorage

@Suite("archives") struct ZipSourceTests {
    private static let name = ClaimedFileName("a.zip")!
    // 2023-11-14 22:13:20 UTC.
    private static let time: Int64 = 1_700_000_000_000_000_000

    private static func read(_ source: ZipSource, from offset: UInt64 = 0) throws -> [UInt8] {
        let reader = try source.makeReader()
        #expect(try reader.nextEntry()?.size == source.offer.totalSize)
        if offset > 0 { try reader.seek(to: offset) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1000)
        while true {
            let count = try buffer.withUnsafeMutableBytes { try reader.read(into: $0) }
            if count == 0 { break }
            bytes += buffer.prefix(count)
        }
        #expect(try reader.nextEntry() == nil)
        return bytes
    }

    private static let source = InMemorySource([
        .folder(["trip"], modified: time), .file(in: ["trip", "a.txt"], Array("hello".utf8), modified: time),
        .link(["trip", "link"], to: "a.txt"), .file(in: ["trip", "empty"], [], modified: -5),
    ])

    @Test func `an archive has the size that was offered, from any place`() throws {
        let archive = try ZipSource(of: Self.source, named: Self.name)
        let bytes = try Self.read(archive)
        #expect(bytes.count == archive.offer.totalSize.map { Int($0) })
        for offset in [1, 30, 70, bytes.count - 1, bytes.count] {
            #expect(try Self.read(archive, from: UInt64(offset)) == Array(bytes[offset...]))
        }
    }

    @Test func `an archive has the fields of the specification`() throws {
        let bytes = try Self.read(ZipSource(of: Self.source, named: Self.name))
        // The local header of the folder: version 4.5, UTF-8, stored, time and date, no content.
        #expect(bytes.starts(with: [0x50, 0x4b, 3, 4, 45, 0, 0, 8, 0, 0, 0xaa, 0xb1, 0x6e, 0x57, 0, 0, 0, 0, 0, 0, 0, 0]))
        // The file with its checksum behind it.
        let file = Array("trip/a.txthello".utf8) + [0x50, 0x4b, 7, 8, 0x86, 0xa6, 0x10, 0x36, 5, 0, 0, 0, 5, 0, 0, 0]
        #expect(bytes.firstRange(of: file) != nil)
        #expect(bytes.firstRange(of: Array("trip/link".utf8)) == nil)
        // The end: three entries.
        #expect(bytes.suffix(22).starts(with: [0x50, 0x4b, 5, 6, 0, 0, 0, 0, 3, 0, 3, 0]))
    }

    @Test func `numbers beyond 32 bits are those of ZIP64`() throws {
        var layout = ZipLayout()
        let size = UInt64(5) << 32
        for name in ["a", "b"] {
            let header = EntryHeader(
                item: 0, kind: .file, path: [ClaimedFileName(name)!], size: size, modified: nil, permissions: nil)
            let added = layout.add(header)
            let entry = try #require(added)
            // The extra field with both sizes.
            #expect(entry.header.suffix(20) == [1, 0, 16, 0] + [0, 0, 0, 0, 5, 0, 0, 0] + [0, 0, 0, 0, 5, 0, 0, 0])
            let descriptor = entry.end(checksum: 0, &layout)
            #expect(descriptor.count == 24)
        }
        #expect(layout.offset == 2 * (size + 30 + 1 + 20 + 24))
        #expect(layout.end.firstRange(of: [0x50, 0x4b, 6, 6]) != nil && layout.end.firstRange(of: [0x50, 0x4b, 6, 7]) != nil)
        #expect(layout.end.suffix(22).starts(with: [0x50, 0x4b, 5, 6, 0, 0, 0, 0, 2, 0, 2, 0]))
        #expect(layout.endByteCount == UInt64(layout.end.count))
    }

    @Test("A10: a file that has changed ends the archive") func changes() throws {
        let folder = ScratchFolder()
        let path = "\(folder.path)/a.txt"
        try #require(write(path, "hello"))
        let archive = try ZipSource(of: try FileSource(paths: [folder.path]), named: Self.name)
        #expect(try Self.read(archive).count == archive.offer.totalSize.map { Int($0) })
        try #require(write(path, "other, more"))
        #expect(throws: StorageError.self) { try Self.read(archive) }
    }

    private func write(_ path: String, _ text: String) -> Bool {
        guard let file = fopen(path, "w") else { return false }
        defer { fclose(file) }
        return fputs(text, file) >= 0
    }
}
