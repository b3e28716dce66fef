import Testing

@testable import NearshareTerminal

@Suite struct TerminalInputTests {
    private func keys(_ text: String) -> [TerminalKey] {
        var input = TerminalInput(maximumPasteByteCount: 60_000)
        return input.receive(Array(text.utf8))
    }

    @Test("characters that arrive together are one key, special keys are separate")
    func mixed() {
        #expect(keys("ab\u{1b}[Dc\r") == [.text("ab"), .left, .text("c"), .enter])
    }

    @Test(
        "the sequences of common terminals map to keys",
        arguments: [
            ("\u{1b}[A", TerminalKey.up), ("\u{1b}OA", .up), ("\u{1b}[1;5C", .wordRight), ("\u{1b}b", .wordLeft),
            ("\u{1b}[3~", .delete), ("\u{1b}[5~", .pageUp), ("\u{1b}[6;5~", .control("n")), ("\u{1b}[1~", .home),
            ("\u{1b}OF", .end), ("\u{1b}[Z", .backTab), ("\u{3}", .control("c")), ("\u{1b}3", .alt("3")),
            ("\u{7f}", .backspace), ("\n", .lineBreak), ("\u{1b}\r", .lineBreak), ("\t", .tab),
        ])
    func sequences(_ bytes: String, _ key: TerminalKey) {
        #expect(keys(bytes) == [key])
    }

    @Test("the function keys of the Linux console type nothing, wherever a read ends")
    func consoleFunctionKeys() {
        let bytes = Array("\u{1b}[[Ax\u{1b}[[E\u{1b}[[\u{1b}[D".utf8)
        for place in 0...bytes.count {
            var input = TerminalInput(maximumPasteByteCount: 60_000)
            let keys = input.receive(bytes[..<place]) + input.receive(bytes[place...])
            #expect(keys == [.text("x"), .left], "split after byte \(place)")
        }
    }

    @Test("sequences and characters split between two reads are joined, wherever the split is")
    func split() {
        let bytes = Array("é漢🎉\u{1b}[1;5D\u{1b}OHx\u{1b}[200~a\r\nb\rc\u{1b}[201~y".utf8)
        let whole: [TerminalKey] = [.text("é漢🎉"), .wordLeft, .home, .text("x"), .paste("a\nb\nc"), .text("y")]
        for place in 0...bytes.count {
            var input = TerminalInput(maximumPasteByteCount: 60_000)
            var found = input.receive(bytes[..<place]) + input.receive(bytes[place...])
            // The split may have made two keys of one text.
            for index in found.indices.dropLast().reversed() {
                if case .text(let left) = found[index], case .text(let right) = found[index + 1] {
                    found[index] = .text(left + right)
                    found.remove(at: index + 1)
                }
            }
            #expect(found == whole, "split after byte \(place)")
        }
    }

    @Test("a character whose bytes arrive one by one is joined")
    func singleBytes() {
        var input = TerminalInput(maximumPasteByteCount: 60_000)
        let keys = Array("é漢🎉".utf8).flatMap { input.receive([$0]) }
        #expect(keys == [.text("é"), .text("漢"), .text("🎉")])
    }

    @Test("Escape is a key once a pause follows it")
    func escape() {
        var input = TerminalInput(maximumPasteByteCount: 60_000)
        let atOnce = input.receive([0x1b])
        #expect(atOnce.isEmpty)
        #expect(input.isWaiting)
        let later = input.flush()
        #expect(later == [.escape])
        #expect(!input.isWaiting)
    }

    @Test("invalid UTF-8 and unknown sequences are dropped without a trace")
    func invalid() {
        var input = TerminalInput(maximumPasteByteCount: 60_000)
        let neverUsed: [UInt8] = [0xff]
        let loneContinuation: [UInt8] = [0x80]
        let overlongSlash: [UInt8] = [0xc0, 0xaf]
        let surrogate: [UInt8] = [0xed, 0xa0, 0x80]
        let cursorReport = Array("\u{1b}[999;1;2R".utf8)
        let mouseReport = Array("\u{1b}[<0;1;1M".utf8)
        let found = input.receive(
            neverUsed + loneContinuation + overlongSlash + surrogate + cursorReport + Array("k".utf8) + mouseReport
                + Array("l".utf8))
        #expect(found == [.text("kl")])
        #expect(!input.isWaiting)
    }

    @Test("a paste is bounded in memory, and keys after its end are decoded")
    func longPaste() throws {
        var input = TerminalInput(maximumPasteByteCount: 60_000)
        let begun = input.receive(Array("\u{1b}[200~".utf8))
        #expect(begun.isEmpty)
        for _ in 0..<20 {
            let keys = input.receive(Array(repeating: UInt8(ascii: "x"), count: 10_000))
            #expect(keys.isEmpty)
        }
        let found = input.receive(Array("\u{1b}[201~z".utf8))
        try #require(found.count == 2)
        guard case .paste(let text) = found[0] else {
            Issue.record("no paste: \(found[0])")
            return
        }
        #expect(text.utf8.count == 60_000)
        #expect(found[1] == .text("z"))
    }
}
