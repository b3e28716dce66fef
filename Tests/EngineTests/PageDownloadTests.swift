import NearshareBase
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import NearshareWeb
import Testing

@testable import NearshareEngine

@Suite("content for browsers", .leavesNothing) struct PageDownloadTests {
    private static let chunkByteCount = 1 << 18

    /// A stream of zeros that never ends.
    private struct EndlessSource: ResourceSource {
        private final class Reader: ResourceReader {
            func nextEntry() throws(StorageError) -> EntryHeader? {
                EntryHeader(item: 0, kind: .file, path: [], size: nil, modified: nil, permissions: nil)
            }

            func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int { buffer.count }
            func seek(to offset: UInt64) throws(StorageError) { throw StorageError(.failed, "a stream cannot seek") }
            func cancel() {}
        }

        var offer: Offer {
            let item = OfferedItem(kind: .file, name: ClaimedFileName("a")!, size: nil, entryCount: 1, mediaType: .unknown)
            return Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: nil)
        }

        func makeReader() throws(StorageError) -> any ResourceReader { Reader() }
    }

    private static func download(
        _ sources: [any ResourceSource], clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }
    ) -> PageDownload {
        let content = PageDownload.Content(sources, rateLimit: nil)
        let progress = TransferProgress(
            id: TransferID(rawValue: 1), direction: .outgoing, total: content.totalSize, totalEntries: 1)
        return PageDownload(content, transfer: Transfer(progress: progress, clock: clock), clock: clock)
    }

    private static func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) } }

    @Test func `chunks that are fetched in another order, and again, are those of the content`() throws {
        let content = Self.bytes(6 * Self.chunkByteCount + 5)
        let download = Self.download([InMemorySource([.file("a", content)])])
        for index: UInt32 in [1, 0, 2, 2, 5, 3, 4, 6, 0, 6] {
            let start = Int(index) * Self.chunkByteCount
            let chunk = try #require(try download.chunk(index, of: 1))
            #expect(chunk.content == Array(content[start..<min(start + Self.chunkByteCount, content.count)]), "\(index)")
            #expect(chunk.isLast == (index == 6))
        }
        #expect(try download.chunk(7, of: 1) == nil)
        #expect(download.transfer.snapshot.done == UInt64(content.count))
    }

    @Test func `an empty item has one chunk, and one of unknown size ends with a short one`() throws {
        let stream = InMemorySource([.file("b", Self.bytes(Self.chunkByteCount), hasKnownSize: false)])
        let download = Self.download([InMemorySource([.file("a", [])]), stream])
        let empty = try #require(try download.chunk(0, of: 1))
        #expect(empty.content.isEmpty && empty.isLast)
        #expect(try download.chunk(0, of: 2)?.isLast == false)
        let last = try #require(try download.chunk(1, of: 2))
        #expect(last.content.isEmpty && last.isLast)
        #expect(try download.chunk(2, of: 2) == nil)
    }

    @Test("R12: content of unknown size ends at the limit of a page") func endless() throws {
        let download = Self.download([EndlessSource()])
        let count = UInt32(PageShare.maximumInMemoryByteCount) / UInt32(Self.chunkByteCount)
        for index in 0..<count { #expect(try download.chunk(index, of: 1)?.isLast == false) }
        #expect { try download.chunk(count, of: 1) } throws: { ($0 as? StorageError)?.code == .overLimit }
    }

    @Test("R5: a browser that fetches nothing for ten minutes was silent too long") func silence() throws {
        let clock = ManualClock(behindSystemBy: .seconds(3600))
        let download = Self.download([InMemorySource([.file("a", [1])])], clock: { clock.now })
        clock.advance(by: .seconds(599))
        #expect(download.silenceDeadline > clock.now)
        _ = try download.chunk(0, of: 1)
        clock.advance(by: .seconds(599))
        #expect(download.silenceDeadline > clock.now)
        clock.advance(by: .seconds(2))
        #expect(download.silenceDeadline <= clock.now)
    }

    @Test("R5: a request that never ends is closed when its time is over", .timeLimit(.minutes(1)))
    func slowRequest() async throws {
        let stage = Stage(.tcp)
        try await withNode(stage.sender) { node in
            var timeouts = PageServer.Timeouts()
            timeouts.request = .milliseconds(100)
            let page = try node.servePage(
                sending: [InMemorySource([.file("a", [1])])], rateLimit: nil, port: 0, timeouts: timeouts)
            let link = try stage.transport.connect(
                to: LinkAddress(host: "127.0.0.1", port: page.port), timeout: .seconds(5))
            defer { link.close() }
            try LinkDemultiplexer.write(Array("GET / HTTP/1.1\r\nHost: ".utf8), to: link)
            let isClosed = try await BlockingThread.run {
                withUnsafeTemporaryAllocation(byteCount: 100, alignment: 1) { (try? link.read(into: $0)) ?? 0 } == 0
            }
            #expect(isClosed)
        }
    }
}
