import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("Offers that were accepted before the link broke") struct AcceptedOffersTests {
    private let offer = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 10)).offer
    private let other = MemoryContent(file: "a.txt", [UInt8](repeating: 1, count: 11)).offer

    private func identity(_ number: UInt8, resumeKey: UInt8 = 1) throws -> AcceptedOffers.Identity {
        AcceptedOffers.Identity(
            sender: try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32))),
            resumeKey: [UInt8](repeating: resumeKey, count: 32))
    }

    private func instant(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    @Test func `an interrupted transfer needs no second answer for ten minutes`() throws {
        var offers = AcceptedOffers()
        let ada = try identity(1)
        #expect(!offers.contains(offer, ada, now: instant(0)))
        offers.accept(offer, ada)
        // The link may be broken before this side has noticed.
        #expect(offers.contains(offer, ada, now: instant(10_000)))
        offers.end(ada, .interrupted, now: instant(20_000))
        #expect(offers.contains(offer, ada, now: instant(20_599)))
        #expect(!offers.contains(offer, ada, now: instant(20_600)))
    }

    @Test(
        "every other end requires an answer again",
        arguments: [
            TransferOutcome.completed, .cancelled(by: .local), .cancelled(by: .remote), .failed(.noSpace, at: .local),
        ])
    func ended(_ outcome: TransferOutcome) throws {
        var offers = AcceptedOffers()
        let ada = try identity(1)
        offers.accept(offer, ada)
        offers.end(ada, outcome, now: instant(1))
        #expect(!offers.contains(offer, ada, now: instant(1)))
    }

    @Test func `R11: another offer, key or sender requires an answer`() throws {
        var offers = AcceptedOffers()
        offers.accept(offer, try identity(1))
        #expect(!offers.contains(other, try identity(1), now: instant(0)))
        #expect(!offers.contains(offer, try identity(2), now: instant(0)))
        #expect(!offers.contains(offer, try identity(1, resumeKey: 2), now: instant(0)))
    }

    @Test func `the offer that expires first is dropped when there are too many`() throws {
        var offers = AcceptedOffers()
        for number in 0...UInt8(AcceptedOffers.capacity) {
            offers.accept(offer, try identity(number))
            offers.end(try identity(number), .interrupted, now: instant(Int64(number)))
        }
        #expect(!offers.contains(offer, try identity(0), now: instant(64)))
        #expect(offers.contains(offer, try identity(1), now: instant(64)))
        #expect(offers.contains(offer, try identity(UInt8(AcceptedOffers.capacity)), now: instant(64)))
    }
}
