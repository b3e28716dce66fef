import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct KeepaliveTests {
    @Test func `a silent link is pinged every interval, and lost at the idle timeout`() {
        var keepalive = Keepalive(now: at(0))
        var pings: [MonotonicInstant] = []
        while !keepalive.isLost(now: keepalive.deadline), pings.count < 10 {
            let due = keepalive.deadline
            let reactions = keepalive.advance(to: due)
            #expect(reactions == [.send(.ping(UInt64(bitPattern: due.nanoseconds)))])
            pings.append(due)
        }
        #expect(pings == [at(4), at(8)])
        #expect(keepalive.deadline == at(0) + DirectLimits.idleTimeout)
    }

    @Test("the first answer to the latest ping gives the round-trip time, whatever else a peer claims") func roundTripTime() {
        var keepalive = Keepalive(now: at(0))
        let token = { (time: MonotonicInstant) in UInt64(bitPattern: time.nanoseconds) }
        keepalive.receivePong(token(at(0)), now: at(1))
        #expect(keepalive.roundTripTime == nil, "no ping was sent")
        _ = keepalive.advance(to: at(4))
        for wrong in [0, 1, .max, token(at(0)), token(at(5))] { keepalive.receivePong(wrong, now: at(4.5)) }
        #expect(keepalive.roundTripTime == nil)
        keepalive.receivePong(token(at(4)), now: at(4.25))
        keepalive.receivePong(token(at(4)), now: at(4.75))
        #expect(keepalive.roundTripTime == .milliseconds(250))
    }

    @Test("a measured link is pinged every interval whatever arrives, but not before the answer to the ping before")
    func measured() {
        var keepalive = Keepalive(now: at(0))
        func ping(_ time: Double) -> [DirectReaction] { [.send(.ping(UInt64(bitPattern: at(time).nanoseconds)))] }
        let first = keepalive.startMeasuring(now: at(1))
        #expect(first == ping(1))
        keepalive.receivePong(UInt64(bitPattern: at(1).nanoseconds), now: at(1.5))
        #expect(keepalive.roundTripTime == .milliseconds(500))
        keepalive.recordActivity(now: at(4.9))
        #expect(keepalive.deadline == at(5))
        let second = keepalive.advance(to: at(5))
        #expect(second == ping(5))
        // The answer waits behind other data.
        keepalive.recordActivity(now: at(8.9))
        let early = keepalive.advance(to: at(9))
        #expect(early.isEmpty && keepalive.deadline == at(12.9))
        keepalive.receivePong(UInt64(bitPattern: at(5).nanoseconds), now: at(10))
        #expect(keepalive.roundTripTime == .seconds(5))
        let third = keepalive.advance(to: at(10))
        #expect(third == ping(10))
        // A peer that does not answer is lost by its silence alone.
        #expect(!keepalive.isLost(now: at(20.8)) && keepalive.isLost(now: at(20.9)))
    }

    @Test func `any byte of the peer postpones both`() {
        var keepalive = Keepalive(now: at(0))
        keepalive.recordActivity(now: at(3.9))
        #expect(keepalive.deadline == at(3.9) + DirectLimits.keepaliveInterval)
        let early = keepalive.advance(to: at(4))
        #expect(early.isEmpty)
        #expect(!keepalive.isLost(now: at(15.8)) && keepalive.isLost(now: at(15.9)))
    }
}
