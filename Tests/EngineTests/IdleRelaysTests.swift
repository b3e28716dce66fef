import NearshareBase
import Testing

@testable import NearshareEngine

@Suite struct IdleRelaysTests {
    private final class Link {}

    private let link = Link()
    private let start = MonotonicInstant(nanoseconds: 0)

    private func isDue(_ relays: inout IdleRelays, _ use: IdleRelays.Use, after seconds: Int) -> Bool {
        !relays.dueLinks(among: [ObjectIdentifier(link): use], now: start + .seconds(seconds)).isEmpty
    }

    @Test("a relayed link is closed at once when it is idle, and not while it is used") func idle() {
        var relays = IdleRelays()
        let (open, idle) = (isDue(&relays, .open, after: 3_600), isDue(&relays, .idle, after: 3_600))
        #expect(!open && idle)
    }

    @Test("a peer that confirms nothing keeps a relayed link for 12 seconds") func unconfirmed() {
        var relays = IdleRelays()
        let early = [0, 1, 11].map { isDue(&relays, .unconfirmed, after: $0) }
        let late = isDue(&relays, .unconfirmed, after: 12)
        #expect(!early.contains(true) && late)
    }

    @Test("the time begins anew with a use, and with another link") func used() {
        var relays = IdleRelays()
        let uses: [(IdleRelays.Use, Int)] = [(.unconfirmed, 0), (.open, 11), (.unconfirmed, 12), (.unconfirmed, 23)]
        let early = uses.map { isDue(&relays, $0.0, after: $0.1) }
        _ = relays.dueLinks(among: [:], now: start + .seconds(23))
        let (again, late) = (isDue(&relays, .unconfirmed, after: 24), isDue(&relays, .unconfirmed, after: 36))
        #expect(!early.contains(true) && !again && late)
    }
}
