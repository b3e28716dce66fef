import Nearshare
import Testing

@testable import NearshareService

@Suite struct OfferTextTests {
    @Test(
        "every trust status has words of its own",
        arguments: [
            (TrustStatus.new, "new here"), (.known(.seen, isFriend: false), "seen before, not verified"),
            (.known(.verified, isFriend: false), "verified"), (.known(.seen, isFriend: true), "a friend"),
            (.known(.verified, isFriend: true), "a verified friend"), (.known(.blocked, isFriend: true), "blocked"),
            (.nameClash(knownAs: Fingerprint(bytes: [UInt8](repeating: 1, count: 32))!), "KNOWN NAME, OTHER KEY"),
        ])
    func words(status: TrustStatus, text: String) {
        #expect(OfferText.describe(status) == text)
    }

    private func text(_ kinds: [EntryHeader.Kind]) -> String {
        var counts = OfferText.EntryCounts()
        for kind in kinds { counts.add(kind) }
        return counts.text
    }

    @Test func `entries are counted by their kinds`() {
        let link = EntryHeader.Kind.link(target: Array("a".utf8))
        #expect(text([.folder]) == "no files")
        #expect(text([.folder, .file]) == "1 file")
        #expect(text([.folder, .file, .file, .folder, .file]) == "3 files in 2 folders")
        #expect(text([.folder, .file, link]) == "1 file and 1 link")
        #expect(text([.folder, link, .folder, link]) == "2 links in 2 folders")
    }
}
