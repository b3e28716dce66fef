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
                piece.prefix(left).withUnsafeBufferPointer { builder.append($0) }
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
        var trimmer = SilenceTrimmer(rate: 16_000, isOn: isOn)
        var kept: [Int16] = []
        var rest = samples[...]
        while !rest.isEmpty {
            Array(rest.prefix(piece)).withUnsafeBufferPointer { piece in
                trimmer.append(piece) { samples, frames in
                    kept += samples
                    #expect(frames <= kept.count)
                }
            }
            rest = rest.dropFirst(piece)
        }
        return (kept, trimmer.frames, trimmer.hasSound)
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
            [amplitude].withUnsafeBufferPointer { meter.append($0) }
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
        [Int16.max].withUnsafeBufferPointer { meter.append($0) }
        #expect(meter.isClipping)
        Tones.silence(seconds: 1).withUnsafeBufferPointer { meter.append($0) }
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
    @Test("frames count while recording, not while paused or finished")
    func story() {
        var machine = RecorderMachine()
        machine.togglePause()
        #expect(machine.phase == .idle)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.phase == .recording)
        machine.togglePause()
        #expect(machine.phase == .paused)
        #expect(machine.receive(frames: 100) == 0)
        machine.togglePause()
        #expect(machine.receive(frames: 50) == 50)
        #expect(machine.frames == 150)
        machine.stop(.requested)
        #expect(machine.phase == .finished(.requested))
        #expect(machine.receive(frames: 10) == 0)
        #expect(machine.frames == 150)
    }

    @Test("the first stop reason counts")
    func firstReason() {
        var machine = RecorderMachine(maximumFrames: 120)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.receive(frames: 100) == 20)
        #expect(machine.stopReason == .duration)
        machine.stop(.interrupted)
        machine.togglePause()
        #expect(machine.phase == .finished(.duration) && machine.frames == 120)
    }

    @Test("every state can be stopped", arguments: [0, 1, 2])
    func stopping(_ state: Int) {
        var machine = RecorderMachine()
        if state > 0 { _ = machine.receive(frames: 5) }
        if state > 1 { machine.togglePause() }
        machine.stop(.terminated)
        #expect(machine.stopReason == .terminated)
        #expect(machine.frames == (state > 0 ? 5 : 0))
    }

    @Test("a recording that ends exactly at its limit is finished")
    func exactLimit() {
        var machine = RecorderMachine(maximumFrames: 100)
        #expect(machine.receive(frames: 100) == 100)
        #expect(machine.phase == .finished(.duration))
    }

    @Test("the largest counts do not overflow")
    func extremes() {
        var machine = RecorderMachine()
        #expect(machine.receive(frames: .max - 1) == .max - 1)
        #expect(machine.receive(frames: .max) == 1)
        #expect(machine.phase == .finished(.duration))
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

    @Test(arguments: [
        "2026-02-29", "2026-04-31", "2026-11-21T24:00:00Z", "2026-11-21T10:12:60Z", "2026-11-21T10:12:13+", " 2026-11-2",
        "+026-11-21", "2026-1-021", "2026-11-21T10:12:13z", "", "now", "2026-13-01", "2026-11-21T25:00:00Z",
        "2026-11-21 11:12:13Z", "2026-11-2１", "99999-01-01",
    ])
    func wrong(_ text: String) {
        #expect(WallTime(iso8601: text) == nil)
    }

    @Test("times at the ends of 64 bits are written without overflow", arguments: [Int64.min, .max])
    func extremes(_ milliseconds: Int64) {
        #expect(WallTime(iso8601: WallTime(milliseconds: milliseconds).iso8601) == nil)
    }

    @Test("every day of a century survives")
    func days() {
        for day in Int64(-10_957)..<Int64(25_568) {
            let time = WallTime(milliseconds: day * 86_400_000)
            #expect(WallTime(iso8601: time.iso8601) == time)
            #expect(WallTime(iso8601: String(time.iso8601.prefix(10))) == time)
        }
    }
}

@Suite struct DurationTests {
    @Test("frames become time and back", arguments: [8000, 16_000, 44_100, 48_000, 192_000])
    func roundTrip(_ rate: Int) {
        for count in [0, 1, 159, 160, rate, rate * 3600 + 1] {
            #expect(Duration.frames(count, rate: rate).frames(rate: rate) == count)
        }
        #expect(Duration.frames(rate * 90, rate: rate) == .seconds(90))
    }

    @Test("the largest number of frames does not overflow")
    func extremes() {
        #expect(Duration.frames(.max, rate: 48_000).components.seconds == Int64.max / 48_000)
        #expect(Duration.seconds(Int64.max).frames(rate: 48_000) == 1_000_000_000_000_000)
    }
}

@Suite struct LevelHistoryTests {
    private func history(_ samples: [Int16], part: Int) -> [Double] {
        var history = LevelHistory(rate: 8000)
        var rest = samples[...]
        while !rest.isEmpty {
            Array(rest.prefix(part)).withUnsafeBufferPointer { history.append($0) }
            rest = rest.dropFirst(part)
        }
        return history.levels
    }

    @Test("one level for each tenth of a second, however the samples arrive", arguments: [1, 799, 800, 801, 10_000])
    func parts(_ part: Int) {
        let samples = [Int16](repeating: 8192, count: 800) + [Int16](repeating: 0, count: 800) + [Int16.min]
        #expect(history(samples, part: part) == [0.5, 0])
    }

    @Test("full scale of either sign is 1, and the number of levels is bounded")
    func bounds() {
        #expect(history([Int16](repeating: .min, count: 800), part: 800) == [1])
        #expect(history([Int16](repeating: 0, count: 800 * 300), part: 4096).count == 240)
    }
}

@Suite struct NoteSettingsTests {
    @Test("bit rates outside libopus's range are refused", arguments: [0, -1, 5999, 256_001, .max])
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
