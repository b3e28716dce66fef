import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// An input whose reads run a test's code first, on the recording thread.
private final class ScriptedInput: AudioInput {
    let format = AudioFormat.speech
    var lostFrames: UInt64 { 0 }
    private var reads = 0
    private let script: (Int) -> AudioReading

    init(_ script: @escaping (Int) -> AudioReading) { self.script = script }

    func read(into buffer: UnsafeMutableBufferPointer<Int16>) -> AudioReading {
        defer { reads += 1 }
        let reading = script(reads)
        if case .frames(let count) = reading {
            for index in 0..<count { buffer[index] = index % 40 < 20 ? 9000 : -9000 }
        }
        return reading
    }

    func close() {}
}

@Suite struct RecordingTests {
    private func record(trims: Bool = false, _ body: @escaping (Recording, Int) -> AudioReading) throws
        -> (result: Recording.Result, recording: Recording, file: NoteFile)
    {
        let recording = Recording(trims: trims)
        let file = try NoteFile.temporary()
        let result = try recording.run(
            from: ScriptedInput { body(recording, $0) }, into: file, settings: try #require(NoteSettings()))
        return (result, recording, file)
    }

    @Test func `the remaining time is that until the maximum duration`() throws {
        let recording = Recording(trims: false, maximumDuration: .seconds(30))
        var left: [Int?] = []
        _ = try recording.run(
            from: ScriptedInput { read in
                left.append(recording.snapshot.secondsLeft)
                return read < 5 ? .frames(8000) : .end
            }, into: NoteFile.temporary(), settings: try #require(NoteSettings()))
        #expect(Array(left[1...4]) == [29, 29, 28, 28])
    }

    @Test("paused sound is not recorded")
    func pausing() throws {
        let (result, recording, file) = try record { recording, read in
            if read == 10 || read == 20 { recording.togglePause() }
            return read < 30 ? .frames(1600) : .end
        }
        #expect(result.reason == .sourceEnded && result.recorded == .seconds(2))
        #expect(try NoteSummary(of: file).duration == .seconds(2))
        #expect(recording.snapshot.phase == .finished(.sourceEnded) && recording.snapshot.elapsed == .seconds(2))
    }

    @Test("a stop is noticed within one read, and everything before it is kept")
    func stopping() throws {
        let (result, _, file) = try record { recording, read in
            if read == 5 { recording.stop(.requested) }
            return .frames(1600)
        }
        #expect(result.reason == .requested && result.recorded == .milliseconds(500))
        #expect(try !NoteSummary(of: file).isCut)
    }

    @Test("a stop while no sound arrives is noticed")
    func stoppingSilence() throws {
        let (result, _, file) = try record { recording, read in
            if read == 3 { recording.stop(.interrupted) }
            return .timedOut
        }
        #expect(result.reason == .interrupted && result.isEmpty && result.duration == .zero && file.size == 0)
    }

    @Test("a recording that is stopped before it begins is empty")
    func stoppedBefore() throws {
        let recording = Recording(trims: false, maximumDuration: .seconds(1))
        recording.stop(.terminated)
        let result = try recording.run(
            from: ScriptedInput { _ in .frames(100) }, into: try NoteFile.temporary(), settings: try #require(NoteSettings()))
        #expect(result.reason == .terminated && result.isEmpty)
    }

    @Test("the caller is told once that sound has begun")
    func started() throws {
        var calls = 0
        _ = try Recording(trims: false).run(
            from: ScriptedInput { $0 < 3 ? .timedOut : $0 < 6 ? .frames(100) : .end }, into: try NoteFile.temporary(),
            settings: try #require(NoteSettings()), started: { calls += 1 })
        #expect(calls == 1)
    }

    @Test("the snapshot shows level, size and sound")
    func snapshot() throws {
        let (_, recording, file) = try record { _, read in read < 20 ? .frames(1600) : .end }
        let snapshot = recording.snapshot
        #expect(snapshot.level > 0.7 && !snapshot.isClipping && snapshot.hasSound)
        #expect(snapshot.recentLevels.count == 20 && snapshot.secondsLeft == nil)
        #expect(snapshot.byteCount > 0 && snapshot.byteCount <= file.size + 4096)
    }
}

@Suite struct DamagedNoteTests {
    @Test("R10: a note cut at any page decodes to its end or is refused")
    func cutAtPages() throws {
        let note = try Spoiler(seconds: 3)
        for end in note.cuts.dropFirst() {
            let file = try NoteFile.temporary()
            try file.write(Array(note.bytes[..<end]), at: 0)
            guard let reader = try? NoteReader(file) else { continue }
            #expect(reader.frames <= 3 * 48_000)
            #expect(try Notes.decode(file).count <= 3 * 48_000)
        }
    }

    @Test("R10: empty and nearly empty files are refused", arguments: [0, 1, 4, 27, 47])
    func empty(_ count: Int) throws {
        let note = try Spoiler(seconds: 1)
        let file = try NoteFile.temporary()
        try file.write(Array(note.bytes.prefix(count)), at: 0)
        #expect(throws: AudioError.self) { try NoteSummary(of: file) }
        #expect(throws: AudioError.self) { try NoteReader(file) }
    }

    @Test("R10: a claimed length beyond the sound does not break playback", arguments: [Int64(1), 5, 5760])
    func longerThanItIs(_ factor: Int64) throws {
        let note = try Spoiler(seconds: 1)
        let last = note.page(note.pageCount - 1)
        var page = last
        page.truncate(toPackets: last.packets.ranges.count, granule: last.granule * factor)
        let file = try NoteFile.temporary()
        try file.write(note.replacing(note.pageCount - 1, by: page.bytes), at: 0)
        guard let reader = try? NoteReader(file) else { return }
        let playback = Playback()
        playback.skip(.seconds(1))
        _ = try? playback.run(reader, on: try InMemoryAudio().openOutput(device: nil, format: reader.format))
        #expect(playback.snapshot.position >= .zero)
    }

    @Test("R10: the whole file and nothing but the file is described", arguments: [0, 1, 100])
    func trailingBytes(_ count: Int) throws {
        let note = try Spoiler(seconds: 1)
        let summary = try note.summary(note.bytes + [UInt8](repeating: 0, count: count))
        #expect(summary.byteCount == UInt64(note.bytes.count + count) && !summary.isCut)
    }

    @Test("the largest skips do not overflow", arguments: [Duration.seconds(Int64.max), .seconds(Int64.min)])
    func skips(_ duration: Duration) throws {
        let note = try Spoiler(seconds: 1)
        let file = try NoteFile.temporary()
        try file.write(note.bytes, at: 0)
        let playback = Playback()
        playback.skip(duration)
        playback.skip(duration)
        let reader = try NoteReader(file)
        #expect(try playback.run(reader, on: try InMemoryAudio().openOutput(device: nil, format: reader.format)))
    }
}

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
        #expect(summary.granules == Int64(frames * 3) && !summary.isCut)
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
