import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite("styled lines and frames") struct StyledLineTests {
    @Test("the width counts wide characters as two columns and combining marks as none")
    func width() {
        #expect(StyledLine("abc").width == 3)
        #expect(StyledLine("漢字").width == 4)
        #expect(StyledLine("e\u{301}").width == 1)
        #expect(StyledLine("🎉").width == 2)
        #expect(StyledLine("").spans.isEmpty)
    }

    @Test("truncation never exceeds the limit, and never splits a wide character", arguments: 0...12)
    func truncation(_ columns: Int) {
        var line = StyledLine("a漢", .bold)
        line.append("字e\u{301}", .dim)
        line.append(StyledLine("│ 🎉x"), at: 8)
        let truncated = line.truncated(to: columns)
        #expect(truncated.width <= columns)
        #expect(truncated.spans.reduce(0) { $0 + TerminalText.width(of: $1.text) } <= columns)
        #expect(line.plainText.hasPrefix(truncated.plainText))
    }

    @Test("the plain text fills explicit columns with spaces")
    func columns() {
        var line = StyledLine("漢")
        line.append(StyledLine("b"), at: 5)
        #expect(line.plainText == "漢   b")
        #expect(line.encoded(hasColor: true, hasUTF8: true) == "漢\u{1b}[6Gb")
    }

    @Test func `the columns of an appended line count from its own start, also after an empty one`() {
        var inner = StyledLine("a")
        inner.append(StyledLine("b"), at: 3)
        var line = StyledLine("12345")
        line.append(inner)
        #expect(line.plainText == "12345a  b" && line.width == 9)
        var placed = StyledLine("1")
        placed.append(inner, at: 4)
        #expect(placed.plainText == "1   a  b" && placed.width == 8)
        var empty = StyledLine("1")
        empty.append(StyledLine(), at: 4)
        empty.append("x")
        #expect(empty.plainText == "1   x" && empty.width == 5)
        #expect(empty.encoded(hasColor: false, hasUTF8: true) == "1\u{1b}[5Gx")
    }

    @Test("styles become one sequence, colours only where the terminal shows them")
    func encoding() {
        let line = StyledLine("x", TextStyle(color: .red, isBold: true, isReversed: true))
        #expect(line.encoded(hasColor: true, hasUTF8: true) == "\u{1b}[1;7;31mx\u{1b}[0m")
        #expect(line.encoded(hasColor: false, hasUTF8: true) == "\u{1b}[1;7mx\u{1b}[0m")
        #expect(StyledLine("x", .warning).encoded(hasColor: false, hasUTF8: true) == "x")
        #expect(StyledLine("x").encoded(hasColor: true, hasUTF8: true) == "x")
    }

    @Test("T2: a terminal without UTF-8 receives ASCII of the same width")
    func ascii() {
        let encoded = StyledLine("é漢e\u{301}!").encoded(hasColor: true, hasUTF8: false)
        #expect(encoded == "???e!")
    }

    @Test("a frame redraws the rows that changed, and everything without a previous frame")
    func frame() {
        let first = ScreenFrame(lines: [StyledLine("one"), StyledLine("two")], cursorRow: 1, cursorColumn: 3)
        var second = first
        second.lines[1] = StyledLine("2")
        let changed = second.encoded(replacing: first, hasColor: true, hasUTF8: true)
        #expect(changed.contains("\u{1b}[2;1H\u{1b}[0m\u{1b}[2K2"))
        #expect(!changed.contains("one"))
        #expect(changed.contains("\u{1b}[2;4H"))
        #expect(second.encoded(replacing: nil, hasColor: true, hasUTF8: true).contains("one"))
        // A frame for a taller terminal also draws the new rows.
        var taller = second
        taller.lines.append(StyledLine("three"))
        #expect(taller.encoded(replacing: second, hasColor: true, hasUTF8: true).contains("three"))
    }
}

@Suite struct ANSIStyleTests {
    @Test("disabled styles and empty texts add nothing")
    func disabled() {
        #expect(ANSIStyle(isEnabled: false).red("x") == "x")
        #expect(ANSIStyle(isEnabled: true).red("").isEmpty)
    }

    @Test("each style ends with a reset")
    func enabled() {
        let style = ANSIStyle(isEnabled: true)
        #expect(style.red("x") == "\u{1b}[31mx\u{1b}[0m")
        #expect(style.green("x") == "\u{1b}[32mx\u{1b}[0m")
        #expect(style.yellow("x") == "\u{1b}[33mx\u{1b}[0m")
        #expect(style.dim("x") == "\u{1b}[2mx\u{1b}[0m")
        #expect(style.bold("x") == "\u{1b}[1mx\u{1b}[0m")
    }
}
