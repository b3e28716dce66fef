import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

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

    @Test("R10: truncated tags are rejected, at any length")
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
