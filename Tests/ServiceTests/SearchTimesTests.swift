import Nearshare
import Testing

@testable import NearshareService

@Suite("the times of a search")
struct SearchTimesTests {
    private func times(_ limit: Duration?) -> SearchTimes { SearchTimes(limit: limit) }

    @Test func `a search goes on for as long as the user waits`() {
        #expect(times(nil).remainder(of: .seconds(20)) == .seconds(20))
        #expect(times(.seconds(3)).remainder(of: .seconds(20)) == .milliseconds(1_500))
        #expect(times(.seconds(60)).remainder(of: .seconds(3)) == .milliseconds(58_500))
        #expect(times(.seconds(1)).remainder(of: .seconds(3)) == .milliseconds(100))
        #expect(times(nil).limited(.seconds(20)) == .seconds(20))
        #expect(times(.seconds(3)).limited(.seconds(20)) == .seconds(3))
        #expect(times(.seconds(60)).limited(.seconds(5)) == .seconds(60))
        #expect(times(.milliseconds(100)).limited(.seconds(20)) == .milliseconds(1_600))
    }

    @Test func `the first look at the network is part of the usual time, and of the time that the user waits`() {
        #expect(times(nil).restOnNetwork == .milliseconds(3_500) && times(nil).restThroughNode == .seconds(5))
        let short = times(.seconds(2))
        #expect(short.restOnNetwork == .milliseconds(500) && short.restThroughNode == .milliseconds(500))
    }

    @Test func `the mesh over Bluetooth has more time, unless the user waits for less`() {
        #expect(times(nil).inMesh(opensRadio: false) == .seconds(20))
        #expect(times(nil).inMesh(opensRadio: true) == .seconds(30))
        for opensRadio in [false, true] { #expect(times(.seconds(4)).inMesh(opensRadio: opensRadio) == .seconds(4)) }
    }

    @Test func `a peer in whose place another one has answered is searched for on its transport`() {
        #expect(times(nil).afterMismatch(on: nil) == .seconds(5))
        #expect(times(nil).afterMismatch(on: .bluetooth) == .seconds(15))
        #expect(times(.seconds(7)).afterMismatch(on: .bluetooth) == .seconds(7))
    }

    @Test func `the time of a search is reported in seconds, rounded up`() {
        #expect(SearchTimes.shownSeconds(of: .milliseconds(100)) == 1)
        #expect(SearchTimes.shownSeconds(of: .milliseconds(1_500)) == 2)
        #expect(SearchTimes.shownSeconds(of: .seconds(5)) == 5)
    }
}
