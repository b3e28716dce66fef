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

    @Test("an interface that leads to other hosts is asked before many that are down or unplugged")
    func manyInterfaces() {
        let subnet = IPSubnet(.v4(0x0a00_0001), prefixLength: 24)
        func interface(_ index: Int32, isUp: Bool = true, isRunning: Bool = true) -> NetworkInterface {
            NetworkInterface(
                name: "if\(index)", index: index, isUp: isUp, isRunning: isRunning, isLoopback: false,
                isMulticastCapable: true, isPointToPoint: false, addresses: [subnet])
        }
        let down = (1...20).map { interface($0, isUp: false) }
        let unplugged = (21...40).map { interface($0, isRunning: false) }
        let asked = LegacyUnicastQuery.interfacesToAsk(down + unplugged + [interface(41)])
        let expected: [Int32] = [41] + Array(21...35)
        #expect(asked.map(\.index) == expected)
    }
}
