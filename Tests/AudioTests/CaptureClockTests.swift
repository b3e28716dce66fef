import NearshareBase
import Testing

@testable import NearshareAudio

@Suite struct CaptureClockTests {
    private static let start = MonotonicInstant(nanoseconds: 5_000_000_000)

    private func instant(_ milliseconds: Int) -> MonotonicInstant { Self.start + .milliseconds(milliseconds) }

    @Test("an overrun loses what was unread in the buffer as well, and later sound has its place in time")
    func overrun() {
        var clock = CaptureClock(rate: 16_000, start: Self.start)
        // A reader that falls behind: after 10 s it has read 8 s, and 2 s are in the buffer.
        for _ in 0..<400 { clock.recordFrames(320) }
        let lost = clock.recordLoss(at: instant(10_125))
        #expect(lost == 34_000)
        // Frames that were replaced are not lost again.
        let again = clock.recordLoss(at: instant(10_125))
        #expect(again == 0)
        clock.recordFrames(16_000)
        let later = clock.recordLoss(at: instant(12_000))
        #expect(later == 14_000)
    }

    @Test("a device whose clock is faster than the system's loses nothing")
    func drift() {
        var clock = CaptureClock(rate: 8_000, start: Self.start)
        clock.recordFrames(8_001)
        let lost = clock.recordLoss(at: instant(1_000))
        #expect(lost == 0)
    }
}
