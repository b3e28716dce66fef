import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct TableTests {
    @Test("columns are aligned by display width")
    func columns() {
        #expect(Table.lines([["a", "x"], ["日本", "y"]]) == ["a     x", "日本  y"])
        #expect(Table.lines([["e\u{301}", "x"], ["ab", "y"]]) == ["e\u{301}   x", "ab  y"])
    }

    @Test("where a row is wider than the terminal, the last cells have lines of their own")
    func narrow() {
        let rows = [["a", "x", "/some/path"], ["bbb", "y", "/p"], ["c", "z", ""], ["d"]]
        #expect(Table.wrappedLines(rows, maximumWidth: nil) == Table.lines(rows))
        #expect(Table.wrappedLines(rows, maximumWidth: 18) == Table.lines(rows))
        #expect(Table.wrappedLines(rows, maximumWidth: 17) == ["a    x", "    /some/path", "bbb  y", "    /p", "c    z", "d"])
    }

    @Test("a cell that is wider than the terminal is broken at spaces, but no path")
    func wide() {
        let rows = [["send", "nearshare send photo.jpg --to anna"], ["in", "/home/anna/a folder/In"]]
        #expect(
            Table.wrappedLines(rows, maximumWidth: 20) == [
                "send", "    nearshare send", "      photo.jpg --to", "      anna", "in", "    /home/anna/a folder/In",
            ])
    }

    @Test("rows of different lengths keep their cells")
    func ragged() {
        #expect(Table.lines([["a"], ["bb", "c"], []]) == ["a", "bb  c", ""])
        #expect(Table.lines([]).isEmpty)
    }
}
