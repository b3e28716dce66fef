import FoundationEssentials
import NearshareBase
import NearshareTesting
import Testing

@Suite struct IdentifierTests {
    @Test("every identifier returns from its bytes, its text and its JSON", arguments: seeds(1...20))
    func roundTrip(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bytes = random.bytes(32)
        let peer = try #require(PeerID(bytes: bytes.prefix(8)))
        #expect(peer.bytes == Array(bytes.prefix(8)), "seed \(seed)")
        #expect(PeerID(hex: peer.hex) == peer && PeerID(hex: peer.hex.uppercased()) == peer, "seed \(seed)")
        #expect(try throughJSON(peer) == peer, "seed \(seed)")

        let fingerprint = try #require(Fingerprint(bytes: bytes))
        #expect(Fingerprint(hex: fingerprint.hex.uppercased()) == fingerprint, "seed \(seed)")
        #expect(fingerprint.peerID == peer && fingerprint.hex.hasPrefix(peer.hex), "seed \(seed)")
        #expect(try throughJSON(fingerprint) == fingerprint, "seed \(seed)")

        let bundle = try #require(BundleID(bytes: bytes.prefix(16)))
        #expect(bundle.bytes == Array(bytes.prefix(16)) && BundleID(hex: bundle.hex) == bundle, "seed \(seed)")
        #expect(bundle.short.bigEndianBytes == Array(bytes.prefix(8)), "seed \(seed)")
        #expect(try throughJSON(bundle) == bundle, "seed \(seed)")

        let endpoint = try #require(EndpointID(bytes: bytes.suffix(8)))
        #expect(endpoint.bytes == Array(bytes.suffix(8)), "seed \(seed)")
        #expect(try throughJSON(endpoint) == endpoint, "seed \(seed)")

        let transfer = TransferID(using: &random)
        #expect(transfer.hex.utf8.count == 16, "seed \(seed)")
        #expect(try throughJSON(transfer) == transfer, "seed \(seed)")
    }

    @Test("an identifier of any other size is rejected", arguments: 0...40)
    func size(count: Int) {
        let bytes = [UInt8](repeating: 7, count: count)
        let hex = Hex.encode(bytes)
        #expect((PeerID(bytes: bytes) != nil) == (count == PeerID.byteCount))
        #expect((PeerID(hex: hex) != nil) == (count == PeerID.byteCount))
        #expect((EndpointID(bytes: bytes) != nil) == (count == EndpointID.byteCount))
        #expect((BundleID(bytes: bytes) != nil) == (count == BundleID.byteCount))
        #expect((BundleID(hex: hex) != nil) == (count == BundleID.byteCount))
        #expect((Fingerprint(bytes: bytes) != nil) == (count == Fingerprint.byteCount))
        #expect((Fingerprint(hex: hex) != nil) == (count == Fingerprint.byteCount))
    }

    @Test(
        "text that is not hexadecimal is no identifier",
        arguments: ["", "0", "0x00000000000000", "000000000000000g", " 00000000000000", "00000000000000é", "٠٠٠٠٠٠٠٠"])
    func text(hex: String) {
        #expect(PeerID(hex: hex) == nil && Fingerprint(hex: hex) == nil && BundleID(hex: hex) == nil)
        for type in [PeerID.self, Fingerprint.self, BundleID.self, EndpointID.self, TransferID.self] as [any Decodable.Type] {
            #expect(throws: DecodingError.self) { try decode(type, from: hex) }
        }
    }

    @Test("peer ids are ordered as their texts are")
    func order() throws {
        var random = SeededRandom(seed: 5)
        let ids = (0..<200).compactMap { _ in PeerID(bytes: random.bytes(8)) }
        #expect(ids.sorted().map(\.hex) == ids.map(\.hex).sorted())
    }

    @Test("transfer ids are drawn from the given generator")
    func drawn() {
        var (one, same, other) = (SeededRandom(seed: 1), SeededRandom(seed: 1), SeededRandom(seed: 2))
        let first = TransferID(using: &one)
        let again = TransferID(using: &same)
        let second = TransferID(using: &one)
        let different = TransferID(using: &other)
        #expect(first == again)
        #expect(first != second && first != different)
    }

    private func throughJSON<Value: Codable>(_ value: Value) throws -> Value {
        try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value))
    }

    private func decode<Value: Decodable>(_: Value.Type, from text: String) throws -> Value {
        try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(text))
    }
}

@Suite struct ClaimedMediaTypeTests {
    @Test(
        "a type and a subtype make a media type",
        arguments: ["text/plain", "a/b", "application/vnd.x+json", "image/svg+xml;q=1"])
    func valid(text: String) {
        #expect(ClaimedMediaType(text)?.text == text)
    }

    @Test(
        "T1: any other text is no media type",
        arguments: [
            "", "/", "text", "text/", "/plain", "a/b/c", "text/pl ain", "text/plain\n", "text/\u{1b}[31m", "text/é",
            "te\0xt/plain",
            "text/\u{7f}",
        ])
    func invalid(text: String) {
        #expect(ClaimedMediaType(text) == nil)
    }

    @Test func `a media type has at most 100 bytes`() {
        let limit = ClaimedMediaType.maximumByteCount
        #expect(ClaimedMediaType("a/" + String(repeating: "b", count: limit - 2)) != nil)
        #expect(ClaimedMediaType("a/" + String(repeating: "b", count: limit - 1)) == nil)
    }

    @Test func `the types that nearshare itself announces pass its own check`() {
        for type in [ClaimedMediaType.unknown, .folder, .text] {
            #expect(ClaimedMediaType(type.text) == type)
        }
    }
}
