import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct TransferMeterTests {
    @Test func `a steady flow has its rate, and the time left follows from it`() throws {
        var meter = TransferMeter(amount: 1_000, now: at(0))
        #expect(meter.rate == nil && meter.timeLeft(until: 5_000) == nil)
        for second in 1...20 { meter.measure(1_000 + UInt64(second) * 100, now: at(Double(second))) }
        let rate = try #require(meter.rate)
        #expect(abs(rate - 100) < 0.001)
        let left = try #require(meter.timeLeft(until: 4_000))
        #expect(abs(left.inSeconds - 10) < 0.01)
    }

    @Test func `the wait before the first byte does not count`() throws {
        var meter = TransferMeter(amount: 0, now: at(0))
        meter.measure(0, now: at(100))
        #expect(meter.rate == nil)
        meter.measure(500, now: at(101))
        #expect(meter.rate == 500)
    }

    @Test func `a stalled transfer slows down until no time can be told`() throws {
        var meter = TransferMeter(amount: 0, now: at(0))
        meter.measure(1_000, now: at(1))
        var last = try #require(meter.rate)
        for second in 2...200 {
            meter.measure(1_000, now: at(Double(second)))
            let rate = try #require(meter.rate)
            #expect(rate <= last)
            last = rate
        }
        #expect(last < 0.001 && meter.timeLeft(until: .max) == nil)
    }

    @Test func `a transfer that goes on after a stall has its rate again, and slow steps are no stalls`() throws {
        var meter = TransferMeter(amount: 0, now: at(0))
        for step in 1...50 { meter.measure(UInt64(step) * 100, now: at(Double(step) / 10)) }
        for step in 51...150 { meter.measure(5_000, now: at(Double(step) / 10)) }
        #expect(try #require(meter.rate) < 50)
        meter.measure(5_100, now: at(15.1))
        #expect(abs(try #require(meter.rate) - 1_000) < 1)
        for second in stride(from: 20.0, through: 200, by: 4) { meter.measure(UInt64(second) * 100, now: at(second)) }
        #expect(abs(try #require(meter.rate) - 100) < 1)
    }

    @Test("R7: samples that are too close, go back or exceed the total give no senseless number")
    func invalidSamples() {
        var meter = TransferMeter(amount: 100, now: at(0))
        meter.measure(200, now: at(0.01))
        #expect(meter.rate == nil)
        meter.measure(50, now: at(1))
        #expect(meter.rate == 0 && meter.timeLeft(until: 100) == nil)
        meter.measure(1_000, now: at(2))
        #expect(meter.timeLeft(until: 10) == nil && meter.timeLeft(until: nil) == nil)
    }

    @Test func `the decay is the exponential function`() {
        #expect(Exponential.decay(0) == 1 && Exponential.decay(1_000) == 0)
        #expect(abs(Exponential.decay(1) - 0.367_879_441) < 1e-6)
        let values = (0...400).map { Exponential.decay(Double($0) / 10) }
        #expect(zip(values, values.dropFirst()).allSatisfy { $0 >= $1 && $1 >= 0 })
    }
}
