import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("operands that are not UTF-8") struct CommandLineBytesTests {
    private func paths(_ words: [[UInt8]], _ operands: [String]) throws -> [[UInt8]] {
        try CommandLineBytes([Array("nearshare".utf8)] + words).paths(of: operands).map(\.bytes)
    }

    @Test func `operands are the words that the parser has repaired, in their order`() throws {
        let (first, second) = ([0x63, 0xe9] as [UInt8], [0x63, 0xe8] as [UInt8])
        let genuine = Array("c\u{fffd}".utf8)
        let words = [Array("send".utf8), first, Array("plain".utf8), second, genuine]
        #expect(
            try paths(words, ["c\u{fffd}", "plain", "c\u{fffd}", "c\u{fffd}"]) == [first, Array("plain".utf8), second, genuine])
    }

    @Test func `an operand that is in no word stays as it is`() throws {
        #expect(try paths([], ["x\u{fffd}"]) == [Array("x\u{fffd}".utf8)])
        #expect(try paths([[0xff]], ["a", "\u{fffd}", "\u{fffd}"]) == [[0x61], [0xff], Array("\u{fffd}".utf8)])
    }

    @Test func `an option's value of the same form makes an operand ambiguous`() throws {
        let words = [Array("--exclude".utf8), [0x72, 0xe9], [0x72, 0xe8]]
        #expect(throws: CommandFailure.self) { try paths(words, ["r\u{fffd}"]) }
        #expect(try paths([[0x72, 0xe9], [0x72, 0xe9]], ["r\u{fffd}"]) == [[0x72, 0xe9]])
    }

    @Test func `composed and decomposed names stay apart`() throws {
        let word = Array("e\u{301}".utf8) + [0xff]
        #expect(try paths([word], ["\u{e9}\u{fffd}"]) == [Array("\u{e9}\u{fffd}".utf8)])
        #expect(try paths([word], ["e\u{301}\u{fffd}"]) == [word])
    }
}
