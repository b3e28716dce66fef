import NearshareBase
import Testing

@Suite struct EntryCounterTests {
    /// trip/ (a, day/ (b, a link))
    private func trip() throws -> [EntryHeader] {
        func entry(_ kind: EntryHeader.Kind, _ path: String...) throws -> EntryHeader {
            EntryHeader(
                item: 0, kind: kind, path: try path.map { try #require(ClaimedFileName($0)) }, size: 0, modified: nil,
                permissions: nil)
        }
        return try [
            entry(.folder, "trip"), entry(.file, "trip", "a"), entry(.folder, "trip", "day"),
            entry(.file, "trip", "day", "b"), entry(.link(target: []), "trip", "day", "c"),
        ]
    }

    private func counter(listed count: Int) throws -> EntryCounter {
        let entries = try trip()
        let item = OfferedItem(
            kind: .folder, name: entries[0].path[0], size: 0, entryCount: UInt64(entries.count), mediaType: .folder)
        return EntryCounter(
            of: Offer(items: [item], itemCount: 1, entryCount: item.entryCount, totalSize: 0),
            listed: Array(entries.prefix(count)))
    }

    @Test func `folders do not count where all entries are listed`() throws {
        let counter = try counter(listed: 5)
        #expect(counter.total == 3)
        #expect((0...5).map { counter.count(upTo: $0) } == [0, 0, 1, 1, 2, 3])
    }

    @Test func `all entries count where some are not listed`() throws {
        for count in 0..<5 {
            let counter = try counter(listed: count)
            #expect(counter.total == 5)
            #expect((0...5).map { counter.count(upTo: $0) } == [0, 1, 2, 3, 4, 5])
        }
    }
}
