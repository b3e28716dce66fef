import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct NoteSettingsTests {
    @Test("bit rates outside libopus's range are rejected", arguments: [0, -1, 5999, 256_001, .max])
    func bitrates(_ bitrate: Int) {
        #expect(NoteSettings(bitrate: bitrate) == nil)
    }

    @Test("the defaults are those of speech")
    func defaults() throws {
        let settings = try #require(NoteSettings())
        #expect(settings.bitrate == 24_000 && settings.lookAhead == 0 && settings.limit == nil)
    }

    @Test("the largest limit does not overflow")
    func limits() throws {
        let limit = try #require(NoteSizeLimit(byteCount: .max))
        #expect(limit.secondsLeft(written: 0, unwritten: 0, bitrate: 6000) == Int(Int32.max))
        #expect(!limit.isReached(written: 1 << 40, unwritten: 1e6, bitrate: 256_000))
        #expect(limit.isReached(written: .max, unwritten: 1, bitrate: 6000))
    }
}
