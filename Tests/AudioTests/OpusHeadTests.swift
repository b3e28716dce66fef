import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct OpusHeadTests {
    @Test("channels, pre-skip and rate are read, of any compatible version", arguments: [UInt8(0), 1, 15])
    func fields(_ version: UInt8) throws {
        let head = try OpusHead(OggBuilder.head(version: version, channels: 2, preSkip: 65_535)[...])
        #expect(head.channels == 2 && head.preSkip == 65_535 && head.inputRate == 16_000)
    }

    @Test("R10: a truncated header is rejected, at any length")
    func truncated() {
        for count in 0..<19 { #expect(throws: AudioError.self) { try OpusHead(OggBuilder.head().prefix(count)) } }
    }

    @Test("other codecs, versions, channel counts and mappings are rejected")
    func unsupported() {
        let others = [
            Array("OpusHeap".utf8) + [UInt8](repeating: 1, count: 11), OggBuilder.head(version: 16),
            OggBuilder.head(channels: 0),
            OggBuilder.head(channels: 3), OggBuilder.head(channels: 255), OggBuilder.head(family: 1),
        ]
        for bytes in others { #expect(throws: AudioError.self) { try OpusHead(bytes[...]) } }
    }
}
