import NearshareBase
import Testing

@testable import NearshareEngine

@Suite("rate limit on prompts") struct PromptRateLimiterTests {
    private let window = PromptRateLimiter.interval.components.seconds

    private func moment(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    @Test("R11: a source is refused after five unaccepted prompts, and allowed again a minute after the first")
    func slidingWindow() {
        var limiter = PromptRateLimiter()
        var answers: [Bool] = []
        for second in 0..<Int64(PromptRateLimiter.maximumUnacceptedCount) {
            answers.append(limiter.allowsPrompt(from: "a", now: moment(second)))
            limiter.recordUnaccepted(from: "a", now: moment(second))
        }
        #expect(answers.allSatisfy { $0 })
        answers = [5, window - 1].map { limiter.allowsPrompt(from: "a", now: moment($0)) }
        #expect(answers == [false, false])
        let isOtherAllowed = limiter.allowsPrompt(from: "b", now: moment(5))
        #expect(isOtherAllowed)
        // The first prompt has left the window, the others count.
        answers = [limiter.allowsPrompt(from: "a", now: moment(window))]
        limiter.recordUnaccepted(from: "a", now: moment(window))
        answers += [window, 3 * window].map { limiter.allowsPrompt(from: "a", now: moment($0)) }
        #expect(answers == [true, false, true])
    }

    @Test("R6, R11: the sources of the latest prompts are remembered, and older ones are dropped")
    func sourceLimit() {
        var limiter = PromptRateLimiter()
        for number in 0..<257 {
            for _ in 0..<PromptRateLimiter.maximumUnacceptedCount {
                limiter.recordUnaccepted(from: "\(number)", now: moment(0) + .milliseconds(number))
            }
        }
        let known = (0..<257).filter { !limiter.allowsPrompt(from: "\($0)", now: moment(1)) }
        #expect(known == Array(1..<257))
    }
}
