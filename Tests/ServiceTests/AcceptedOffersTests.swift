import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("offers that were accepted before the link broke") struct AcceptedOffersTests {
    private let offer = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 10)).offer
    private let other = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 11)).offer

    private func identity(_ number: UInt8, resumeKey: UInt8 = 1) throws -> AcceptedOffers.Identity {
        AcceptedOffers.Identity(
            sender: try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32))),
            resumeKey: [UInt8](repeating: resumeKey, count: 32))
    }

    private func instant(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    private func accepts(
        _ offers: AcceptedOffers, _ offer: Offer, _ identity: AcceptedOffers.Identity, now: MonotonicInstant
    ) -> Bool { offers.answer(to: offer, listed: [], identity, now: now) == .all }

    @Test("A13: a part goes on with the same selection, and only where the list is the same")
    func parts() throws {
        var offers = AcceptedOffers()
        var random = SeededRandom(seed: 4)
        var content = MemoryContent.random(using: &random, largest: 9)
        while content.offer.itemCount < 2 { content = .random(using: &random, largest: 9) }
        let listed = content.entries.map(\.header.listed)
        let selection = try #require(EntrySelection(ranges: [0...content.offer.items[0].entryCount - 1]))
        let part = try #require(OfferPart(selection, of: content.offer, listed: listed))
        offers.accept(content.offer, part: part, listed: listed, try identity(1))
        offers.end(try identity(1), .interrupted, now: instant(1))
        #expect(offers.answer(to: content.offer, listed: listed, try identity(1), now: instant(2)) == .part(part))
        #expect(offers.answer(to: content.offer, listed: [], try identity(1), now: instant(2)) == nil)
        #expect(offers.answer(to: content.offer, listed: listed, try identity(1), now: instant(700)) == nil)
    }

    @Test("A12: the answer counts for the list that the user could see, and for no other one")
    func lists() throws {
        var offers = AcceptedOffers()
        var random = SeededRandom(seed: 5)
        var content = MemoryContent.random(using: &random, largest: 9)
        while content.entries.count < 2 { content = .random(using: &random, largest: 9) }
        let listed = content.entries.map(\.header.listed)
        offers.accept(content.offer, listed: listed, try identity(1))
        offers.end(try identity(1), .interrupted, now: instant(1))
        #expect(offers.answer(to: content.offer, listed: listed, try identity(1), now: instant(2)) == .all)
        for other in [[], listed.dropLast(), listed.reversed()] as [[EntryHeader]] {
            #expect(offers.answer(to: content.offer, listed: other, try identity(1), now: instant(2)) == nil)
        }
    }

    @Test("A12: what a policy has accepted has no answer, also after the user's answer to an earlier try")
    func policies() throws {
        var offers = AcceptedOffers()
        let ada = try identity(1)
        offers.accept(offer, listed: [], ada, isAnswered: false)
        #expect(!accepts(offers, offer, ada, now: instant(0)))
        var answer = offers.end(ada, .interrupted, now: instant(1))
        #expect(answer == nil)
        #expect(!accepts(offers, offer, ada, now: instant(2)))
        offers.accept(offer, listed: [], ada)
        answer = offers.end(ada, .interrupted, now: instant(3))
        #expect(answer == .all)
        offers.accept(offer, listed: [], ada, isAnswered: false)
        offers.end(ada, .interrupted, now: instant(4))
        #expect(!accepts(offers, offer, ada, now: instant(5)))
    }

    @Test func `an interrupted transfer needs no second answer for ten minutes`() throws {
        var offers = AcceptedOffers()
        let ada = try identity(1)
        #expect(!accepts(offers, offer, ada, now: instant(0)))
        offers.accept(offer, listed: [], ada)
        // The link may be broken before this side has noticed.
        #expect(accepts(offers, offer, ada, now: instant(10_000)))
        offers.end(ada, .interrupted, now: instant(20_000))
        #expect(accepts(offers, offer, ada, now: instant(20_599)))
        #expect(!accepts(offers, offer, ada, now: instant(20_600)))
    }

    @Test(
        "every other end requires an answer again",
        arguments: [
            TransferOutcome.completed, .cancelled(by: .local), .cancelled(by: .remote), .failed(.noSpace, at: .local),
        ])
    func ended(_ outcome: TransferOutcome) throws {
        var offers = AcceptedOffers()
        let ada = try identity(1)
        offers.accept(offer, listed: [], ada)
        offers.end(ada, outcome, now: instant(1))
        #expect(!accepts(offers, offer, ada, now: instant(1)))
    }

    @Test func `R11: another offer, key or sender requires an answer`() throws {
        var offers = AcceptedOffers()
        offers.accept(offer, listed: [], try identity(1))
        #expect(!accepts(offers, other, try identity(1), now: instant(0)))
        #expect(!accepts(offers, offer, try identity(2), now: instant(0)))
        #expect(!accepts(offers, offer, try identity(1, resumeKey: 2), now: instant(0)))
    }

    @Test func `the offer that expires first is dropped when there are too many`() throws {
        var offers = AcceptedOffers()
        for number in 0...UInt8(AcceptedOffers.capacity) {
            offers.accept(offer, listed: [], try identity(number))
            offers.end(try identity(number), .interrupted, now: instant(Int64(number)))
        }
        #expect(!accepts(offers, offer, try identity(0), now: instant(64)))
        #expect(accepts(offers, offer, try identity(1), now: instant(64)))
        #expect(accepts(offers, offer, try identity(UInt8(AcceptedOffers.capacity)), now: instant(64)))
    }
}
