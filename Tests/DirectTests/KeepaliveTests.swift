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

    @Test func `any byte of the peer postpones both`() {
        var keepalive = Keepalive(now: at(0))
        keepalive.recordActivity(now: at(3.9))
        #expect(keepalive.deadline == at(3.9) + DirectLimits.keepaliveInterval)
        let early = keepalive.advance(to: at(4))
        #expect(early.isEmpty)
        #expect(!keepalive.isLost(now: at(15.8)) && keepalive.isLost(now: at(15.9)))
    }
}
