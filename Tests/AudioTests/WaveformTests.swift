import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct WaveformTests {
    @Test("peaks survive being written as a tag")
    func tag() throws {
        let peaks = (0..<Waveform.peakCount).map { UInt8($0 % 64) }
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

    @Test func `the waveform of an empty recording is flat`() {
        #expect(WaveformBuilder(rate: 16_000).waveform(frames: 0).peaks.allSatisfy { $0 == 0 })
    }
}
