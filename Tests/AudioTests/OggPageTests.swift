import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct OggPageTests {
    @Test("a page is parsed with its packets and header fields")
    func fields() throws {
        let bytes = OggBuilder.page([[1, 2], [], [3]], granule: 0x0102_0304_0506_0708, flags: 5, serial: 0xdead_beef)
        let page = try #require(OggPage(startOf: (bytes + [9, 9])[...]))
        #expect(page.bytes == bytes)
        #expect(page.granule == 0x0102_0304_0506_0708 && page.serial == 0xdead_beef)
        #expect(page.isContinued && !page.isFirst && page.isLast)
        #expect(page.packets.ranges.map { Array(page.bytes[$0]) } == [[1, 2], [], [3]])
        #expect(!page.packets.lastContinues)
    }

    @Test("packets of 255 bytes and more span several segments", arguments: [254, 255, 256, 509, 510, 5000])
    func longPackets(_ count: Int) throws {
        let packet = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let page = try #require(OggPage(startOf: OggBuilder.page([packet, [1]])[...]))
        #expect(page.packets.ranges.map { Array(page.bytes[$0]) } == [packet, [1]])
    }

    @Test("a packet that continues in the next page is told apart from a complete one")
    func continuedPacket() throws {
        let page = try #require(
            OggPage(startOf: OggBuilder.page([[1], [UInt8](repeating: 2, count: 510)], continues: true)[...]))
        #expect(page.packets.ranges.map(\.count) == [1, 510] && page.packets.lastContinues)
    }

    @Test("R10: a truncated page is no page, at any length")
    func truncated() {
        let bytes = OggBuilder.page([[UInt8](repeating: 1, count: 300)])
        for count in 0..<bytes.count { #expect(OggPage(startOf: bytes.prefix(count)) == nil) }
        #expect(OggPage(startOf: bytes[...]) != nil)
    }

    @Test("R10: a page with any changed byte is refused")
    func changed() {
        let bytes = OggBuilder.page([[1, 2, 3]])
        for index in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[index] ^= 1 << UInt8(bit)
                #expect(OggPage(startOf: changed[...]) == nil, "byte \(index), bit \(bit)")
            }
        }
    }

    @Test("another version of the format is refused")
    func version() {
        var bytes = OggBuilder.page([[1]])
        bytes[4] = 1
        #expect(OggPage.byteCount(startOf: bytes[...]) == nil)
    }

    @Test("pages are found in slices that do not begin at 0")
    func slices() throws {
        let bytes = OggBuilder.page([[1, 2, 3]])
        let page = try #require(OggPage(startOf: ([0, 0, 0] + bytes)[3...]))
        #expect(page.bytes == bytes)
    }

    @Test("the largest page and an empty one have their sizes")
    func sizes() throws {
        let largest = OggBuilder.page(
            lacing: [UInt8](repeating: 255, count: 255), body: [UInt8](repeating: 1, count: 255 * 255))
        #expect(largest.count == OggPage.maximumByteCount)
        #expect(OggPage(startOf: largest[...])?.packets.lastContinues == true)
        let empty = try #require(OggPage(startOf: OggBuilder.page([])[...]))
        #expect(empty.packets.ranges.isEmpty && empty.bytes.count == OggPage.fixedByteCount)
    }

    @Test("a truncated page keeps its first packets and ends the stream", arguments: [1, 2, 3, 7])
    func truncating(_ count: Int) throws {
        let packets = [[UInt8](repeating: 1, count: 300), [2], [3, 3]]
        var page = try #require(OggPage(startOf: OggBuilder.page(packets, granule: 3000)[...]))
        page.truncate(toPackets: count, granule: 1234)
        let parsed = try #require(OggPage(startOf: page.bytes[...]))
        #expect(parsed == page && parsed.isLast && parsed.granule == 1234)
        #expect(parsed.packets.ranges.map { Array(parsed.bytes[$0]) } == Array(packets.prefix(count)))
    }

    @Test("an incomplete packet is dropped when a page is truncated")
    func truncatingContinued() throws {
        var page = try #require(
            OggPage(startOf: OggBuilder.page([[1], [UInt8](repeating: 2, count: 255)], continues: true)[...]))
        page.truncate(toPackets: 5, granule: -1)
        #expect(page.packets.ranges.map { Array(page.bytes[$0]) } == [[1]] && page.granule == -1)
    }

    @Test("replaced bytes get a new checksum")
    func replacing() throws {
        var page = try #require(OggPage(startOf: OggBuilder.page([[1, 2, 3]])[...]))
        page.replace(29..<31, with: [8, 9])
        #expect(OggPage(startOf: page.bytes[...]) == page)
        #expect(Array(page.bytes.suffix(3)) == [1, 8, 9])
    }
}

