import NearshareBase
import Testing

@Suite("the progress of a link") struct ProgressMeterTests {
    private let start = MonotonicInstant(nanoseconds: 1_000)

    @Test("R5: a rate is the average of 10 to 20 seconds, and none before") func rate() {
        var meter = ProgressMeter(now: start)
        for second in 0..<30 { meter.record(2_000, now: start + .seconds(second)) }
        #expect(meter.rate(now: start + .seconds(30)) == 2_000)
        #expect(meter.rate(now: start + .seconds(35)) == 20_000 / 15)
        #expect(meter.rate(now: start + .seconds(60)) == 0)
        let fresh = ProgressMeter(now: start)
        #expect(fresh.rate(now: start + .milliseconds(9_999)) == nil && fresh.rate(now: start + .seconds(10)) == 0)
    }

    @Test("R5: a measurement that is restarted again and again is seldom interrupted") func restarts() {
        var meter = ProgressMeter(now: start)
        var measured = 0
        for second in 0..<600 {
            meter.restart(now: start + .seconds(second))
            if meter.rate(now: start + .seconds(second)) != nil { measured += 1 }
        }
        #expect(measured == 500)
    }
}
