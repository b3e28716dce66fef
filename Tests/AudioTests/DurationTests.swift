import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

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
