import Glibc
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// Encodes samples as the recorder does, and reads them back with the decoder.
enum Notes {
    @discardableResult
    static func record(
        _ samples: [Int16], into file: NoteFile, rate: Int = 16_000, trims: Bool = false,
        settings: NoteSettings = NoteSettings()!,
        ending: InMemoryAudio.Ending = .end, lost: UInt64 = 0, duration: Duration? = nil
    ) throws -> Recording.Result {
        let audio = InMemoryAudio(samples, ending: ending, lost: lost)
        let input = try audio.openInput(device: nil, format: #require(AudioFormat(rate: rate, channels: 1)))
        return try Recording(trims: trims, maximumDuration: duration).run(from: input, into: file, settings: settings)
    }

    static func decode(_ file: NoteFile) throws -> [Int16] {
        let reader = try NoteReader(file)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 5760 * 2)
        defer { buffer.deallocate() }
        var samples: [Int16] = []
        while true {
            let count = try reader.read(into: buffer)
            if count == 0 { return samples }
            samples += buffer[..<(count * reader.format.channels)]
        }
    }
}

@Suite struct NoteTests {
    @Test(
        "a note is decoded with the length and the sound that were recorded", arguments: [8000, 16_000, 44_100, 48_000],
        [0.01, 0.5, 2.51])
    func roundTrip(_ rate: Int, _ seconds: Double) throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        let samples = Tones.sine(seconds: seconds, rate: rate)
        let result = try Notes.record(samples, into: file, rate: rate)
        #expect(result.reason == .sourceEnded && !result.isEmpty && result.lostFrames == 0)
        let summary = try NoteSummary(of: file)
        #expect(abs(summary.granules - Int64(samples.count * 48_000 / rate)) <= 1)
        #expect(!summary.isTruncated && summary.channels == 1)
        let decoded = try Notes.decode(file)
        #expect(abs(decoded.count - Int(summary.granules)) <= 1)
        if seconds > 1 {
            #expect(Tones.correlation(Tones.sine(seconds: seconds, rate: 48_000), decoded, shift: 2) > 0.95)
        }
    }

    @Test("a note has the speaker, the time and a waveform in its tags, which are read without decoding")
    func tags() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        let when = WallTime(milliseconds: 1_795_259_533_000)
        let samples = Tones.sine(seconds: 1, amplitude: 30_000) + Tones.silence(seconds: 1)
        try Notes.record(samples, into: file, settings: try #require(NoteSettings(speaker: "Anna Ö", recorded: when)))
        let tags = try NoteSummary(of: file).tags
        #expect(tags.speaker == "Anna Ö" && tags.recorded == when)
        let peaks = try #require(tags.waveform).peaks
        #expect(peaks[10] > 55 && peaks[100] == 0)
    }

    @Test("silence at both ends is cut, and the stream has an end", arguments: [0, 0.3, 1, 7.77])
    func trimming(_ after: Double) throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        let samples = Tones.silence(seconds: 2) + Tones.sine(seconds: 1.5) + Tones.silence(seconds: after)
        let result = try Notes.record(samples, into: file, trims: true)
        let expected = 0.2 + 1.5 + min(0.2, after)
        let summary = try NoteSummary(of: file)
        #expect(abs(Double(summary.granules) / 48_000 - expected) < 0.03)
        #expect(abs(result.duration.inSeconds - expected) < 0.03)
        #expect(!summary.isTruncated)
        #expect(abs(try Notes.decode(file).count - Int(summary.granules)) <= 1)
        #expect(result.byteCount == file.size)
    }

    @Test("a recording of silence alone is empty")
    func onlySilence() throws {
        let scratch = ScratchFolder()
        #expect(try Notes.record(Tones.silence(seconds: 3), into: scratch.note(), trims: true).isEmpty)
    }

    @Test("a microphone that vanishes leaves a whole note")
    func deviceGone() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        let gone = AudioError(.deviceGone, "the microphone has gone")
        let result = try Notes.record(Tones.sine(seconds: 1.23), into: file, ending: .failure(gone))
        #expect(result.reason == .failed(gone))
        #expect(abs(try NoteSummary(of: file).duration.inSeconds - 1.23) < 0.001)
    }

    @Test("a recording ends at its maximum duration, to the frame")
    func duration() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        let result = try Notes.record(Tones.sine(seconds: 3), into: file, duration: .milliseconds(1500))
        #expect(result.reason == .duration)
        #expect(try NoteSummary(of: file).granules == 72_000)
    }

    @Test("the result has the number of lost frames")
    func lost() throws {
        let scratch = ScratchFolder()
        #expect(try Notes.record(Tones.sine(seconds: 0.1), into: scratch.note(), lost: 77).lostFrames == 77)
    }

    @Test(
        "a recording that reaches its size limit ends below it, and keeps everything recorded",
        arguments: [6000, 24_000, 256_000])
    func limit(_ bitrate: Int) throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        // Half a minute at the requested bit rate.
        let limit = try #require(NoteSizeLimit(byteCount: UInt64(bitrate / 8 * 30)))
        var random = SeededRandom(seed: UInt64(bitrate))
        // Noise is what costs the encoder most.
        let samples = (0..<(16_000 * 40)).map { _ in Int16(truncatingIfNeeded: random.next() >> 50) }
        let result = try Notes.record(
            samples, into: file, settings: try #require(NoteSettings(bitrate: bitrate, limit: limit)))
        #expect(file.size <= limit.byteCount)
        #expect(result.reason == .limit)
        #expect(file.size > limit.byteCount * 3 / 4)
        let summary = try NoteSummary(of: file)
        #expect(!summary.isTruncated)
        #expect(abs(summary.duration.inSeconds - result.recorded.inSeconds) < 0.001)
    }

    @Test("a full disk leaves a whole note of what was written")
    func fullDisk() throws {
        let scratch = ScratchFolder()
        // A file system of its own with room for some seconds.
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=32k") == 0 else {
            withKnownIssue("needs to be root to mount a small file system") { Issue.record("not run") }
            return
        }
        defer { umount2(scratch.path, Int32(MNT_DETACH)) }
        let file = try scratch.note()
        var random = SeededRandom(seed: 5)
        let samples = (0..<(16_000 * 60)).map { _ in Int16(truncatingIfNeeded: random.next() >> 50) }
        let result = try Notes.record(samples, into: file)
        guard case .failed(let error) = result.reason else {
            Issue.record("it did not notice: \(result)")
            return
        }
        #expect(error.code == .noSpace)
        #expect(!result.isEmpty)
        let summary = try NoteSummary(of: file)
        #expect(!summary.isTruncated && summary.duration.inSeconds > 3)
        #expect(summary.tags.waveform != nil)
        #expect(abs(try Notes.decode(file).count - Int(summary.granules)) <= 1)
    }

    @Test("a recording whose end does not fit on the disk fails")
    func diskFullAtTheEnd() throws {
        let scratch = ScratchFolder()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=12k") == 0 else {
            withKnownIssue("needs to be root to mount a small file system") { Issue.record("not run") }
            return
        }
        defer { umount2(scratch.path, Int32(MNT_DETACH)) }
        var random = SeededRandom(seed: 6)
        let samples = (0..<(16_000 * 10)).map { _ in Int16(truncatingIfNeeded: random.next() >> 50) }
        // Around the length that just fits, the end is written after the recording has stopped.
        let full = Int(try Notes.record(samples, into: scratch.note()).recorded.inSeconds * 16_000)
        unlink(scratch("note.opus"))
        for count in stride(from: full - 16_000, through: full, by: 800) {
            let file = try scratch.note()
            defer { unlink(file.path) }
            let result = try Notes.record(Array(samples[..<count]), into: file)
            if case .failed = result.reason { continue }
            #expect(abs(try Notes.decode(file).count - count * 3) <= 1, "\(count) frames")
        }
    }

    @Test("an existing file is not replaced")
    func existing() throws {
        let scratch = ScratchFolder()
        _ = try scratch.note()
        #expect(try NoteFile.create(scratch("note.opus")) == nil)
    }
}

