import FoundationEssentials
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
        offers.update(digest(), of: ada, .all, at: start)
        let end = AnsweredOffers.lifetime.components.seconds * 1_000
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: start.milliseconds + end - 1)) == .all)
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: start.milliseconds + end)) == nil)
        // The clock was set back: the time of the answer is not known any more.
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: start.milliseconds - 1)) == nil)
        #expect(offers.answer(to: digest(), of: eve, at: start) == nil)
        #expect(offers.answer(to: digest(resumeKey: 2), of: ada, at: start) == nil)
        let other = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 11)).offer
        let otherDigest = AnsweredOffers.digest(
            of: other, listed: [], resumeKey: [UInt8](repeating: 1, count: 32), consequences: [])
        #expect(offers.answer(to: otherDigest, of: ada, at: start) == nil)
        offers.update(digest(), of: ada, nil, at: start)
        #expect(offers == AnsweredOffers())
    }

    @Test("A12: the answer holds for the same inbox, rules and command only, and counts from the first answer")
    func consequences() throws {
        var offers = AnsweredOffers()
        let (ada, start) = (try sender(1), WallTime(milliseconds: 1_000_000))
        offers.update(digest("/inbox", "keep"), of: ada, .all, at: start)
        for other in [digest("/inbox", "overwrite"), digest("/inboxkeep"), digest("/inbox", "keep", "rm")] {
            #expect(offers.answer(to: other, of: ada, at: start) == nil)
        }
        let last = WallTime(milliseconds: start.milliseconds + AnsweredOffers.lifetime.components.seconds * 1_000 - 1)
        offers.update(digest("/inbox", "keep"), of: ada, .all, at: last)
        #expect(offers.answer(to: digest("/inbox", "keep"), of: ada, at: WallTime(milliseconds: last.milliseconds + 1)) == nil)
    }

    @Test("A12: a running transfer renews the answer, which ends ten minutes after the last renewal") func renewal() throws {
        var offers = AnsweredOffers()
        let (ada, lifetime) = (try sender(1), AnsweredOffers.lifetime.components.seconds * 1_000)
        offers.update(digest(), of: ada, .all, at: WallTime(milliseconds: 0))
        // A transfer of an hour, after which the process is killed.
        let interval = AnsweredOffers.renewalInterval.components.seconds * 1_000
        for time in stride(from: interval, through: 3_600_000, by: Int(interval)) {
            offers.renew(digest(), of: ada, at: WallTime(milliseconds: time))
        }
        offers.update(digest(), of: ada, .all, at: WallTime(milliseconds: 3_600_001))
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime - 1)) == .all)
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime)) == nil)
        // Neither an answer that has expired nor one that was never given.
        offers.renew(digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime))
        offers.renew(digest(resumeKey: 2), of: ada, at: WallTime(milliseconds: 3_600_000))
        #expect(offers.answer(to: digest(), of: ada, at: WallTime(milliseconds: 3_600_000 + lifetime)) == nil)
        #expect(offers.answer(to: digest(resumeKey: 2), of: ada, at: WallTime(milliseconds: 3_600_000)) == nil)
    }

    @Test("A13: the answer about a part holds for this part, also after the process has ended") func part() throws {
        var offers = AnsweredOffers()
        let (ada, now) = (try sender(1), WallTime(milliseconds: 0))
        let selection = try #require(EntrySelection(ranges: [0...2, 5...5]))
        offers.update(digest(), of: ada, .part(selection), at: now)
        let stored = try JSONDecoder().decode(AnsweredOffers.self, from: try JSONEncoder().encode(offers))
        #expect(stored.answer(to: digest(), of: ada, at: now) == .part(selection))
        // A file that another program has changed.
        for part in ["[5,2]", "[1]", "[0,2,3,5]", "[]"] {
            let text = String(decoding: try JSONEncoder().encode(offers), as: UTF8.self)
            let changed = text.replacing("[0,2,5,5]", with: part)
            try #require(changed != text)
            let read = try JSONDecoder().decode(AnsweredOffers.self, from: Data(changed.utf8))
            #expect(read.answer(to: digest(), of: ada, at: now) == nil)
        }
        offers.update(digest(), of: ada, .all, at: now)
        #expect(offers.answer(to: digest(), of: ada, at: now) == .all)
    }

    @Test("a peer that is forgotten has no answer left") func forgotten() throws {
        var offers = AnsweredOffers()
        let (ada, eve, now) = (try sender(1), try sender(2), WallTime(milliseconds: 0))
        for peer in [ada, eve] { offers.update(digest(), of: peer, .all, at: now) }
        offers.removeAll(of: ada)
        #expect(offers.answer(to: digest(), of: ada, at: now) == nil && offers.answer(to: digest(), of: eve, at: now) == .all)
    }

    @Test("R6: the offers are few, and the one accepted or renewed first gives way") func capacity() throws {
        var offers = AnsweredOffers()
        let capacity = UInt8(AnsweredOffers.capacity)
        func time(_ number: UInt8) -> WallTime { WallTime(milliseconds: Int64(number)) }
        for number in 0..<capacity { offers.update(digest(), of: try sender(number), .all, at: time(number)) }
        offers.renew(digest(), of: try sender(0), at: time(capacity))
        // A second answer does not renew the first one.
        offers.update(digest(), of: try sender(1), .all, at: time(capacity))
        offers.update(digest(), of: try sender(capacity), .all, at: time(capacity))
        let kept = try [0, 1, 2, capacity].map { offers.answer(to: digest(), of: try sender($0), at: time(capacity)) == .all }
        #expect(kept == [true, false, true, true])
    }
}
