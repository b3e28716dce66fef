import Nearshare
import Testing

@testable import NearshareService

@Suite("accepted browsers") struct AcceptedBrowsersTests {
    private static func browser(_ number: UInt8) throws -> Fingerprint {
        try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32)))
    }

    @Test("A14: an answer counts for its browser, for an hour after its last use") func lifetime() throws {
        var accepted = AcceptedBrowsers()
        let start = MonotonicInstant(nanoseconds: 0)
        let (browser, other) = (try Self.browser(1), try Self.browser(2))
        #expect(!accepted.contains(browser, now: start) && !accepted.hasAcceptedAny)
        accepted.accept(browser, now: start)
        #expect(accepted.contains(browser, now: start + .seconds(3599)) && accepted.hasAcceptedAny)
        #expect(!accepted.contains(other, now: start))
        accepted.accept(browser, now: start + .seconds(3599))
        #expect(accepted.contains(browser, now: start + .seconds(7198)))
        // The page was left open for a week.
        #expect(!accepted.contains(browser, now: start + .seconds(7 * 86_400)))
    }

    @Test("A14: a cancel of the user ends the answer") func revoked() throws {
        var accepted = AcceptedBrowsers()
        let start = MonotonicInstant(nanoseconds: 1)
        let (browser, other) = (try Self.browser(1), try Self.browser(2))
        accepted.accept(browser, now: start)
        accepted.accept(other, now: start)
        accepted.revoke(browser)
        #expect(!accepted.contains(browser, now: start) && accepted.contains(other, now: start) && accepted.hasAcceptedAny)
        accepted.accept(browser, now: start)
        #expect(accepted.contains(browser, now: start))
    }
}
