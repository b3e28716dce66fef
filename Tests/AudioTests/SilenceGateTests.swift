import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

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

    @Test func `a recording of silence alone has no sound and keeps nothing`() {
        let result = run(Tones.silence(seconds: 2).map { _ in Int16.random(in: -20...20) })
        #expect(!result.hasSound && result.kept.isEmpty && result.frames == 0)
    }

    @Test func `without trimming all samples are kept`() {
        let samples = Tones.silence(seconds: 1)
        let result = run(samples, isOn: false)
        #expect(result.kept == samples && result.frames == samples.count)
    }

    @Test("a whisper 50 dB below full scale is speech")
    func whisper() {
        #expect(run(Tones.sine(seconds: 1, amplitude: 150)).hasSound)
    }
}
