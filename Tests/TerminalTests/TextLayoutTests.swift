import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct TextLayoutTests {
    @Test("T4: each continuation row is indented, so no text of a peer looks like a line of this program")
    func longWords() {
        #expect(TextLayout.wrapWords("ab: 1234567890", columns: 8) == ["ab:", "  123456", "  7890"])
        #expect(TextLayout.wrapWords("1234567890 b", columns: 8, keepsAddresses: false) == ["12345678", "  90 b"])
        #expect(TextLayout.wrapWords("/a/long/path b", columns: 8, keepsAddresses: false) == ["/a/long/", "  path b"])
        // Other spaces than the ordinary one do not fill rows either.
        let forged = "mal: " + String(repeating: "─", count: 13) + String(repeating: "\u{a0}", count: 15) + "accept? [y]es:"
        let rows = TextLayout.wrapWords(TextLayout.escaped(forged), columns: 20)
        #expect(rows.dropFirst().allSatisfy { $0.hasPrefix("  ") && TerminalText.width(of: $0) <= 20 })
        for space in ["\u{a0}", "\u{2007}", "\u{202f}", "\u{2003}", "\u{1680}"] { #expect(TerminalText.escaped(space) == " ") }
        #expect(TerminalText.escaped("\u{3000}") == "  ")
        // At least one character fits into each row.
        #expect(TextLayout.wrapWords("abc", columns: 1) == ["a", "  b", "  c"])
    }

    @Test("texts break at spaces, long words anywhere, and no row is wider than its limit")
    func wrapping() {
        #expect(TextLayout.wrap("one two three", firstColumns: 7, columns: 5) == ["one two", "three"])
        #expect(TextLayout.wrap("abcdefgh ij", firstColumns: 3, columns: 4) == ["abc", "defg", "h ij"])
        #expect(TextLayout.wrap("abcd ef", firstColumns: 3, columns: 6) == ["", "abcd", "ef"])
        #expect(TextLayout.wrap("漢字漢字", firstColumns: 5, columns: 5) == ["漢字", "漢字"])
        #expect(TextLayout.wrap("", firstColumns: 5, columns: 5) == [""])
        for columns in 2...40 {
            let text = "e\u{301}a 🎉🎉🎉 漢字漢字漢字 wordwordword x \u{2764}\u{fe0f} end"
            for row in TextLayout.wrap(text, firstColumns: columns, columns: columns) {
                #expect(TerminalText.width(of: row) <= columns, "\(columns): \(row)")
            }
        }
    }

    @Test("a message is broken at words, and an address that is longer than a row stays whole")
    func words() {
        #expect(TextLayout.wrapWords("one two three", columns: 13) == ["one two three"])
        #expect(TextLayout.wrapWords("one two three four", columns: 10) == ["one two", "  three", "  four"])
        #expect(TextLayout.wrapWords("to /a/very/long/path now", columns: 8) == ["to", "  /a/very/long/path", "  now"])
        #expect(TextLayout.wrapWords("12345678  b", columns: 8) == ["12345678", "  b"])
        #expect(TextLayout.wrapWords("  one two", columns: 7) == ["  one", "    two"])
        #expect(TextLayout.wrapWords("a https://x/long b", columns: 8) == ["a", "  https://x/long", "  b"])
        #expect(TextLayout.wrapWords("", columns: 1) == [""] && TextLayout.wrapWords("   ", columns: 1) == [""])
        #expect(TextLayout.wrapWords("one two    ", columns: 5) == ["one", "  two"])
    }

    /// 30 columns wide.
    private static let longName = "\"a long file name 漢字.tar.gz\""

    @Test("a name that is too long is cut in the middle", arguments: 0..<30) func middle(_ columns: Int) {
        let cut = TextLayout.middleCut(Self.longName, to: columns)
        #expect(TerminalText.width(of: cut) <= columns && cut.contains("…") == (columns > 0), "\(cut)")
        if columns >= 12 { #expect(cut.hasPrefix("\"a") && cut.hasSuffix("ar.gz\""), "\(cut)") }
    }

    @Test("a name that fits is not cut") func fits() {
        #expect(TerminalText.width(of: Self.longName) == 30)
        #expect(TextLayout.middleCut(Self.longName, to: 30) == Self.longName)
        #expect(TextLayout.middleCut("short", to: 5) == "short")
    }

    @Test("wrapping keeps every letter")
    func complete() {
        let text = "the quick brown fox jumps over the lazy dog, 漢字 and all"
        for columns in 2...60 {
            let joined = TextLayout.wrap(text, firstColumns: columns, columns: columns).joined().filter { $0 != " " }
            #expect(joined == text.filter { $0 != " " })
        }
    }

    @Test("line breaks start rows, up to a limit")
    func lines() {
        #expect(TextLayout.rows(of: "a\n\nb\r\nc", firstColumns: 9, columns: 9) == ["a", "", "b", "c"])
        let flood = TextLayout.rows(of: String(repeating: "\n", count: 49_999), firstColumns: 40, columns: 40)
        #expect(flood.count == TextLayout.maximumRows + 1)
        #expect(flood.last == "… 49600 more rows are not shown")
    }

    @Test("T1, T2, T3, T4: control and invisible characters are escaped")
    func hostile() {
        let shown = TextLayout.escaped("\u{1b}[2J\u{9b}31m\u{7}\u{8}\r\u{202e}\u{200b}\u{2028}\u{1b}]52;c;aGk=\u{7}")
        #expect(
            shown
                == "\\u{1b}[2J\\u{9b}31m\\u{7}\\u{8}\\u{d}\\u{202e}\\u{200b}\\u{2028}\\u{1b}]52;c;aGk=\\u{7}")
    }

    @Test("T4: an escape cannot be forged, and code stays readable")
    func backslash() {
        #expect(TextLayout.escaped("C:\\dir \\n ¯\\_(ツ)_/¯") == "C:\\dir \\n ¯\\_(ツ)_/¯")
        #expect(TextLayout.escaped("\\u{1b}") == "\\\\u{1b}")
    }

    @Test("T1, T4: a sentence whose parts are escaped is not escaped again, and still harmless")
    func escapedParts() {
        let rows = TextLayout.rows(
            of: "a\\\\b \\u{1b} \u{1b}[2J\u{202e}", isEscaped: true, firstColumns: 80, columns: 80)
        #expect(rows == ["a\\\\b \\u{1b} \\u{1b}[2J\\u{202e}"])
    }

    @Test("T1: the lines of a text of another process stay lines, and nothing else breaks one")
    func sanitizedLines() {
        #expect(
            TextLayout.sanitized("several:\n  a\\b\n  \u{1b}[2J\r\u{2028}") == "several:\n  a\\b\n  \\u{1b}[2J\\u{d}\\u{2028}")
    }

    @Test("joined emoji are drawn one by one; a joiner elsewhere is escaped")
    func joiners() {
        #expect(TextLayout.escaped("👨\u{200d}👩\u{200d}👧") == "👨👩👧")
        #expect(TextLayout.escaped("👨\u{200d}👩\u{200d}👧", keepsJoiners: true) == "👨\u{200d}👩\u{200d}👧")
        #expect(TextLayout.escaped("🏳\u{fe0f}\u{200d}🌈 \\u{7}", keepsJoiners: true) == "🏳\u{fe0f}\u{200d}🌈 \\\\u{7}")
        let england = "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}"
        #expect(TextLayout.escaped("\(england)!") == "🏴!")
        #expect(TextLayout.escaped("\(england)!", keepsJoiners: true) == "\(england)!")
        for keepsJoiners in [true, false] {
            #expect(TextLayout.escaped("🏴\u{e0067}x\u{200d}y", keepsJoiners: keepsJoiners) == "🏴\\u{e0067}x\\u{200d}y")
        }
        #expect(TextLayout.escaped("a\u{200d}b") == "a\\u{200d}b")
        #expect(TextLayout.escaped("👨\u{200d}") == "👨\\u{200d}")
    }

    @Test("a truncated text ends in an ellipsis and fits, whatever its characters", arguments: 0...20)
    func truncation(_ columns: Int) {
        for text in ["anna", "漢字漢字漢字", "e\u{301}e\u{301}e\u{301}e\u{301}", "🎉🎉🎉🎉🎉", "👨\u{200d}👩\u{200d}👧 family", ""] {
            let truncated = TextLayout.truncated(text, to: columns)
            #expect(TerminalText.width(of: truncated) <= columns, "\(truncated)")
            if TerminalText.width(of: text) <= columns {
                #expect(truncated == text)
            } else if columns > 0 {
                #expect(truncated.hasSuffix("…"))
            }
        }
    }

    @Test func `without UTF-8, a terminal gets ASCII of the same width, and a file keeps the names`() {
        let text = "looking for Zoë – ☕… → ▁▇ █░ ✓"
        #expect(TextLayout.replacingNonASCII(text) == "looking for Zo? - ??. > _# #. v")
        #expect(TextLayout.replacingDrawnSigns(text) == "looking for Zoë – ☕... -> _# #. v")
    }
}
