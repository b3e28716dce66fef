import NearshareBase
import NearshareDirect
import Testing

@Suite struct DiscoveryInfoTests {
    private let id = PeerID(hex: "0011223344556677")!
    private let name = try! DisplayName("anna")

    @Test func `a pair has at most 255 bytes`() throws {
        let longest = String(repeating: "x", count: 255 - 4)
        #expect(try DiscoveryInfo(["key": longest])["key"] == longest)
        #expect(throws: DiscoveryInfo.Invalid(.pairTooLong(key: "key", byteCount: 256))) {
            _ = try DiscoveryInfo(["key": longest + "x"])
        }
    }

    @Test func `all pairs together have at most 400 bytes`() throws {
        let half = String(repeating: "x", count: 198)
        #expect(try DiscoveryInfo(["a": half, "b": half]).pairs.count == 2)
        #expect(throws: DiscoveryInfo.Invalid(.tooLong(byteCount: 401))) { _ = try DiscoveryInfo(["a": half, "bb": half]) }
    }

    @Test(arguments: ["", "a=b", "ä", "tab\t", "\u{7f}"]) func `a text that is no key of a TXT record is rejected`(
        _ key: String
    ) {
        #expect(throws: DiscoveryInfo.Invalid(.key(key))) { _ = try DiscoveryInfo([key: "x"]) }
    }

    @Test func `reserved, repeated and too many keys are rejected`() {
        #expect(throws: DiscoveryInfo.Invalid(.reservedKey("ID"))) { _ = try DiscoveryInfo(["ID": "x"]) }
        #expect(throws: DiscoveryInfo.Invalid.self) { _ = try DiscoveryInfo(["Game": "1", "game": "2"]) }
        #expect(throws: DiscoveryInfo.Invalid(.tooMany(count: 13))) {
            _ = try DiscoveryInfo(Dictionary(uniqueKeysWithValues: (0..<13).map { ("k\($0)", "") }))
        }
    }

    @Test func `the pairs are part of the TXT record`() throws {
        let record = PeerTXTRecord(
            id: id, name: name, acceptsMeshLinks: true, info: try DiscoveryInfo(["game": "go", "size": "19"]))
        #expect(PeerTXTRecord(strings: record.strings) == record)
        #expect(PeerTXTRecord(id: id, name: name, info: .none).strings.count == 3)
    }

    @Test("D3: only the valid fields of an untrusted record are kept") func untrustedRecord() throws {
        let own = PeerTXTRecord(id: id, name: name).strings
        let claimed = ["=x", "a=1", "A=2", "b", "c=\u{ff}", "long=" + String(repeating: "x", count: 300)].map { Array($0.utf8) }
        let record = try #require(PeerTXTRecord(strings: own + claimed + [Array("d=".utf8) + [0xff]]))
        #expect(record.info.pairs == ["a": "1", "c": "\u{ff}"])
    }
}
