import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct VoiceLimitTests {
    @Test("the mesh takes nearly half an hour of speech")
    func mesh() {
        let seconds = NoteSizeLimit.mesh.secondsLeft(written: 0, unwritten: 0, bitrate: 24_000)
        #expect((1680...1710).contains(seconds))
    }

    @Test("counts down, and never below nothing")
    func countDown() throws {
        let limit = try #require(NoteSizeLimit(byteCount: 50_000))
        let before = limit.secondsLeft(written: 10_000, unwritten: 1, bitrate: 24_000)
        #expect(limit.secondsLeft(written: 13_080, unwritten: 1, bitrate: 24_000) == before - 1)
        #expect(limit.secondsLeft(written: .max, unwritten: 1, bitrate: 24_000) == 0)
        #expect(limit.isReached(written: 49_000, unwritten: 0, bitrate: 24_000))
        #expect(!limit.isReached(written: 10_000, unwritten: 1, bitrate: 24_000))
    }

    @Test("of two ways the narrower counts, and none is no limit") func smaller() throws {
        let narrow = try #require(NoteSizeLimit(byteCount: 115_000))
        #expect(NoteSizeLimit.smaller(.mesh, narrow) == narrow)
        #expect(NoteSizeLimit.smaller(narrow, .mesh) == narrow)
        #expect(NoteSizeLimit.smaller(nil, narrow) == narrow)
        #expect(NoteSizeLimit.smaller(narrow, nil) == narrow)
        #expect(NoteSizeLimit.smaller(nil, nil) == nil)
    }

    @Test func `a limit in which no note fits is rejected`() {
        #expect(NoteSizeLimit(byteCount: 100) == nil)
    }
}
