import Nearshare
import Testing

@testable import NearshareCLI

@Suite("operands that are not UTF-8") struct CommandLineBytesTests {
    private func paths(_ words: [[UInt8]], _ operands: [String]) -> [[UInt8]] {
        CommandLineBytes([Array("nearshare".utf8)] + words).paths(of: operands).map(\.bytes)
    }

    @Test func `operands are the words that the parser has repaired, in their order`() {
        let (first, second) = ([0x63, 0xe9] as [UInt8], [0x63, 0xe8] as [UInt8])
        let genuine = Array("c\u{fffd}".utf8)
        let words = [Array("send".utf8), first, Array("plain".utf8), second, genuine]
        #expect(
            paths(words, ["c\u{fffd}", "plain", "c\u{fffd}", "c\u{fffd}"]) == [first, Array("plain".utf8), second, genuine])
    }

    @Test func `an operand that is in no word stays as it is`() {
        #expect(paths([], ["x\u{fffd}"]) == [Array("x\u{fffd}".utf8)])
        #expect(paths([[0xff]], ["a", "\u{fffd}", "\u{fffd}"]) == [[0x61], [0xff], Array("\u{fffd}".utf8)])
    }

    @Test func `composed and decomposed names stay apart`() {
        let word = Array("e\u{301}".utf8) + [0xff]
        #expect(paths([word], ["\u{e9}\u{fffd}"]) == [Array("\u{e9}\u{fffd}".utf8)])
        #expect(paths([word], ["e\u{301}\u{fffd}"]) == [word])
    }
}
