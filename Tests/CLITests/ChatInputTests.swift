import Nearshare
import Testing

@testable import NearshareCLI

@Suite struct ChatInputTests {
    private func keys(_ text: String) -> [TerminalKey] {
        var input = TerminalInput()
        return input.take(Array(text.utf8))
    }

    @Test("letters that come together are one key, special keys are not")
    func mixed() {
        #expect(keys("ab\u{1b}[Dc\r") == [.text("ab"), .left, .text("c"), .enter])
    }

    @Test(
        "each key is known by what terminals send for it",
        arguments: [
            ("\u{1b}[A", TerminalKey.up), ("\u{1b}OA", .up), ("\u{1b}[1;5C", .wordRight), ("\u{1b}b", .wordLeft),
            ("\u{1b}[3~", .delete), ("\u{1b}[5~", .pageUp), ("\u{1b}[6;5~", .control("n")), ("\u{1b}[1~", .home),
            ("\u{1b}OF", .end), ("\u{1b}[Z", .backTab), ("\u{3}", .control("c")), ("\u{1b}3", .alt("3")),
            ("\u{7f}", .backspace), ("\n", .lineBreak), ("\u{1b}\r", .lineBreak), ("\t", .tab),
        ])
    func known(_ bytes: String, _ key: TerminalKey) {
        #expect(keys(bytes) == [key])
    }

    @Test("what is cut between two reads is put together, wherever it is cut")
    func cut() {
        let bytes = Array("é漢🎉\u{1b}[1;5D\u{1b}OHx\u{1b}[200~a\r\nb\rc\u{1b}[201~y".utf8)
        let whole: [TerminalKey] = [.text("é漢🎉"), .wordLeft, .home, .text("x"), .paste("a\nb\nc"), .text("y")]
        for place in 0...bytes.count {
            var input = TerminalInput()
            var found = input.take(bytes[..<place]) + input.take(bytes[place...])
            // The cut may have made two keys of one text.
            for index in found.indices.dropLast().reversed() {
                if case .text(let left) = found[index], case .text(let right) = found[index + 1] {
                    found[index] = .text(left + right)
                    found.remove(at: index + 1)
                }
            }
            #expect(found == whole, "cut after byte \(place)")
        }
        var input = TerminalInput()
        var texts = ""
        for byte in Array("é漢🎉".utf8) {
            for case .text(let text) in input.take([byte]) { texts += text }
        }
        #expect(texts == "é漢🎉")
    }

    @Test("Escape is a key by itself once nothing follows it")
    func escape() {
        var input = TerminalInput()
        let atOnce = input.take([0x1b])
        #expect(atOnce.isEmpty)
        #expect(input.isWaiting)
        let later = input.flush()
        #expect(later == [.escape])
        #expect(!input.isWaiting)
    }

    @Test("bytes that are no text and sequences that are no keys leave nothing behind")
    func garbage() {
        var input = TerminalInput()
        let bytes: [UInt8] = [0xff, 0x80, 0xc0, 0xaf, 0xed, 0xa0, 0x80] + Array("\u{1b}[999;1;2Rk\u{1b}[<0;1;1Ml".utf8)
        let found = input.take(bytes)
        #expect(found == [.text("kl")])
        #expect(!input.isWaiting)
    }

    @Test("a paste needs no more memory than what can be sent, and ends where it ends")
    func longPaste() throws {
        var input = TerminalInput()
        let begun = input.take(Array("\u{1b}[200~".utf8))
        #expect(begun.isEmpty)
        for _ in 0..<20 {
            let keys = input.take(Array(repeating: UInt8(ascii: "x"), count: 10_000))
            #expect(keys.isEmpty)
        }
        let found = input.take(Array("\u{1b}[201~z".utf8))
        try #require(found.count == 2)
        guard case .paste(let text) = found[0] else {
            Issue.record("no paste: \(found[0])")
            return
        }
        #expect(text.utf8.count == TerminalInput.maximumPasteByteCount)
        #expect(found[1] == .text("z"))
    }
}

@Suite struct ChatEditorTests {
    private func editor(_ text: String, _ keys: [TerminalKey] = []) -> LineEditor {
        var editor = LineEditor()
        _ = editor.insert(text)
        for key in keys { editor.handle(key) }
        return editor
    }

    @Test("keys edit where the cursor is")
    func editing() {
        #expect(editor("hallo", [.left, .left, .left, .left, .delete]).text == "hllo")
        #expect(editor("one two  ", [.control("w")]).text == "one ")
        #expect(editor("one two", [.wordLeft, .control("k")]).text == "one ")
        #expect(editor("one two", [.wordLeft, .control("u")]).text == "two")
        #expect(editor("one two", [.control("w"), .home, .control("y")]).text == "twoone ")
        #expect(editor("ab", [.home, .backspace, .end, .delete]).text == "ab")
        var moved = editor("ac", [.left])
        let takesLetter = moved.insert("b")
        #expect(takesLetter)
        #expect(moved.text == "abc")
        #expect(moved.cursor == 2)
    }

