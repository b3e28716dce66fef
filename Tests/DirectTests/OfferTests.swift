import NearshareBase
import NearshareDirect
import Testing

@Suite struct OfferTests {
    /// Through a frame, as every offer is received.
    private func throughTheWire(_ offer: Offer) throws -> Offer? {
        let frame = ControlFrame.offer(
            TransferOffer(id: Samples.id, timeout: .seconds(60), resumeKey: Samples.digest, context: [], offer: offer))
        guard case .offer(let decoded)? = try ControlFrame.decode(frame.encoded) else { return nil }
        return decoded.offer
    }

    @Test func `an offer describes at most 128 items`() throws {
        let items = (0..<129).map { Samples.item(.file, "f\($0)", 1) }
        let decoded = try throughTheWire(Offer(items: items, itemCount: 129, entryCount: 129, totalSize: 129))
        #expect(decoded?.items.count == 128)
        #expect(decoded?.itemCount == 129)
        // The undescribed item must have an entry of its own.
        #expect(throws: MalformedInput.self) {
            try throughTheWire(Offer(items: items, itemCount: 129, entryCount: 128, totalSize: 129))
        }
    }

    @Test("R7, R12: inconsistent counts and sizes are rejected", arguments: Self.wrong)
    func wrongSums(_ offer: Offer) {
        #expect(throws: MalformedInput.self) { try throughTheWire(offer) }
    }

    private static let wrong: [Offer] = {
        let file = Samples.item(.file, "a", 5)
        let huge = Samples.item(.file, "b", .max - 1)
        let hugeFolder = Samples.item(.folder, "c", 1, entries: .max)
        return [
            Offer(items: [], itemCount: 0, entryCount: 0, totalSize: 0),
            Offer(items: [file], itemCount: 0, entryCount: 1, totalSize: 5),
            Offer(items: [file], itemCount: 2, entryCount: 2, totalSize: 5),
            Offer(items: [file], itemCount: 1, entryCount: 2, totalSize: 5),
            Offer(items: [file], itemCount: 1, entryCount: 1, totalSize: 4),
            Offer(items: [file], itemCount: 1, entryCount: 1, totalSize: 6),
            Offer(items: [file], itemCount: 1, entryCount: 1, totalSize: nil),
            Offer(items: [Samples.item(.file, "a", nil)], itemCount: 1, entryCount: 1, totalSize: 5),
            Offer(items: [Samples.item(.file, "a", 5, entries: 2)], itemCount: 1, entryCount: 2, totalSize: 5),
            Offer(items: [Samples.item(.folder, "a", 5, entries: 0)], itemCount: 1, entryCount: 0, totalSize: 5),
            Offer(items: [file, huge], itemCount: 2, entryCount: 2, totalSize: 3),
            Offer(items: [hugeFolder, hugeFolder], itemCount: 2, entryCount: .max - 1, totalSize: 2),
        ]
    }()

    @Test("P14: an invalid media type is rejected") func mediaTypes() {
        #expect(ClaimedMediaType("a/" + String(repeating: "b", count: 98)) != nil)
        for bad in ["a/" + String(repeating: "b", count: 99), "a", "/b", "a/", "a/b/c", "a/\u{1b}", "a/ b", "ä/b"] {
            #expect(ClaimedMediaType(bad) == nil, "\(bad)")
        }
    }
}
