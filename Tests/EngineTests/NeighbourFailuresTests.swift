import NearshareBase
import Testing

@testable import NearshareEngine

@Suite("nodes to which no link is possible") struct NeighbourFailuresTests {
    private func time(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    /// The seconds of the failures, one each second, that are reported.
    private func reports(_ failures: inout NeighbourFailures, _ seconds: ClosedRange<Int64>) -> [Int64] {
        var reported: [Int64] = []
        for second in seconds where failures.recordFailure(since: time(second - 1), now: time(second)) {
            reported.append(second)
        }
        return reported
    }

    @Test func `a node that never answers is reported once`() {
        var failures = NeighbourFailures()
        let reported = reports(&failures, 1...60)
        #expect(reported == [6])
    }

    @Test func `a node that had a link is restarted, and not behind a firewall`() {
        var failures = NeighbourFailures()
        failures.recordLink()
        let reported = reports(&failures, 1...60)
        #expect(reported.isEmpty)
    }

    @Test func `a node that is announced at another address has its time again`() {
        var failures = NeighbourFailures()
        failures.recordLink()
        let earlier = reports(&failures, 1...5)
        failures.recordChange()
        let later = reports(&failures, 8...60)
        #expect(earlier.isEmpty && later == [13])
    }
}
