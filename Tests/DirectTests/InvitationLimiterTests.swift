import NearshareBase
import NearshareDirect
import Testing

@Suite("the rate of invitations of a peer") struct InvitationLimiterTests {
    private let memory = InvitationRateLimiter.interval.components.seconds

    private func moment(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    @Test("R11: invitations of an address are accepted until its budget is used up, and again when enough of it has expired")
    func timeout() {
        var limiter = InvitationRateLimiter()
        var answers: [Bool] = []
        for second in 0..<Int64(InvitationRateLimiter.maximumUnaccepted) {
            answers.append(limiter.allows("a", now: moment(second)))
            limiter.recordRefusal(of: "a", now: moment(second))
        }
        #expect(answers.allSatisfy { $0 })
        answers = [5, memory - 1].map { limiter.allows("a", now: moment($0)) }
        #expect(answers == [false, false])
        let isOtherAllowed = limiter.allows("b", now: moment(5))
        #expect(isOtherAllowed)
        // The first refusal has expired, the others count.
        answers = [limiter.allows("a", now: moment(memory))]
        limiter.recordRefusal(of: "a", now: moment(memory))
        answers += [memory, 3 * memory].map { limiter.allows("a", now: moment($0)) }
        #expect(answers == [true, false, true])
    }

    @Test("R6, R11: of any number of addresses the latest are kept")
    func manyPlaces() {
        var limiter = InvitationRateLimiter()
        for number in 0..<257 {
            for _ in 0..<InvitationRateLimiter.maximumUnaccepted {
                limiter.recordRefusal(of: "\(number)", now: moment(0) + .milliseconds(number))
            }
        }
        let known = (0..<257).filter { !limiter.allows("\($0)", now: moment(1)) }
        #expect(known == Array(1..<257))
    }
}