@Suite struct PlaybackTests {
    @Test("a note that is played to its end was played as a whole")
    func all() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 1), into: file)
        let audio = InMemoryAudio()
        let playback = Playback()
        let reader = try NoteReader(file)
        #expect(try playback.run(reader, on: audio.openOutput(device: nil, format: reader.format)))
        #expect(audio.played.count == 48_000)
        #expect(playback.snapshot.position == .seconds(1))
    }

    @Test("skipping past the end ends the playback, skipping back past the start begins it again")
    func skipping() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 3), into: file)
        for (skip, frames) in [(100, 0...5760), (-100, (3 * 48_000)...(3 * 48_000)), (2, (47_000)...(49_000))] {
            let audio = InMemoryAudio()
            let playback = Playback()
            playback.skip(.seconds(skip))
            let reader = try NoteReader(file)
            #expect(try playback.run(reader, on: audio.openOutput(device: nil, format: reader.format)))
            #expect(frames.contains(audio.played.count), "\(skip): \(audio.played.count)")
        }
    }

    @Test func `a paused playback waits for the next request, and goes on`() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 1), into: file)
        let audio = InMemoryAudio()
        let playback = Playback()
        playback.togglePause()
        let reader = try NoteReader(file)
        let output = CountingOutput(try audio.openOutput(device: nil, format: reader.format)) { count in
            // A skip of no length wakes it without ending the pause.
            count == 1 ? playback.skip(.zero) : playback.togglePause()
        }
        #expect(try playback.run(reader, on: output))
        #expect(audio.played.count == 48_000)
        #expect(output.waitCount == 2)
    }

    @Test func `a playback that was stopped before it began plays nothing`() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 1), into: file)
        let audio = InMemoryAudio()
        let playback = Playback()
        playback.stop()
        let reader = try NoteReader(file)
        #expect(try !playback.run(reader, on: audio.openOutput(device: nil, format: reader.format)))
        #expect(audio.played.isEmpty)
    }
}

/// Counts the waits of a paused playback, and runs a request before each.
private final class CountingOutput: AudioOutput {
    private let output: any AudioOutput
    private let request: (Int) -> Void
    private(set) var waitCount = 0

    init(_ output: any AudioOutput, request: @escaping (Int) -> Void) {
        self.output = output
        self.request = request
    }

    var format: AudioFormat { output.format }
    var pendingFrames: Int { output.pendingFrames }
    func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int { try output.write(samples) }
    func idle(until wakeup: EventFD) throws(AudioError) {
        waitCount += 1
        request(waitCount)
        try output.idle(until: wakeup)
    }
    func setPaused(_ isPaused: Bool) throws(AudioError) { try output.setPaused(isPaused) }
    func discard() throws(AudioError) { try output.discard() }
    func drain() throws(AudioError) -> Bool { try output.drain() }
    func close() { output.close() }
}
