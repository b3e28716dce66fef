import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("selecting a part of an offer") struct PartChooserTests {
    private func entry(_ item: UInt32, _ path: String, folder: Bool = false, size: UInt64 = 1) throws -> EntryHeader {
        EntryHeader(
            item: item, kind: folder ? .folder : .file,
            path: try path.split(separator: "/").map { try #require(ClaimedFileName(String($0))) }, size: folder ? 0 : size,
            modified: nil, permissions: nil)
    }

    private func item(_ name: String, _ size: UInt64, entries: UInt64 = 1) throws -> OfferedItem {
        OfferedItem(
            kind: entries > 1 ? .folder : .file, name: try #require(ClaimedFileName(name)), size: size, entryCount: entries,
            mediaType: .unknown)
    }

    /// 1 trip/, 2 trip/a.jpg, 3 trip/day/, 4 trip/day/B.JPG, 5 trip/day/c.txt, 6 note.txt
    private func chooser(listed count: Int = 6) throws -> PartChooser {
        let listed = [
            try entry(0, "trip", folder: true), try entry(0, "trip/a.jpg"), try entry(0, "trip/day", folder: true),
            try entry(0, "trip/day/B.JPG"), try entry(0, "trip/day/c.txt"), try entry(1, "note.txt"),
        ]
        return PartChooser(
            Offer(
                items: [try item("trip", 3, entries: 5), try item("note.txt", 1)], itemCount: 2, entryCount: 6, totalSize: 4),
            listed: Array(listed.prefix(count)))
    }

    private func numbers(_ chooser: PartChooser, _ text: String) -> [UInt64]? {
        guard case .part(let part) = chooser.choose(text) else { return nil }
        return (0..<10).filter { part.selection.contains($0) }
    }

    @Test func `numbers, ranges and patterns select lines with the folders that contain them`() throws {
        let chooser = try chooser()
        #expect(numbers(chooser, "2") == [0, 1])
        #expect(numbers(chooser, "6") == [5])
        #expect(numbers(chooser, "4-5") == [0, 2, 3, 4])
        #expect(numbers(chooser, "5-") == [0, 2, 4, 5] && numbers(chooser, "-2") == [0, 1, 2, 3, 4])
        #expect(numbers(chooser, "6-") == [5] && chooser.choose("1-") == .all)
        #expect(numbers(chooser, "2,6") == [0, 1, 5] && numbers(chooser, "6 , 2") == [0, 1, 5])
        #expect(numbers(chooser, "*.jpg") == [0, 1, 2, 3], "letter case does not count")
        #expect(numbers(chooser, "trip/*.jpg") == [0, 1])
        #expect(numbers(chooser, "*.txt 2") == [0, 1, 2, 4, 5])
    }

    @Test func `a folder selects everything in it, also in a range`() throws {
        let chooser = try chooser()
        #expect(numbers(chooser, "3") == [0, 2, 3, 4] && numbers(chooser, "day") == [0, 2, 3, 4])
        #expect(numbers(chooser, "1") == [0, 1, 2, 3, 4])
        for range in ["1-1", "1-2", "1-5", "2-3", "2-4"] { #expect(numbers(chooser, range) == [0, 1, 2, 3, 4], "\(range)") }
        #expect(numbers(chooser, "3-4") == [0, 2, 3, 4])
        #expect(
            chooser.choose("1,6") == .all && chooser.choose("1-6") == .all && chooser.choose("*") == .all
                && chooser.choose("All") == .all)
    }

    @Test func `what cannot be selected says why`() throws {
        let chooser = try chooser()
        for text in ["0", "7", "3-9", "7-", "0-", "-7", "18446744073709551615"] {
            #expect(chooser.choose(text) == .invalid(hint: "the list has the numbers 1 to 6"), "\(text)")
        }
        #expect(chooser.choose("*.png") == .invalid(hint: "nothing in the list matches \"*.png\""))
        guard case .invalid = chooser.choose(" , ") else { throw MalformedInput("nothing was selected") }
        // The list ends inside a folder: of trip all is known, of the day in it not.
        let cut = try self.chooser(listed: 4)
        #expect(numbers(cut, "1") == [0, 1, 2, 3, 4] && numbers(cut, "4") == [0, 2, 3])
        #expect(numbers(cut, "note*") == [5], "an item beyond the list")
        #expect(
            cut.choose("2-")
                == .invalid(hint: "1 of the entries are not listed; end the range with a number, as in 2-5"))
        guard case .invalid(let hint) = cut.choose("3") else { throw MalformedInput("an incomplete folder was selected") }
        #expect(hint.hasPrefix("number 3 is not listed as a whole"))
    }

    @Test func `the list has pages, and a single file none`() throws {
        let pages = try chooser().pages
        #expect(pages.count == 1 && pages[0].hasPrefix("  1  \"trip\"/\n  2  \"trip/a.jpg\"  1 B\n"))
        let items = try (0..<40).map { try item("f\($0)", 1) }
        let many = PartChooser(Offer(items: items, itemCount: 50, entryCount: 50, totalSize: 50), listed: [])
        #expect(
            many.pages.count == 3 && many.pages[0].hasSuffix("  18  \"f17\"  1 B, application/octet-stream\n  … and 32 more\n"))
        #expect(many.pages[2].hasSuffix("  … and 10 more, not listed\n"))
        let cut = try chooser(listed: 4)
        #expect(cut.pages.last?.hasSuffix("  … and 1 more, not listed\n") == true)
        #expect(
            cut.choose("*.png") == .invalid(hint: "nothing in the list, which is without 1 of the entries, matches \"*.png\""))
        // A claim at the limit of its type.
        let huge = PartChooser(
            Offer(
                items: [
                    OfferedItem(kind: .folder, name: items[0].name, size: 1, entryCount: .max, mediaType: .unknown), items[1],
                ],
                itemCount: 2, entryCount: .max, totalSize: 2), listed: [])
        #expect(huge.pages.count == 1)
        let single = PartChooser(Offer(items: [items[0]], itemCount: 1, entryCount: 1, totalSize: 1), listed: [])
        #expect(single.pages.isEmpty)
    }
}
