import FoundationEssentials
import Glibc
import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import NearshareStorage
import NearshareTesting
import Testing

@Suite("standard input that is read beforehand") struct SpooledSourceTests {
    private let scratch = ScratchFolder()

    private func spool(_ content: [UInt8], limit: UInt64 = 1 << 20) throws -> SpooledSource {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        #expect(write(ends[1], content, content.count) == content.count)
        close(ends[1])
        defer { close(ends[0]) }
        let stream = StreamSource(
            descriptor: ends[0], name: ClaimedFileName("in.bin")!, receivers: 1, clock: { MonotonicInstant(nanoseconds: 0) })
        return try SpooledSource(try stream.readers[0].makeReader(), in: scratch.path, limit: limit)
    }

    private func content(of source: SpooledSource) throws -> [UInt8] {
        let reader = try source.makeReader()
        let header = try #require(try reader.nextEntry())
        #expect(header.size == source.offer.totalSize)
        var bytes: [UInt8] = []
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1000, alignment: 1)
        defer { buffer.deallocate() }
        while case let count = try reader.read(into: buffer), count > 0 { bytes += buffer[..<count] }
        #expect(try reader.nextEntry() == nil)
        return bytes
    }

    @Test func `content, size and checksum are those of the stream, for each reader`() throws {
        let bytes = (0..<5_000).map { UInt8(truncatingIfNeeded: $0 * 7) }
        let source = try spool(bytes)
        #expect(source.offer.totalSize == 5_000 && source.contentDigest == SHA256Hasher.digest(bytes))
        for _ in 0..<2 {
            let read = try content(of: source)
            #expect(read == bytes)
        }
        let empty = try spool([])
        let none = try content(of: empty)
        #expect(empty.offer.totalSize == 0 && none == [])
    }

    @Test("R8: a longer stream than the limit is rejected, and leaves nothing")
    func limit() throws {
        #expect(try spool([UInt8](repeating: 1, count: 100), limit: 100).offer.totalSize == 100)
        do throws {
            _ = try spool([UInt8](repeating: 1, count: 101), limit: 100)
            Issue.record("a limit was passed")
        } catch let error as StorageError {
            #expect(error.code == .overLimit)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).isEmpty)
    }
}
