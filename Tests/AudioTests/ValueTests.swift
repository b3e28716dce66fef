import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct WaveformTests {
    @Test("peaks survive being written as a tag")
    func tag() throws {
        let peaks = (0..<Waveform.count).map { UInt8($0 % 64) }
        let waveform = try #require(Waveform(peaks: peaks))
        #expect(Waveform(text: waveform.text[...]) == waveform)
    }

    @Test(
        "what is no waveform is none",
        arguments: ["", "AAAA", String(repeating: ".", count: 128), String(repeating: "é", count: 64)])
    func bad(_ text: String) {
        #expect(Waveform(text: Array(text.utf8)[...]) == nil)
    }

    @Test("a loud half and a soft half look like it, however long", arguments: [1.0, 60, 400])
    func halves(_ seconds: Double) throws {
        let rate = 8000
        var builder = WaveformBuilder(rate: rate)
        let half = Int(seconds / 2 * Double(rate))
        for (amplitude, count) in [(Int16(32_767), half), (Int16(8192), half)] {
            let piece = [Int16](repeating: amplitude, count: min(count, 4000))
            var left = count
            while left > 0 {
                piece.prefix(left).withUnsafeBufferPointer { builder.take($0) }
                left -= min(left, piece.count)
            }
        }
        let peaks = builder.waveform(frames: 2 * half).peaks
        #expect(peaks[10] == 63 && peaks[60] == 63)
        // A quarter of full scale is a half on a scale of square roots.
        #expect(peaks[70] == 32 && peaks[120] == 32)
        // The half that is cut away is not seen.
        #expect(builder.waveform(frames: half - rate / 20).peaks.allSatisfy { $0 == 63 })
    }

    @Test("heights fill any width and reach 1", arguments: [0, 1, 7, 128, 500])
    func heights(_ columns: Int) throws {
        let waveform = try #require(Waveform(peaks: (0..<128).map { UInt8($0 / 4) }))
        let heights = waveform.heights(columns: columns)
        #expect(heights.count == columns)
        #expect(columns == 0 || heights.max() == 1)
    }

    @Test func emptyRecording() {
        #expect(WaveformBuilder(rate: 16_000).waveform(frames: 0).peaks.allSatisfy { $0 == 0 })
    }
}

@Suite struct SilenceGateTests {
    private func run(_ samples: [Int16], isOn: Bool = true, piece: Int = 700) -> (kept: [Int16], frames: Int, hasSound: Bool) {
        var gate = SilenceTrimmer(rate: 16_000, isOn: isOn)
        var kept: [Int16] = []
        var rest = samples[...]
        while !rest.isEmpty {
            Array(rest.prefix(piece)).withUnsafeBufferPointer { piece in
                gate.take(piece) { samples, frames in
                    kept += samples
                    #expect(frames <= kept.count)
                }
            }
            rest = rest.dropFirst(piece)
        }
        return (kept, gate.frames, gate.hasSound)
    }

    @Test("silence before and after is left out but for a margin", arguments: [1, 319, 320, 700, 8192])
    func ends(_ piece: Int) {
        let tone = Tones.sine(seconds: 1)
        let result = run(Tones.silence(seconds: 3) + tone + Tones.silence(seconds: 2), piece: piece)
        #expect(result.hasSound)
        // A margin of 200 ms on each side, and windows of 20 ms.
        #expect(abs(result.frames - (16_000 + 2 * 3200)) <= 2 * 320)
        #expect(result.kept.firstIndex { $0 != 0 }.map { (3200...(3200 + 320)).contains($0) } == true)
    }

    @Test("a pause in the middle stays")
    func middle() {
        let word = Tones.sine(seconds: 0.5)
        let result = run(word + Tones.silence(seconds: 5) + word)
        #expect(result.frames == 6 * 16_000)
    }

    @Test func onlySilence() {
        let result = run(Tones.silence(seconds: 2).map { _ in Int16.random(in: -20...20) })
        #expect(!result.hasSound && result.kept.isEmpty && result.frames == 0)
    }

