import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct LevelMeterTests {
    @Test func `the level is that of the loudest sample on a scale of 60 dB`() {
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
