import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareDiscovery

@Suite("clock and randomness")
struct DiscoveryEnvironmentTests {
    @Test("a query repeats its question once, and ends, by the clock that it is given")
    func query() throws {
        func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }
        let query = LegacyUnicastQuery(for: .nearshare, id: 7, on: [], at: at(0))
        #expect(query.nextDeadline == at(250))
        query.retransmitIfDue(at: at(249))
        #expect(query.nextDeadline == at(250))
        query.retransmitIfDue(at: at(250))
        #expect(query.nextDeadline == at(1500))
        #expect(query.isFinished(at: at(0)), "without sockets there is nothing to wait for")
        #expect(query.descriptors.isEmpty && query.receiveAnswers().isEmpty)
    }
}
