import NearshareBase
import Testing

@testable import NearshareEngine

@Suite("requests of a source") struct SourceRateLimiterTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    @Test("F20: each source has its own limit, and all together another one")
    func limits() {
        var limiter = SourceRateLimiter(atMost: 3, ofAll: 5, within: .seconds(10))
        let first = (0..<5).map { _ in limiter.admit("a", now: start) }
        let second = (0..<3).map { _ in limiter.admit("b", now: start) }
        #expect(first == [true, true, true, false, false] && second == [true, true, false])
        let later = limiter.admit("b", now: start + .seconds(10))
        #expect(later)
    }

    @Test("F20: sources beyond those that are counted share the limit of all")
    func sources() {
        var limiter = SourceRateLimiter(atMost: 1, ofAll: 1_000, within: .seconds(10))
        let all = (0..<SourceRateLimiter.maximumSourceCount).count { limiter.admit("\($0)", now: start) }
        let again = limiter.admit("0", now: start)
        #expect(all == SourceRateLimiter.maximumSourceCount && !again)
        let admitted = (0..<1_000).count { _ in limiter.admit("new", now: start) }
        #expect(admitted == 1_000 - SourceRateLimiter.maximumSourceCount)
    }
}
