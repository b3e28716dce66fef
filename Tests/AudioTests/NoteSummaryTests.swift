import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// Notes made of single pages, so that every number in them can be chosen.
@Suite struct NoteSummaryTests {
    @Test("length, size, tags and bit rate come from the pages")
    func complete() throws {
        let bytes = OggBuilder.note(granule: 48_312, comments: ["ARTIST=anna"])
        let summary = try OggBuilder.summary(bytes)
        #expect(summary.granules == 48_000 && summary.duration == .seconds(1) && !summary.isTruncated)
        #expect(summary.tags.speaker == "anna" && summary.byteCount == UInt64(bytes.count))
        #expect(summary.bitrate == bytes.count * 8)
    }

    @Test("a note without a marked end is cut")
    func cut() throws {
        #expect(try OggBuilder.summary(OggBuilder.note(granule: 312, flags: 0)).isTruncated)
    }

    @Test("an empty note has no length and no bit rate")
    func empty() throws {
        let summary = try OggBuilder.summary(OggBuilder.note(granule: 312))
        #expect(summary.granules == 0 && summary.duration == .zero && summary.bitrate == 0)
    }

    @Test("R10: a position before the end of the pre-skip is rejected", arguments: [Int64(0), 1, 311])
    func beforePreSkip(_ granule: Int64) {
        #expect(throws: AudioError.self) { try OggBuilder.summary(OggBuilder.note(granule: granule)) }
    }

    @Test(
        "R10: positions near the ends of 64 bits are rejected",
        arguments: [Int64.min, Int64.min + 1, Int64.min + 312, -2, Int64.max, Int64.max - 1])
    func extremePositions(_ granule: Int64) {
        for preSkip in [UInt16.min, 312, .max] {
            #expect(throws: AudioError.self) { try OggBuilder.summary(OggBuilder.note(granule: granule, preSkip: preSkip)) }
        }
    }

    @Test("R10: the longest possible length for a size is accepted, one more is rejected")
    func longest() throws {
        let size = OggBuilder.note(granule: 0).count
        let most = Int64(size / 2 * 5760)
        #expect(try OggBuilder.summary(OggBuilder.note(granule: most + 312)).granules == most)
        #expect(throws: AudioError.self) { try OggBuilder.summary(OggBuilder.note(granule: most + 313)) }
    }

    @Test(
        "R10: no claimed length overflows, whatever the size of the file",
        arguments: [UInt64.max, UInt64.max / 2, 1 << 62, 1 << 50] as [UInt64])
    func hugeFiles(_ size: UInt64) throws {
        for granule in [Int64.max, Int64.max / 2, 1 << 61, 1 << 53, 312] {
            guard let summary = try? OggBuilder.summary(OggBuilder.note(granule: granule), size: size) else { continue }
            #expect(summary.granules == granule - 312)
            #expect(summary.duration.components.seconds == summary.granules / 48_000)
            #expect(summary.bitrate >= 0)
        }
        #expect(try OggBuilder.summary(OggBuilder.note(granule: .max), size: .max).granules == .max - 312)
    }

    @Test("R10: a sparse file with a page at each end is described, whatever its size", arguments: [3_300_000_000, 1 << 40])
    func sparse(_ size: UInt64) throws {
        for granule in [313, Int64(size / 2 * 5760)] {
            let scratch = ScratchFolder()
            let file = try scratch.note()
            let start =
                OggBuilder.page([OggBuilder.head()], flags: 2)
                + OggBuilder.page([OggBuilder.tags([String]())], sequence: 1)
            let end = OggBuilder.page([[3, 3, 3]], granule: granule, flags: 4, sequence: 2)
            try file.write(start, at: 0)
            try file.write(end, at: size - UInt64(end.count))
            let summary = try NoteSummary(of: file)
            #expect(summary.byteCount == size && summary.granules == granule - 312)
            #expect(summary.duration.asClock.contains(":") && summary.bitrate > 0)
        }
    }

    @Test("R10: the bit rate of a file that is no note in truth can be rounded")
    func hugeBitrate() throws {
        let summary = try OggBuilder.summary(OggBuilder.note(granule: 313), size: .max)
        #expect(summary.bitrate == 1_000_000_000_000)
    }

