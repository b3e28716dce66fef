import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareDiscovery

@Suite("when a browser has settled")
struct SettlingTests {
    private func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }

    @Test("not before 1.5 s, also when avahi has reported ALL_FOR_NOW")
    func minimum() {
        var settling = Settling(startedAt: at(0))
        settling.recordAllForNow()
        #expect(settling.nextDeadline == at(1500))
        #expect(settling.tick(at: at(1499), isResolving: false) == false)
        #expect(settling.tick(at: at(1500), isResolving: false) == true)
        #expect(settling.nextDeadline == nil)
        #expect(settling.tick(at: at(9000), isResolving: false) == false, "once")
    }

    @Test("services that do not answer delay it to 4 s at the most")
    func maximum() {
        var settling = Settling(startedAt: at(0))
        settling.recordAllForNow()
        #expect(settling.tick(at: at(1500), isResolving: true) == false)
        #expect(settling.nextDeadline == at(4000))
        #expect(settling.tick(at: at(4000), isResolving: true) == true)
    }

    @Test("in between, it settles as soon as avahi has reported ALL_FOR_NOW and all is resolved")
    func between() {
        var settling = Settling(startedAt: at(0))
        #expect(settling.tick(at: at(2000), isResolving: false) == false)
        settling.recordAllForNow()
        #expect(settling.tick(at: at(2500), isResolving: true) == false)
        #expect(settling.tick(at: at(2600), isResolving: false) == true)
    }
}
