import NearshareBase
import Testing

@Suite("few events in a period") struct RateWindowTests {
    private let start = MonotonicInstant(nanoseconds: 1_000)
    private let period = Duration.seconds(10)

    @Test func `as many events as allowed are admitted, and the next one when the first is old enough`() {
        var window = RateWindow()
        for second in 0..<3 {
            let isAdmitted = window.admit(atMost: 3, within: period, now: start + .seconds(second))
            #expect(isAdmitted, "\(second)")
        }
        let early = window.admit(atMost: 3, within: period, now: start + .milliseconds(9_999))
        let due = window.admit(atMost: 3, within: period, now: start + period)
        let next = window.admit(atMost: 3, within: period, now: start + period)
        #expect(!early && due && !next)
    }

    @Test func `a rejected event does not count`() {
        var window = RateWindow()
        let first = window.admit(atMost: 1, within: period, now: start)
        #expect(first)
        for second in 1..<10 {
            let isAdmitted = window.admit(atMost: 1, within: period, now: start + .seconds(second))
            #expect(!isAdmitted, "\(second)")
        }
        let last = window.admit(atMost: 1, within: period, now: start + period)
        #expect(last)
    }

    @Test func `a window is empty when all its events are old enough`() {
        var window = RateWindow()
        #expect(window.isEmpty(within: period, now: start))
        for second in [0, 4] {
            let isAdmitted = window.admit(atMost: 2, within: period, now: start + .seconds(second))
            #expect(isAdmitted)
        }
        #expect(!window.isEmpty(within: period, now: start + .seconds(13)))
        #expect(window.isEmpty(within: period, now: start + .seconds(14)))
    }
}