    @Test("R10: an empty file and other content are rejected", arguments: [0, 1, 26, 27, 1000])
    func otherContent(_ count: Int) {
        #expect(throws: AudioError.self) { try OggBuilder.summary([UInt8](repeating: 0, count: count)) }
        #expect(throws: AudioError.self) {
            try OggBuilder.summary(Array((Array("OggS".utf8) + [UInt8](repeating: 0, count: 1000)).prefix(count)))
        }
    }

    @Test("R10: a note without tags or without sound is rejected")
    func missingPages() {
        let head = OggBuilder.page([OggBuilder.head()], flags: 2)
        let tags = OggBuilder.page([OggBuilder.tags([String]())])
        let sound = OggBuilder.page([[1]], granule: 400, flags: 4)
        #expect(throws: AudioError.self) { try OggBuilder.summary(head) }
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + sound) }
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + OggBuilder.page([]) + sound) }
        // Complete headers count as a note: its end is their position.
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + tags) }
        #expect(throws: Never.self) { try OggBuilder.summary(head + tags + sound) }
    }

    @Test("tags may span several pages")
    func longTags() throws {
        let tags = OggBuilder.tags(["ARTIST=anna", "X=" + String(repeating: "x", count: 3000)])
        let half = tags.count / 2 / 255 * 255
        let bytes =
            OggBuilder.page([OggBuilder.head()], flags: 2)
            + OggBuilder.page([Array(tags[..<half])], granule: -1, continues: true)
            + OggBuilder.page([Array(tags[half...])], flags: 1) + OggBuilder.page([[1]], granule: 400, flags: 4)
        #expect(try OggBuilder.summary(bytes).tags.speaker == "anna")
    }

    @Test("R10: tags beyond the limit are skipped")
    func endlessTags() throws {
        let part = OggBuilder.page([[UInt8](repeating: 1, count: 255 * 255)], granule: -1, continues: true)
        let bytes =
            OggBuilder.page([OggBuilder.head()], flags: 2) + part + part + OggBuilder.page([[1]], granule: 400, flags: 4)
        #expect(try OggBuilder.summary(bytes).tags == NoteTags())
    }

    @Test("pages without a position are skipped in the search for the end")
    func lastPosition() throws {
        let bytes =
            OggBuilder.note(granule: 1272, flags: 0)
            + OggBuilder.page([[UInt8](repeating: 1, count: 255)], granule: -1, continues: true)
        let summary = try OggBuilder.summary(bytes)
        #expect(summary.granules == 960 && summary.isTruncated)
    }

    @Test("R10: a stream that begins or interleaves inside the note is rejected")
    func otherStreams() {
        let head = OggBuilder.page([OggBuilder.head()], flags: 2)
        let tags = OggBuilder.page([OggBuilder.tags([String]())])
        let other = OggBuilder.page([[1]], granule: 400, flags: 4, serial: 8)
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + tags + other) }
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + other + tags) }
        #expect(throws: AudioError.self) { try OggBuilder.summary(head + head + tags) }
        #expect(throws: AudioError.self) { try OggBuilder.summary(OggBuilder.page([OggBuilder.head()]) + tags) }
    }
}

@Suite struct NotePageIndexTests {
    /// An index with header pages of 100 bytes and pages of sound of 1000 bytes at the granules.
    private func index(_ granules: [Int64], limit: UInt64 = .max, soundEnd: Int64 = 0) -> NotePageIndex {
        var index = NotePageIndex(limit: limit)
        append(OggBuilder.page([OggBuilder.head()], flags: 2), to: &index)
        append(OggBuilder.page([[UInt8](repeating: 0, count: 52)]), to: &index)
        index.extendSound(to: soundEnd)
        for granule in granules { append(OggBuilder.page([[UInt8](repeating: 0, count: 968)], granule: granule), to: &index) }
        return index
    }

    private func append(_ bytes: [UInt8], to index: inout NotePageIndex) {
        bytes.withUnsafeBytes { index.append($0) }
    }

    @Test("headers are no sound")
    func headers() {
        let index = index([])
        #expect(index.preSkip == 312 && index.tags?.offset == 47 && index.last == nil)
        #expect(index.duration == 0 && index.cutPage(at: 100) == nil)
    }

    @Test("the last page ends the note while all sound belongs to it")
    func last() {
        let index = index([1000, 2000, 3000])
        #expect(index.duration == 3000 - 312)
        #expect(index.cutPage(at: 5000) == index.last)
    }

    @Test("a note ends in the first page that contains its end")
    func cut() {
        #expect(index([1000, 2000, 3000], soundEnd: 1200).cutPage(at: 1512)?.granule == 2000)
        // The candidate is too early for a note that turned out to be longer.
        #expect(index([1000, 2000, 3000], soundEnd: 100).cutPage(at: 2500)?.granule == 3000)
    }

    @Test("sound after a candidate page moves the end")
    func extended() {
        var index = index([1000, 2000], soundEnd: 500)
        index.extendSound(to: 2000)
        append(OggBuilder.page([[1]], granule: 4000), to: &index)
        #expect(index.cutPage(at: 2312)?.granule == 4000)
    }

    @Test("a note never exceeds its size limit")
    func limited() {
        let whole = index([1000, 2000, 3000])
        let limited = index([1000, 2000, 3000], limit: whole.byteCount - 1)
        #expect(limited.cutPage(at: .max)?.granule == 2000)
    }

    @Test("a page that is cut becomes the last one")
    func cutting() {
        var index = index([1000, 2000, 3000])
        let page = NotePageIndex.Page(offset: 500, byteCount: 20, granule: 700)
        index.cut(at: page)
        #expect(index.last == page && index.byteCount == 520 && index.duration == 388)
    }

    @Test("positions at the ends of 64 bits do not overflow", arguments: [Int64.min, -1, .max])
    func extremes(_ granule: Int64) {
        let index = index([granule])
        #expect(index.duration >= 0)
    }
}
