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

    @Test("R10: a page with any changed byte is rejected")
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

    @Test("another version of the format is rejected")
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
