import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct ReachabilityTests {
    private let ada = PeerID(hex: "0000000000000001")!
    private let bea = PeerID(hex: "0000000000000002")!

    @Test func `the state is that of the links, or of a relay without a link`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        var states: [MemberState] = []
        func record(_ body: (inout Reachability) -> Void) {
            body(&reachability)
            states.append(reachability.state(of: ada))
        }
        record { $0.recordAttempt(ada) }
        record { $0.setRelays([ada: bea], now: at(1)) }
        #expect(reachability.linkState(of: ada) == .connecting)
        record { $0.recordConnection(ada, via: nil, now: at(1)) }
        record { $0.setRelays([ada: bea], now: at(1)) }
        record { $0.recordDisconnection(ada, now: at(2)) }
        #expect(
            states == [
                .connecting, .connected(via: bea), .connected(via: nil), .connected(via: nil), .connecting,
            ])
        #expect(reachability.state(of: bea) == .notConnected && reachability.neighbours.isEmpty)
    }

    @Test func `a member that was reached is out of reach without its relay, as after the loss of a link`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        #expect(reachability.state(of: ada) == .notConnected)
        reachability.setRelays([ada: bea], now: at(1))
        reachability.setRelays([:], now: at(2))
        #expect(reachability.state(of: ada) == .connecting)
    }

    @Test func `a member is absent while it has neither a link nor a relay`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.setRelays([ada: bea], now: at(5))
        #expect(reachability.absentees(after: .seconds(10), now: at(100)).isEmpty)
        reachability.setRelays([:], now: at(100))
        #expect(reachability.absentees(after: .seconds(10), now: at(109)).isEmpty)
        #expect(reachability.absentees(after: .seconds(10), now: at(110)) == [ada])
    }

    @Test func `news ends the back-off, and an attempt that began before it counts as none`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        for _ in 0..<6 { reachability.recordFailure(ada, isMember: true, now: at(20)) }
        #expect(!reachability.mayAttempt(ada, now: at(28)))
        reachability.recordReachabilityHint(ada, isOwn: true, now: at(28))
        #expect(reachability.mayAttempt(ada, now: at(28)))
        reachability.recordAttempt(ada)
        reachability.recordReachabilityHint(ada, isOwn: true, now: at(29))
        reachability.recordFailure(ada, isMember: true, now: at(30))
        // The attempt that failed had begun before the latest news.
        #expect(reachability.mayAttempt(ada, now: at(30)))
        #expect(reachability.absentees(after: .seconds(30), now: at(31)).isEmpty)
        reachability.recordAttempt(ada)
        reachability.recordFailure(ada, isMember: true, now: at(36))
        #expect(reachability.absentees(after: .seconds(30), now: at(36)) == [ada])
    }

    @Test func `a member that has another program in this one's place is tried again after the longest back-off`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.recordConnection(ada, via: nil, now: at(1))
        reachability.recordDisconnection(ada, now: at(2))
        reachability.recordReplacement(ada, now: at(2))
        #expect(!reachability.mayAttempt(ada, now: at(17.9)) && reachability.mayAttempt(ada, now: at(18)))
    }

    @Test("S15: news of other members counts at intervals, and cannot keep a member for ever") func inventedNews() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.recordReachabilityHint(ada, isOwn: false, now: at(1))
        reachability.recordAttempt(ada)
        reachability.recordFailure(ada, isMember: true, now: at(1.5))
        reachability.recordReachabilityHint(ada, isOwn: false, now: at(1.6))
        #expect(!reachability.mayAttempt(ada, now: at(1.7)))
        for second in 3..<60 { reachability.recordReachabilityHint(ada, isOwn: false, now: at(Double(second))) }
        #expect(reachability.absentees(after: .seconds(30), now: at(59)).isEmpty)
        #expect(reachability.absentees(after: .seconds(30), now: at(60)) == [ada])
    }

    @Test func `an attempt that was not made delays the next one, and counts as no failure`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        func skip(_ second: Double) {
            reachability.recordAttempt(ada)
            reachability.recordFailure(ada, isTried: false, isMember: true, now: at(second))
        }
        for second in 0..<8 {
            skip(Double(second))
            #expect(!reachability.mayAttempt(ada, now: at(Double(second) + 0.4)))
            #expect(reachability.mayAttempt(ada, now: at(Double(second) + 0.5)))
        }
        #expect(reachability.failureCount(of: ada) == 0)
        for _ in 0..<3 { reachability.recordFailure(ada, isMember: true, now: at(10)) }
        skip(12)
        #expect(!reachability.mayAttempt(ada, now: at(13.9)) && reachability.mayAttempt(ada, now: at(14)))
        #expect(reachability.failureCount(of: ada) == 3)
    }

    @Test func `failures double the back-off up to 16 seconds`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        var delays: [Double] = []
        for _ in 0..<8 {
            reachability.recordAttempt(ada)
            #expect(!reachability.mayAttempt(ada, now: at(1_000)))
            reachability.recordFailure(ada, isMember: true, now: at(0))
            let deadline = reachability.deadlines(own: bea, timeout: .seconds(900), isWaitedFor: { _ in false }).min()
            delays.append(((deadline ?? at(0)) - at(0)).inSeconds)
            #expect(deadline.map { reachability.mayAttempt(ada, now: $0) } == true)
            #expect(deadline.map { reachability.mayAttempt(ada, now: $0 + .nanoseconds(-1)) } == false)
        }
        #expect(delays == [0.5, 1, 2, 4, 8, 16, 16, 16])
        reachability.recordConnection(ada, via: bea, now: at(1))
        #expect(reachability.failureCount(of: ada) == 8)
        reachability.recordConnection(ada, via: nil, now: at(1))
        #expect(reachability.failureCount(of: ada) == 0)
    }

    @Test func `a failure after the member has left, or beside a direct link, is ignored`() {
        var reachability = Reachability()
        reachability.recordFailure(ada, isMember: false, now: at(0))
        reachability.add(bea, now: at(0))
        reachability.recordConnection(bea, via: nil, now: at(1))
        reachability.recordFailure(bea, isMember: true, now: at(0))
        #expect(reachability.failureCount(of: ada) == 0 && reachability.failureCount(of: bea) == 0)
    }

    @Test func `members time out from the start of their absence`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(0))
        reachability.add(bea, now: at(0))
        reachability.recordConnection(bea, via: nil, now: at(1))
        #expect(reachability.absentees(after: .seconds(10), now: at(9.9)).isEmpty)
        #expect(reachability.absentees(after: .seconds(10), now: at(10)) == [ada])
        reachability.recordDisconnection(bea, now: at(20))
        // A second report of the same absence does not prolong it.
        reachability.recordDisconnection(bea, now: at(25))
        #expect(reachability.absentees(after: .seconds(10), now: at(30)) == [ada, bea])
        reachability.remove(ada)
        #expect(reachability.absentees(after: .seconds(10), now: at(30)) == [bea])
    }

    @Test func `the member with the higher id waits before it connects as well`() {
        var reachability = Reachability()
        reachability.add(ada, now: at(5))
        #expect(reachability.secondAttemptTime(ada) == at(8))
        #expect(reachability.deadlines(own: bea, timeout: .seconds(60), isWaitedFor: { _ in false }).contains(at(8)))
        reachability.recordAttempt(ada)
        #expect(!reachability.deadlines(own: bea, timeout: .seconds(60), isWaitedFor: { _ in false }).contains(at(8)))
        // A relay that takes the place of a direct link begins its wait anew.
        reachability.recordConnection(ada, via: nil, now: at(9))
        reachability.recordConnection(ada, via: bea, now: at(20))
        #expect(reachability.secondAttemptTime(ada) == at(23))
        reachability.recordConnection(ada, via: bea, now: at(22))
        #expect(reachability.secondAttemptTime(ada) == at(23))
    }
}
