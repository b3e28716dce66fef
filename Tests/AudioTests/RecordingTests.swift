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
        #expect(try !NoteSummary(of: file).isTruncated)
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