@Suite struct OpusHeadTests {
    @Test("channels, pre-skip and rate are read, of any compatible version", arguments: [UInt8(0), 1, 15])
    func fields(_ version: UInt8) throws {
        let head = try OpusHead(OggBuilder.head(version: version, channels: 2, preSkip: 65_535)[...])
        #expect(head.channels == 2 && head.preSkip == 65_535 && head.inputRate == 16_000)
    }

    @Test("R10: a truncated header is refused, at any length")
    func truncated() {
        for count in 0..<19 { #expect(throws: AudioError.self) { try OpusHead(OggBuilder.head().prefix(count)) } }
    }

    @Test("other codecs, versions, channel counts and mappings are refused")
    func unsupported() {
        let others = [
            Array("OpusHeap".utf8) + [UInt8](repeating: 1, count: 11), OggBuilder.head(version: 16),
            OggBuilder.head(channels: 0),
            OggBuilder.head(channels: 3), OggBuilder.head(channels: 255), OggBuilder.head(family: 1),
        ]
        for bytes in others { #expect(throws: AudioError.self) { try OpusHead(bytes[...]) } }
    }
}

@Suite struct NoteTagsTests {
    @Test("names of tags are compared without case, and the first of several counts")
    func names() throws {
        let tags = try NoteTags(OggBuilder.tags(["artist=Anna", "ARTIST=Ben", "Date=2026-11-21", "TITLE=x"])[...])
        #expect(tags.speaker == "Anna" && tags.recorded == WallTime(iso8601: "2026-11-21") && tags.waveform == nil)
    }

    @Test("values may contain an equals sign and anything else; comments without one are skipped")
    func values() throws {
        #expect(try NoteTags(OggBuilder.tags(["ARTIST", "ARTIST=a=b"])[...]).speaker == "a=b")
        #expect(try NoteTags(OggBuilder.tags(["ARTIST="])[...]).speaker?.isEmpty == true)
        let invalid = try NoteTags(OggBuilder.tags([Array("ARTIST=".utf8) + [0xff, 0xfe]])[...])
        #expect(invalid.speaker == "\u{fffd}\u{fffd}")
    }

    @Test("a date or waveform that is not valid is missing")
    func invalidValues() throws {
        let tags = try NoteTags(OggBuilder.tags(["DATE=yesterday", "NEARSHARE_WAVEFORM=AAA"])[...])
        #expect(tags == NoteTags())
    }

    @Test("R10: truncated tags are refused, at any length")
    func truncated() {
        let bytes = OggBuilder.tags(["ARTIST=anna", "DATE=2026-11-21"])
        for count in 0..<bytes.count { #expect(throws: AudioError.self, "\(count)") { try NoteTags(bytes.prefix(count)) } }
        #expect(throws: Never.self) { try NoteTags(bytes[...]) }
    }

    @Test("padding after the last tag is allowed")
    func padding() throws {
        #expect(try NoteTags((OggBuilder.tags(["ARTIST=anna"]) + [UInt8](repeating: 0, count: 512))[...]).speaker == "anna")
    }
}
