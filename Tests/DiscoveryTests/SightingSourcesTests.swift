import NearshareInterfaces
import Testing

@testable import NearshareDiscovery

@Suite("sources of sightings") struct SightingSourcesTests {
    private let one = ServiceSighting.Key(instance: "one", interfaceIndex: 1, isIPv6: false)
    private let two = ServiceSighting.Key(instance: "two", interfaceIndex: 1, isIPv6: false)

    @Test func `a service is gone when its last source has lost it`() {
        var sources = SightingSources()
        sources.insert(one, from: .daemon)
        sources.insert(one, from: .fallback)
        let isGone = [
            sources.remove(one, from: .daemon), sources.remove(one, from: .fallback), sources.remove(one, from: .fallback),
            sources.remove(two, from: .daemon),
        ]
        #expect(isGone == [false, true, false, false])
    }

    @Test func `with a source, the services that only it reports are gone`() {
        var sources = SightingSources()
        sources.insert(one, from: .daemon)
        sources.insert(one, from: .fallback)
        sources.insert(two, from: .fallback)
        let gone = sources.removeAll(from: .fallback)
        #expect(gone == [two])
        let isGone = sources.remove(one, from: .daemon)
        #expect(isGone)
    }
}
