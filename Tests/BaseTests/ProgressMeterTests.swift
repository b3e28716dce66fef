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

    @Test("R5: time in which the measurement is suspended does not count, bytes that arrive meanwhile do") func suspension() {
        var meter = ProgressMeter(now: start)
        for second in 0..<15 { meter.record(2_000, now: start + .seconds(second)) }
        meter.suspend(now: start + .seconds(15))
        meter.suspend(now: start + .seconds(20))
        #expect(meter.rate(now: start + .seconds(20)) == nil)
        meter.record(15_000, now: start + .seconds(100))
        meter.resume(now: start + .seconds(115))
        meter.resume(now: start + .seconds(116))
        #expect(meter.rate(now: start + .seconds(115)) == 45_000 / 15)
        #expect(meter.rate(now: start + .seconds(120)) == 25_000 / 10 && meter.rate(now: start + .seconds(160)) == 0)
    }

    @Test("R5: suspensions of an instant, however many, hide no trickle") func manySuspensions() {
        var meter = ProgressMeter(now: start)
        for second in 0..<60 {
            let arrival = start + .seconds(second)
            meter.record(1, now: arrival)
            meter.suspend(now: arrival)
            meter.resume(now: arrival + .milliseconds(1))
        }
        #expect(meter.rate(now: start + .seconds(60)) == 1)
    }

    @Test("a shorter period has an average sooner") func period() {
        var meter = ProgressMeter(now: start, period: .seconds(2))
        meter.record(2_000, now: start + .seconds(1))
        #expect(meter.rate(now: start + .seconds(1)) == nil && meter.rate(now: start + .seconds(2)) == 1_000)
        #expect(meter.rate(now: start + .seconds(4)) == 0)
    }
}