    @Test("an accent belongs to its letter, also when it is typed after it")
    func accents() {
        var accented = editor("e")
        let takesAccent = accented.insert("\u{301}")
        #expect(takesAccent)
        #expect(accented.characters.count == 1)
        #expect(accented.cursor == 1)
        accented.handle(.backspace)
        #expect(accented.isEmpty)
        // What stood between them goes, and they join.
        let joined = editor("ex\u{301}", [.home, .right, .delete])
        #expect(joined.cursor <= joined.characters.count)
    }

    @Test("the arrow keys bring back what was sent, and what was not yet")
    func history() {
        var editor = LineEditor()
        for text in ["one", "two", "two"] {
            let isTaken = editor.insert(text)
            #expect(isTaken)
            let taken = editor.take()
            #expect(taken == text)
        }
        let takesThird = editor.insert("thr")
        #expect(takesThird)
        editor.handle(.up)
        #expect(editor.text == "two")
        editor.handle(.up)
        #expect(editor.text == "one")
        editor.handle(.up)
        #expect(editor.text == "one")
        editor.handle(.down)
        editor.handle(.down)
        #expect(editor.text == "thr")
        editor.handle(.down)
        #expect(editor.text == "thr")
    }

    @Test("a text that is too long to be sent can't be written")
    func limit() {
        var editor = LineEditor()
        let takesAll = editor.insert(String(repeating: "x", count: ChatEntry.maximumTextByteCount))
        #expect(takesAll)
        let takesMore = editor.insert("é")
        #expect(!takesMore)
        #expect(editor.text.utf8.count == ChatEntry.maximumTextByteCount)
    }
}

@Suite struct ChatTextTests {
    @Test("texts break at spaces, long words where they must, and no row is wider than its room")
    func wrapping() {
        #expect(ChatText.wrap("one two three", first: 7, rest: 5) == ["one two", "three"])
        #expect(ChatText.wrap("abcdefgh ij", first: 3, rest: 4) == ["abc", "defg", "h ij"])
        #expect(ChatText.wrap("漢字漢字", first: 5, rest: 5) == ["漢字", "漢字"])
        #expect(ChatText.wrap("", first: 5, rest: 5) == [""])
        for columns in 2...40 {
            let text = "e\u{301}a 🎉🎉🎉 漢字漢字漢字 wordwordword x \u{2764}\u{fe0f} end"
            for row in ChatText.wrap(text, first: columns, rest: columns) {
                #expect(TerminalText.width(of: row) <= columns, "\(columns): \(row)")
            }
        }
    }

    @Test("no letter is lost by wrapping")
    func complete() {
        let text = "the quick brown fox jumps over the lazy dog, 漢字 and all"
        for columns in 2...60 {
            let joined = ChatText.wrap(text, first: columns, rest: columns).joined().filter { $0 != " " }
            #expect(joined == text.filter { $0 != " " })
        }
    }

    @Test("line breaks are rows of the same text, and there is an end to them")
    func lines() {
        #expect(ChatText.rows(of: "a\n\nb\r\nc", first: 9, rest: 9) == ["a", "", "b", "c"])
        let flood = ChatText.rows(of: String(repeating: "\n", count: 49_999), first: 40, rest: 40)
        #expect(flood.count == ChatText.maximumRows + 1)
        #expect(flood.last == "… 49600 more rows are not shown")
    }

    @Test("T1 T2 T3 T4: nothing in a text steers the terminal or hides")
    func hostile() {
        let shown = ChatText.shown("\u{1b}[2J\u{9b}31m\u{7}\u{8}\r\u{202e}\u{200b}\u{2028}\u{1b}]52;c;aGk=\u{7}")
        #expect(
            shown
                == "\\u{1b}[2J\\u{9b}31m\\u{7}\\u{8}\\u{d}\\u{202e}\\u{200b}\\u{2028}\\u{1b}]52;c;aGk=\\u{7}")
    }

    @Test("T4: an escape can't be forged, and code stays readable")
    func backslash() {
        #expect(ChatText.shown("C:\\dir \\n ¯\\_(ツ)_/¯") == "C:\\dir \\n ¯\\_(ツ)_/¯")
        #expect(ChatText.shown("\\u{1b}") == "\\\\u{1b}")
    }

    @Test("emoji that are joined are drawn one by one; a joiner elsewhere is seen")
    func joiners() {
        #expect(ChatText.shown("👨\u{200d}👩\u{200d}👧") == "👨👩👧")
        #expect(ChatText.shown("a\u{200d}b") == "a\\u{200d}b")
        #expect(ChatText.shown("👨\u{200d}") == "👨\\u{200d}")
    }
}
