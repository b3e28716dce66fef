import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct RelayAttemptsTests {
    private let ada = PeerID(hex: "0000000000000001")!
    private let bea = PeerID(hex: "0000000000000002")!
    private let cleo = PeerID(hex: "0000000000000003")!

    /// Attempts to reach ada, to whom a relay has announced a link at 0 s.
    private func available() -> RelayAttempts {
        var attempts = RelayAttempts()
        attempts.setAvailable([ada], now: at(0))
        return attempts
    }

    @Test func `the failures of a relay delay its own attempts alone, up to 2 seconds`() {
        var attempts = available()
        for delay in [0.25, 0.5, 1, 2, 2] {
            attempts.recordAttempt(to: ada, through: bea)
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(100)) == nil)
            attempts.recordEnd(to: ada, through: bea)
            attempts.recordFailure(to: ada, through: bea, isAnswered: false, now: at(0))
            #expect(attempts.nextRelay(to: ada, among: [bea], now: at(delay - 0.01)) == nil)
            #expect(attempts.nextRelay(to: ada, among: [bea], now: at(delay)) == bea)
            #expect(attempts.deadlines(own: ada).contains(at(delay)))
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(delay)) == cleo)
        }
        #expect(attempts.hasFailed(ada))
    }

    @Test func `a relay that has a link again is tried at once`() {
        var attempts = available()
        attempts.recordFailure(to: ada, through: bea, isAnswered: false, now: at(0))
        attempts.recordLink(to: bea, via: nil, isFirst: false)
        #expect(attempts.nextRelay(to: ada, among: [bea], now: at(0)) == nil)
        attempts.recordLink(to: bea, via: nil, isFirst: true)
        #expect(attempts.nextRelay(to: ada, among: [bea], now: at(0)) == bea)
    }

    @Test func `an answer of the member itself delays the attempts through all relays, longer each time`() {
        var attempts = available()
        for delay in [0.5, 1, 2, 4, 8, 16, 16] {
            attempts.recordFailure(to: ada, through: bea, isAnswered: true, now: at(0))
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(delay - 0.01)) == nil)
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(delay)) == bea)
        }
        attempts.recordLink(to: ada, via: nil, isFirst: true)
        #expect(!attempts.hasFailed(ada) && !attempts.isAvailable(ada))
    }

    @Test func `an attempt that ends late ends no other one`() {
        var attempts = available()
        attempts.recordAttempt(to: ada, through: bea)
        // It is a member again.
        attempts.remove(ada)
        attempts.recordAttempt(to: ada, through: cleo)
        attempts.recordEnd(to: ada, through: bea)
        #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(9)) == nil)
        attempts.recordEnd(to: ada, through: cleo)
        #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(9)) == bea)
    }

    @Test func `an attempt goes on beside a link that it has not opened, and no other one begins when that is lost`() {
        for other in [nil, cleo] {
            var attempts = available()
            attempts.recordAttempt(to: ada, through: bea)
            attempts.recordLink(to: ada, via: other, isFirst: true)
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(9)) == nil)
            attempts.recordEnd(to: ada, through: bea)
            #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(9)) == bea)
        }
    }

    @Test func `an attempt ends with the link that it has opened`() {
        var attempts = available()
        attempts.recordAttempt(to: ada, through: bea)
        attempts.recordLink(to: ada, via: bea, isFirst: true)
        #expect(attempts.nextRelay(to: ada, among: [bea, cleo], now: at(9)) == bea)
    }

    @Test func `the member with the higher id begins a second after the relay was announced`() {
        var attempts = available()
        attempts.setAvailable([ada], now: at(5))
        #expect(attempts.secondAttemptTime(ada) == at(1))
        #expect(attempts.deadlines(own: bea) == [at(1)])
        attempts.setAvailable([], now: at(6))
        #expect(attempts.secondAttemptTime(ada) == nil && attempts.deadlines(own: bea).isEmpty)
    }
}
