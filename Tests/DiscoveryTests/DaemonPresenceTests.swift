import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareDiscovery

@Suite("presence of avahi-daemon") struct DaemonPresenceTests {
    private let start = MonotonicInstant(nanoseconds: 0)
    private var presence = DaemonPresence()

    private func time(_ seconds: Double) -> MonotonicInstant { start + .seconds(seconds) }

    /// Takes the daemon away for longer than a restart.
    private func away() -> DaemonPresence {
        var presence = presence
        _ = presence.ownerChanged(hasOwner: false, at: time(0))
        #expect(presence.tick(at: time(0.9)) == [])
        #expect(presence.tick(at: time(1)) == [.startFallback])
        return presence
    }

    @Test func `a new owner of the name is used only when its server runs`() {
        var presence = away()
        #expect(presence.ownerChanged(hasOwner: true, at: time(5)) == [.release, .startFallback, .queryState])
        #expect(presence.serverState(1, at: time(5.1)) == [] && presence.state == .starting)
        #expect(presence.tick(at: time(6)) == [.queryState])
        #expect(presence.serverState(2, at: time(6.1)) == [.stopFallbackPublishing, .renew])
        #expect(presence.tick(at: time(16)) == [] && presence.tick(at: time(16.1)) == [.stopFallback])
        #expect(presence.nextDeadline == nil)
    }

    @Test func `a restart within a second needs no fallback`() {
        var presence = presence
        #expect(presence.ownerChanged(hasOwner: false, at: time(0)) == [.release])
        #expect(presence.ownerChanged(hasOwner: true, at: time(0.5)) == [.release, .queryState])
        #expect(presence.serverState(2, at: time(0.8)) == [.renew])
        #expect(presence.tick(at: time(60)) == [])
    }

    @Test func `a daemon that starts for longer than a second is away`() {
        var presence = presence
        _ = presence.ownerChanged(hasOwner: true, at: time(0))
        #expect(presence.tick(at: time(1)) == [.startFallback, .queryState])
    }

    @Test func `a daemon that leaves again before it has confirmed needs the fallback at once`() {
        var presence = away()
        _ = presence.ownerChanged(hasOwner: true, at: time(5))
        _ = presence.serverState(2, at: time(5))
        #expect(presence.ownerChanged(hasOwner: false, at: time(6)) == [.release, .startFallback])
        #expect(presence.tick(at: time(60)) == [])
    }

    @Test func `a state that arrives after the daemon has ended counts no more`() {
        var presence = away()
        #expect(presence.serverState(2, at: time(2)) == [] && presence.state == .absent)
    }

    @Test func `after a collision of host names the daemon's groups are made again`() {
        var presence = presence
        #expect(presence.serverState(3, at: time(0)) == [])
        #expect(presence.serverState(2, at: time(1)) == [.renew])
    }

    @Test func `without the bus the fallback stays`() {
        var presence = presence
        #expect(presence.disconnect() == [.startFallback])
        #expect(presence.tick(at: time(60)) == [] && presence.nextDeadline == nil)
    }
}

@Suite("merged sightings") struct MergedSightingsTests {
    private func sighting(_ name: String, _ text: String = "") -> ServiceSighting {
        ServiceSighting(
            key: ServiceSighting.Key(instance: name, interfaceIndex: 1, isIPv6: false),
            address: LinkAddress(host: "10.0.0.1", port: 1), txt: [Array(text.utf8)], isOwn: false)
    }

    @Test func `a service is gone when its last engine has lost it`() {
        var merged = MergedSightings()
        let one = sighting("one")
        #expect(merged.apply(.seen(one), from: .daemon) == .seen(one))
        #expect(merged.apply(.seen(one), from: .fallback) == nil)
        #expect(merged.apply(.gone(one.key), from: .daemon) == nil)
        #expect(merged.apply(.gone(one.key), from: .fallback) == .gone(one.key))
        #expect(merged.apply(.gone(one.key), from: .fallback) == nil)
    }

    @Test func `the latest text counts, and what an engine says stays when the other ends`() {
        var merged = MergedSightings()
        let (old, new, other) = (sighting("one", "old"), sighting("one", "new"), sighting("two"))
        _ = merged.apply(.seen(old), from: .daemon)
        #expect(merged.apply(.seen(new), from: .fallback) == .seen(new))
        #expect(merged.apply(.seen(new), from: .daemon) == nil)
        #expect(merged.apply(.seen(other), from: .fallback) == .seen(other))
        #expect(merged.remove(.fallback) == [.gone(other.key)])
        #expect(merged.remove(.daemon) == [.gone(new.key)])
    }
}