    @Test func off() {
        let samples = Tones.silence(seconds: 1)
        let result = run(samples, isOn: false)
        #expect(result.kept == samples && result.frames == samples.count)
    }

    @Test("a whisper 50 dB below full scale is speech")
    func whisper() {
        #expect(run(Tones.sine(seconds: 1, amplitude: 150)).hasSound)
    }
}

@Suite struct LevelMeterTests {
    @Test func scale() {
        func level(_ amplitude: Int16) -> Double {
            var meter = LevelMeter(rate: 16_000)
            [amplitude].withUnsafeBufferPointer { meter.take($0) }
            return meter.level
        }
        #expect(level(0) == 0)
        #expect(level(.min) == 1)
        // 20 dB below full scale, on a scale of 60 dB.
        #expect(abs(level(3277) - 2.0 / 3) < 0.01)
        #expect(level(10) == 0)
    }

    @Test("jumps up at once, falls 24 dB in a second")
    func fall() {
        var meter = LevelMeter(rate: 16_000)
        [Int16.max].withUnsafeBufferPointer { meter.take($0) }
        #expect(meter.isClipping)
        Tones.silence(seconds: 1).withUnsafeBufferPointer { meter.take($0) }
        #expect(abs(meter.level - 0.6) < 0.01)
        #expect(!meter.isClipping)
    }
}

@Suite struct VoiceLimitTests {
    @Test("the frame path takes nearly half an hour of speech")
    func framePath() {
        let seconds = NoteSizeLimit.framePath.secondsLeft(written: 0, unwritten: 0, bitrate: 24_000)
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
        #expect(NoteSizeLimit.smaller(.framePath, narrow) == narrow)
        #expect(NoteSizeLimit.smaller(narrow, .framePath) == narrow)
        #expect(NoteSizeLimit.smaller(nil, narrow) == narrow)
        #expect(NoteSizeLimit.smaller(narrow, nil) == narrow)
        #expect(NoteSizeLimit.smaller(nil, nil) == nil)
    }

    @Test func absurdlySmall() {
        #expect(NoteSizeLimit(byteCount: 100) == nil)
    }
}

@Suite struct RecorderMachineTests {
    @Test func story() {
        var machine = RecorderMachine()
        machine.togglePause()
        #expect(machine.state == .idle)
        #expect(machine.take(100) == 100)
        #expect(machine.state == .recording)
        machine.togglePause()
        #expect(machine.state == .paused)
        #expect(machine.take(100) == 0)
        machine.togglePause()
        #expect(machine.take(50) == 50)
        #expect(machine.frames == 150)
        machine.end(.asked)
        #expect(machine.state == .finished(.asked))
        #expect(machine.take(10) == 0)
    }

    @Test("what ends it first counts")
    func firstEnding() {
        var machine = RecorderMachine()
        machine.maximumFrames = 120
        #expect(machine.take(100) == 100)
        #expect(machine.take(100) == 20)
        #expect(machine.ending == .duration)
        machine.end(.interrupted)
        machine.togglePause()
        machine.started()
        #expect(machine.ending == .duration)
    }

    @Test("can be ended while paused, and before there was sound")
    func early() {
        var machine = RecorderMachine()
        machine.end(.terminated)
        #expect(machine.ending == .terminated)
        var other = RecorderMachine()
        other.started()
        other.togglePause()
        other.end(.limit)
        #expect(other.ending == .limit)
    }
}

@Suite struct DateTests {
    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00Z"), (951_782_399_000, "2000-02-28T23:59:59Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (1_795_259_533_000, "2026-11-21T11:12:13Z"), (-1000, "1969-12-31T23:59:59Z"),
    ])
    func known(_ milliseconds: Int64, _ text: String) {
        let time = WallTime(milliseconds: milliseconds)
        #expect(time.iso8601 == text)
        #expect(WallTime(iso8601: text) == time)
    }

    @Test(arguments: ["", "now", "2026-13-01", "2026-11-21T25:00:00Z", "2026-11-21 11:12:13Z", "2026-11-2１", "99999-01-01"])
    func wrong(_ text: String) {
        #expect(WallTime(iso8601: text) == nil)
    }
}
