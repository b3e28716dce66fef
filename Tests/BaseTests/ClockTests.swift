import NearshareBase
import NearshareTesting
import Testing

@Suite struct ClockTests {
    private func instant(_ nanoseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: nanoseconds) }

    @Test func `instants and durations add and subtract`() {
        let start = instant(1_000)
        #expect(start + .nanoseconds(500) == instant(1_500))
        #expect((start + .seconds(2)) - start == .seconds(2))
        #expect(start - instant(4_000) == .nanoseconds(-3_000))
        #expect(start < instant(1_001) && !(start < start))
    }

    @Test("R7: a deadline beyond the clock's range stays in the future")
    func saturation() {
        let now = instant(1_000_000)
        for duration in [Duration.seconds(Int64.max), .nanoseconds(Int64.max), .seconds(10_000_000_000)] {
            #expect(now + duration == instant(.max), "\(duration)")
        }
        #expect(instant(-10) + .seconds(Int64.min) == instant(.min))
    }

    @Test func `durations saturate at both ends, fractions included`() {
        let most = Duration.nanoseconds(Int64.max)
        let least = Duration.nanoseconds(Int64.min)
        #expect(most.nanoseconds == .max && least.nanoseconds == .min)
        #expect((most + .nanoseconds(1)).nanoseconds == .max)
        #expect((most + .milliseconds(40)).nanoseconds == .max)
        #expect((least - .nanoseconds(1)).nanoseconds == .min)
        #expect(Duration.seconds(Int64.min).nanoseconds == .min)
    }

    @Test("Q9: the difference to any claimed date is a duration")
    func claimedDates() {
        let now = WallTime(milliseconds: 1_800_000_000_000)
        #expect(WallTime(milliseconds: 1_800_000_000_250).difference(from: now) == .milliseconds(250))
        #expect(WallTime(milliseconds: .max).difference(from: now) == .milliseconds(Int64.max - 1_800_000_000_000))
        #expect(WallTime(milliseconds: .min).difference(from: now) == .milliseconds(Int64.min))
        #expect(WallTime(milliseconds: .max).difference(from: WallTime(milliseconds: -1)) == .milliseconds(Int64.max))
    }

    @Test func `seconds keep their fraction`() {
        #expect(Duration.milliseconds(1500).inSeconds == 1.5)
        #expect(Duration.milliseconds(-250).inSeconds == -0.25)
        #expect(Duration.zero.inSeconds == 0)
    }

    @Test func `both clocks of a moment are compared`() {
        let moment = Moment(monotonic: instant(1), wall: WallTime(milliseconds: 2))
        #expect(moment == Moment(monotonic: instant(1), wall: WallTime(milliseconds: 2)))
        #expect(moment != Moment(monotonic: instant(1), wall: WallTime(milliseconds: 3)))
        #expect(WallTime(milliseconds: -1) < WallTime(milliseconds: 0))
    }
}

@Suite struct TokenBucketTests {
    private func after(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

    @Test func `a full bucket allows one burst, then its rate`() {
        var bucket = TokenBucket(capacity: 5, perSecond: 2, now: after(0))
        let burst = (0..<10).filter { _ in bucket.consume(now: after(0)) }
        #expect(burst.count == 5)
        let later = [0.49, 0.5, 0.5, 0.99, 1].map { bucket.consume(now: after($0)) }
        #expect(later == [false, true, false, false, true])
    }

    @Test func `an idle bucket holds no more than its capacity`() {
        var bucket = TokenBucket(capacity: 3, perSecond: 100, now: after(0))
        let granted = (0..<10).filter { _ in bucket.consume(now: after(86_400)) }
        #expect(granted.count == 3)
    }

    @Test func `a debt is refilled before anything is granted`() {
        var bucket = TokenBucket(capacity: 4, perSecond: 1, now: after(0))
        bucket.charge(10)
        let granted = [6.9, 7, 7].map { bucket.consume(now: after($0)) }
        #expect(granted == [false, true, false])
    }

    @Test func `draining leaves a debt of a second at most, and adds nothing to a larger one`() {
        var bucket = TokenBucket(capacity: 4, perSecond: 2, now: after(0))
        var balances: [Double] = []
        for cost in [3, 2, 9] {
            bucket.drain(Double(cost), now: after(0))
            balances.append(bucket.balance(now: after(0)))
        }
        bucket.charge(5)
        bucket.drain(1, now: after(0))
        balances.append(bucket.balance(now: after(0)))
        #expect(balances == [1, -1, -2, -7])
    }

    @Test("R5: no pattern of requests gets more than burst and rate allow", arguments: seeds(1...20))
    func bound(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let capacity = Double(Int.random(in: 1...20, using: &random))
        let rate = Double.random(in: 0.1...50, using: &random)
        var bucket = TokenBucket(capacity: capacity, perSecond: rate, now: after(0))
        var (now, granted, refused) = (0.0, 0.0, 0)
        for _ in 0..<2_000 {
            now += Double.random(in: 0...2 / rate, using: &random) * (random.once(in: 3) ? 0 : 1)
            if bucket.consume(now: after(now)) { granted += 1 } else { refused += 1 }
            #expect(granted <= capacity + now * rate + 0.001, "seed \(seed)")
        }
        // A caller that asks more often than the rate allows is served at the rate.
        let (grantedBefore, start) = (granted, now)
        for _ in 0..<2_000 {
            now += 0.2 / rate
            if bucket.consume(now: after(now)) { granted += 1 } else { refused += 1 }
        }
        #expect(granted <= capacity + now * rate + 0.001 && refused > 1_000, "seed \(seed)")
        // A bucket of one token loses what it gains between two requests.
        #expect(granted - grantedBefore >= (now - start) * rate * 0.8 - 1, "seed \(seed)")
    }
}
