import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareEngine

@Suite("requests of a source") struct SourceRateLimiterTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    private func address(_ host: String) -> LinkAddress { LinkAddress(host: host, port: 1) }

    @Test("F20: each source has its own limit, and all together another one")
    func limits() {
        var limiter = SourceRateLimiter(atMost: 3, ofAll: 5, within: .seconds(10))
        let first = (0..<5).map { _ in limiter.admit(address("a"), now: start) }
        let second = (0..<3).map { _ in limiter.admit(address("b"), now: start) }
        #expect(first == [true, true, true, false, false] && second == [true, true, false])
        let later = limiter.admit(address("b"), now: start + .seconds(10))
        #expect(later)
    }

    @Test("F20: sources beyond those that are counted share the limit of all")
    func sources() {
        var limiter = SourceRateLimiter(atMost: 1, ofAll: 1_000, within: .seconds(10))
        let all = (0..<SourceRateLimiter.maximumSourceCount).count { limiter.admit(address("\($0)"), now: start) }
        let again = limiter.admit(address("0"), now: start)
        #expect(all == SourceRateLimiter.maximumSourceCount && !again)
        let admitted = (0..<1_000).count { _ in limiter.admit(address("new"), now: start) }
        #expect(admitted == 1_000 - SourceRateLimiter.maximumSourceCount)
    }

    @Test("F20: one address leaves the others of its IPv6 network a share; link-local ones share nothing")
    func networks() {
        var limiter = SourceRateLimiter(atMost: 3, ofAll: 1_000, within: .seconds(10))
        let counts = (1...6).map { host in
            (0..<5).count { _ in limiter.admit(address("2001:db8::\(host)"), now: start) }
        }
        #expect(counts == [3, 3, 3, 3, 0, 0])
        let local = (1...6).map { host in (0..<5).count { _ in limiter.admit(address("fe80::\(host)%eth0"), now: start) } }
        #expect(local == [3, 3, 3, 3, 3, 3])
    }
}
