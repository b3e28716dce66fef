import NearshareBase
import NearshareCrypto
import NearshareStorage
import NearshareTesting
import Testing

@Suite("offers that were accepted before the process ended") struct AnsweredOffersTests {
    private let offer = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 10)).offer

    private func sender(_ number: UInt8) throws -> Fingerprint {
        try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32)))
    }

    private func digest(resumeKey: UInt8 = 1, _ consequences: String...) -> String {
        AnsweredOffers.digest(
            of: offer, listed: [], resumeKey: [UInt8](repeating: resumeKey, count: 32), consequences: consequences)
    }

    @Test("A12: the answer holds for ten minutes, for the same sender, offer and key only") func lifetime() throws {
        var offers = AnsweredOffers()
        let (ada, eve) = (try sender(1), try sender(2))
        let start = WallTime(milliseconds: 1_000_000)
        offers.update(digest(), of: ada, isAccepted: true, at: start)
        let end = AnsweredOffers.lifetime.components.seconds * 1_000
        #expect(offers.contains(digest(), of: ada, at: WallTime(milliseconds: start.milliseconds + end - 1)))
        #expect(!offers.contains(digest(), of: ada, at: WallTime(milliseconds: start.milliseconds + end)))
        // The clock was set back: the time of the answer is not known any more.
        #expect(!offers.contains(digest(), of: ada, at: WallTime(milliseconds: start.milliseconds - 1)))
        #expect(!offers.contains(digest(), of: eve, at: start))
        #expect(!offers.contains(digest(resumeKey: 2), of: ada, at: start))
        let other = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 11)).offer
        let otherDigest = AnsweredOffers.digest(
            of: other, listed: [], resumeKey: [UInt8](repeating: 1, count: 32), consequences: [])
        #expect(!offers.contains(otherDigest, of: ada, at: start))
        offers.update(digest(), of: ada, isAccepted: false, at: start)
        #expect(offers == AnsweredOffers())
    }

    @Test("A12: the answer holds for the same inbox, rules and command only, and counts from the first answer")
    func consequences() throws {
        var offers = AnsweredOffers()
        let (ada, start) = (try sender(1), WallTime(milliseconds: 1_000_000))
        offers.update(digest("/inbox", "keep"), of: ada, isAccepted: true, at: start)
        for other in [digest("/inbox", "overwrite"), digest("/inboxkeep"), digest("/inbox", "keep", "rm")] {
            #expect(!offers.contains(other, of: ada, at: start))
        }
        let last = WallTime(milliseconds: start.milliseconds + AnsweredOffers.lifetime.components.seconds * 1_000 - 1)
        offers.update(digest("/inbox", "keep"), of: ada, isAccepted: true, at: last)
        #expect(!offers.contains(digest("/inbox", "keep"), of: ada, at: WallTime(milliseconds: last.milliseconds + 1)))
    }

    @Test("A12: a running transfer renews the answer, which ends ten minutes after the last renewal") func renewal() throws {
        var offers = AnsweredOffers()
        let (ada, lifetime) = (try sender(1), AnsweredOffers.lifetime.components.seconds * 1_000)
        offers.update(digest(), of: ada, isAccepted: true, at: WallTime(milliseconds: 0))
        // A transfer of an hour, after which the process is killed.
        let interval = AnsweredOffers.renewalInterval.components.seconds * 1_000
        for time in stride(from: interval, through: 3_600_000, by: Int(interval)) {
            offers.renew(digest(), of: ada, at: WallTime(milliseconds: time))
        }
        offers.update(digest(), of: ada, isAccepted: true, at: WallTime(milliseconds: 3_600_001))
        #expect(offers.contains(digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime - 1)))
        #expect(!offers.contains(digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime)))
        // Neither an answer that has expired nor one that was never given.
        offers.renew(digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime))
        offers.renew(digest(resumeKey: 2), of: ada, at: WallTime(milliseconds: 3_600_000))
        #expect(!offers.contains(digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime)))
        #expect(!offers.contains(digest(resumeKey: 2), of: ada, at: WallTime(milliseconds: 3_600_000)))
    }

    @Test("a peer that is forgotten has no answer left") func forgotten() throws {
        var offers = AnsweredOffers()
        let (ada, eve, now) = (try sender(1), try sender(2), WallTime(milliseconds: 0))
        for peer in [ada, eve] { offers.update(digest(), of: peer, isAccepted: true, at: now) }
        offers.removeAll(of: ada)
        #expect(!offers.contains(digest(), of: ada, at: now) && offers.contains(digest(), of: eve, at: now))
    }

    @Test("R6: the offers are few, and the oldest gives way") func capacity() throws {
        var offers = AnsweredOffers()
        let now = WallTime(milliseconds: 0)
        for number in 0...64 { offers.update(digest(), of: try sender(UInt8(number)), isAccepted: true, at: now) }
        let kept = try [0, 1, 64].map { offers.contains(digest(), of: try sender($0), at: now) }
        #expect(kept == [false, true, true])
    }
}
