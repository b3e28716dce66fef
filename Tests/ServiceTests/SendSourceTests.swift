import Glibc
import Nearshare
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

@Suite struct SendSourceTests {
    private let scratch = ScratchFolder()

    @Test func `a text goes to each receiver and can be read again`() throws {
        let source = try SendSource.text("hello")
        #expect(source.canResume && source.label == "message" && source.size == 5)
        let sources = source.sources(for: ["anna", "ben", "cleo"])
        #expect(sources.map(\.receiver) == ["anna", "ben", "cleo"])
        #expect(sources.allSatisfy { $0.source.offer.totalSize == 5 })
        #expect(throws: StorageError.self) { try SendSource.text("") }
        #expect(throws: StorageError.self) { try SendSource.text(String(repeating: "x", count: (64 << 10) + 1)) }
    }

    @Test func `standard input has no size and cannot be resumed`() throws {
        let name = try #require(ClaimedFileName("backup\u{1b}.tar"))
        let source = SendSource.standardInput(named: name)
        #expect(!source.canResume && source.parts == nil && source.size == nil)
        #expect(source.label == "\"backup\\u{1b}.tar\"")
        let sources = source.sources(for: ["anna", "ben"])
        #expect(sources.map(\.receiver) == ["anna", "ben"])
        #expect(sources.allSatisfy { $0.source.offer.totalSize == nil })
    }

    @Test func `what is left out is counted, also where it has no description`() throws {
        mkdir(scratch("trip"), 0o700)
        for number in 0..<103 { symlink("nowhere", scratch("trip/\(number)")) }
        let source = SendSource.files(try FileSource(paths: [scratch("trip")]))
        #expect(source.skipped.count == 100 && source.skippedCount == 103 && source.unreadableCount == 0)
        let lines = source.leftOutLines(upTo: 3)
        #expect(lines.count == 4 && lines.last == "left out: 100 more", "\(lines)")
        #expect(lines.dropLast().allSatisfy { $0.hasPrefix("left out: /") && $0.hasSuffix(": a symbolic link") }, "\(lines)")
        #expect(try SendSource.text("hello").leftOutLines(upTo: 3).isEmpty)
    }

    @Test func `what cannot be read is named before links, however many there are`() throws {
        mkdir(scratch("trip"), 0o700)
        for number in 0..<103 { symlink("nowhere", scratch("trip/\(number)")) }
        var options = FileSource.Options()
        options.skipsUnreadable = true
        let paths = [scratch("trip")] + (0..<2).map { scratch("gone\($0)") }
        let source = SendSource.files(try FileSource(paths: paths, options: options))
        #expect(source.skipped.count == 100 && source.skippedCount == 105 && source.unreadableCount == 2)
        let lines = source.leftOutLines(upTo: 3)
        #expect(lines.count == 4 && lines[0].contains("gone0") && lines[1].contains("gone1"), "\(lines)")
        #expect(lines[2].hasSuffix(": a symbolic link") && lines[3] == "left out: 102 more", "\(lines)")
        let many = (0..<101).map { scratch("gone\($0)") }
        let full = try FileSource(paths: many + [scratch("trip")], options: options)
        #expect(full.skipped.count == 100 && full.skippedCount == 204 && full.unreadableCount == 101)
        #expect(full.skipped.allSatisfy { $0.contains("gone") })
    }

    @Test func `the label of several files counts them`() {
        func offer(_ names: [String], kind: OfferedItem.Kind = .file) -> Offer {
            let items = names.compactMap { ClaimedFileName($0) }.map {
                OfferedItem(kind: kind, name: $0, size: 1, entryCount: 1, mediaType: .unknown)
            }
            return Offer(items: items, itemCount: UInt32(items.count), entryCount: 1, totalSize: 1)
        }
        #expect(OfferText.summary(offer(["a"])) == "a")
        #expect(OfferText.summary(offer(["a\n", "b", "c"])) == "\"a\\u{a}\" and 2 more")
        #expect(OfferText.summary(offer(["m"], kind: .text)) == "a message")
        #expect(OfferText.summary(offer([])).isEmpty)
    }
}
