import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct NoteWriterTests {
    private func write(_ samples: [Int16], settings: NoteSettings? = NoteSettings(), frames: Int? = nil) throws -> NoteFile {
        let file = try NoteFile.temporary()
        let writer = try NoteWriter(to: file, rate: 16_000, settings: try #require(settings))
        try samples.withUnsafeBufferPointer { try writer.write($0, soundEnd: frames ?? samples.count) }
        #expect(try writer.finish(frames: frames ?? samples.count))
        #expect(writer.byteCount == file.size)
        return file
    }

    @Test("a writer without samples leaves an empty file, however often it is finished")
    func nothing() throws {
        let file = try NoteFile.temporary()
        let writer = try NoteWriter(to: file, rate: 16_000, settings: try #require(NoteSettings()))
        #expect(try !writer.finish(frames: 0) && !writer.finish(frames: 0))
        #expect(file.size == 0 && writer.duration == .zero)
    }

    @Test("the end is cut to the frame", arguments: [1, 320, 8000, 15_999, 16_000])
    func cut(_ frames: Int) throws {
        let summary = try NoteSummary(of: try write(Tones.sine(seconds: 2), frames: frames))
        #expect(summary.granules == Int64(frames * 3) && !summary.isTruncated)
    }

    @Test("no two notes have the same serial number")
    func serials() throws {
        let serials = try (0..<4).map { _ in
            let file = try write(Tones.sine(seconds: 0.1))
            return try #require(OggPage(startOf: try file.read(1000, at: 0)[...])).serial
        }
        #expect(Set(serials).count > 1)
    }

    @Test(
        "tags with any text are written and read",
        arguments: ["", "ö", "a=b", "line\nbreak", String(repeating: "n", count: 255)])
    func speakers(_ speaker: String) throws {
        let file = try write(Tones.sine(seconds: 0.1), settings: NoteSettings(speaker: speaker))
        #expect(try NoteSummary(of: file).tags.speaker == speaker)
    }
}
