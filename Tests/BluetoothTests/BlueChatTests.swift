import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@Suite("BlueChat's texts")
struct BlueChatTests {
    @Test("values are cut between characters, fit the limit, and add up to the text", arguments: seeds(0..<4))
    func cut(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let alphabet: [Character] = ["a", "ü", "語", "👍", "👨‍👩‍👧", "e\u{301}"]
        for _ in 0..<200 {
            let count = Int.random(in: 0...300, using: &random)
            let text = String((0..<count).map { _ in alphabet.randomElement(using: &random)! })
            let limit = Int.random(in: 0...600, using: &random)
            let values = BlueChat.values(of: text, largest: limit)
            let bound = min(max(limit, BlueChat.minimumValueByteCount), BlueChat.maximumTextByteCount)
            #expect(values.allSatisfy { (1...bound).contains($0.count) }, "seed \(seed)")
            #expect(Array(values.joined()) == Array(text.utf8), "seed \(seed)")
            let pieces = try values.map { try #require(BlueChat.text($0), "seed \(seed)") }
            #expect(pieces.map(\.count).reduce(0, +) == text.count, "no character was cut, seed \(seed)")
        }
    }

    @Test("a character that is longer than a value is cut between its scalars")
    func longCharacter() {
        let text = "e" + String(repeating: "\u{301}", count: 100)
        let values = BlueChat.values(of: text, largest: 20)
        #expect(values.allSatisfy { $0.count <= 20 && BlueChat.text($0) != nil })
        #expect(Array(values.joined()) == Array(text.utf8))
    }

    @Test(
        "values that are no text are rejected",
        arguments: [[], [0xFF, 0xFE], [0xF0, 0x9F, 0x98], Array(repeating: 0x61, count: 513)] as [[UInt8]])
    func notText(_ value: [UInt8]) {
        #expect(BlueChat.text(value) == nil)
    }

    @Test("an advertised name has at most 16 characters and fits into a scan response")
    func name() throws {
        #expect(BlueChat.name(try DisplayName("anna")) == "anna")
        #expect(BlueChat.name(try DisplayName("abcdefghijklmnopqrst")) == "abcdefghijklmnop")
        #expect(BlueChat.name(try DisplayName("語語語語語語語語語語語語")) == "語語語語語語語語語")
        let couple = BlueChat.name(try DisplayName("👩🏽‍❤️‍💋‍👨🏿"))
        #expect(!couple.isEmpty && couple.utf8.count <= 29)
    }
}
