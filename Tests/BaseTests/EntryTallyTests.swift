import NearshareBase
import Testing

@Suite("entries of a transfer, and those that its sender has withdrawn") struct EntryTallyTests {
    private func entry(_ kind: EntryHeader.Kind, _ path: String..., size: UInt64 = 0) -> EntryHeader {
        EntryHeader(
            item: 0, kind: kind, path: path.map { ClaimedFileName($0)! }, size: size, modified: nil, permissions: nil)
    }

    private func tally(_ entries: [EntryHeader], withdrawing withdrawn: [EntryHeader], keptCount: UInt64 = 0) -> EntryTally {
        var tally = EntryTally(keptCount: keptCount)
        for entry in entries { tally.record(entry) }
        for entry in withdrawn { tally.recordWithdrawal(of: entry) }
        return tally
    }

    @Test func `withdrawn files are counted among files and links, and named`() {
        let entries = [
            entry(.folder, "f"), entry(.file, "f", "a"), entry(.file, "f", "b"), entry(.link(target: []), "f", "c"),
        ]
        let none = tally(entries, withdrawing: [])
        #expect(none.missing == nil && !none.isAllWithdrawn)
        let one = tally(entries, withdrawing: [entries[2]])
        #expect(one.missing == MissingFiles(count: 1, of: 3, listed: [ClaimedFileName("b")!]) && !one.isAllWithdrawn)
        // A folder among them is not missed for itself.
        let both = tally(entries, withdrawing: [entries[0], entries[3]])
        #expect(both.missing == MissingFiles(count: 1, of: 3, listed: [ClaimedFileName("c")!]))
    }

    @Test func `the bytes of withdrawn files are counted`() {
        let entries = [entry(.file, "a", size: 3), entry(.file, "b", size: .max), entry(.file, "c", size: 5)]
        #expect(tally(entries, withdrawing: [entries[0]]).missing?.contentByteCount == 3)
        #expect(tally(entries, withdrawing: [entries[0], entries[1]]).missing?.contentByteCount == .max)
    }

    @Test func `folders are named where only folders were withdrawn`() {
        let entries = [entry(.folder, "f"), entry(.folder, "f", "g"), entry(.file, "f", "a")]
        let tally = tally(entries, withdrawing: [entries[1]])
        #expect(tally.missing == MissingFiles(count: 1, of: 3, listed: [ClaimedFileName("g")!]))
        #expect(!tally.isAllWithdrawn)
    }

    @Test func `nothing remains when all files were withdrawn, or all entries`() {
        let entries = [entry(.folder, "f"), entry(.file, "f", "a")]
        let files = tally(entries, withdrawing: [entries[1]])
        #expect(files.isAllWithdrawn && files.missing == nil)
        let folders = tally([entries[0]], withdrawing: [entries[0]])
        #expect(folders.isAllWithdrawn && folders.missing == nil)
    }

    @Test func `what an earlier attempt has stored counts as files, and five names are listed`() {
        let entries = (0..<8).map { entry(.file, "\($0)") }
        let tally = tally(entries, withdrawing: entries, keptCount: 4)
        #expect(!tally.isAllWithdrawn)
        #expect(tally.missing?.count == 8 && tally.missing?.offered == 12)
        #expect(tally.missing?.listed == (0..<5).map { ClaimedFileName("\($0)")! })
    }
}
