/// The contents of a full screen.
package struct ScreenFrame: Sendable, Hashable {
    /// The rows of the terminal, none wider than the terminal.
    package var lines: [StyledLine]
    /// Counted from 0.
    package var cursorRow: Int
    package var cursorColumn: Int

    package init(lines: [StyledLine], cursorRow: Int, cursorColumn: Int) {
        self.lines = lines
        self.cursorRow = cursorRow
        self.cursorColumn = cursorColumn
    }

    // Synchronized output: no terminal shows half a frame. Terminals that do not support it ignore the sequences.
    private static let begin = "\u{1b}[?2026h\u{1b}[?25l"
    private static let end = "\u{1b}[?25h\u{1b}[?2026l"

    /// The bytes that draw the rows that differ from the previous frame.
    /// - Parameter previous: the frame on the screen; nil when its contents are unknown.
    package func encoded(replacing previous: ScreenFrame?, hasColor: Bool, hasUTF8: Bool) -> String {
        var code = Self.begin
        for (row, line) in lines.enumerated() {
            if let previous, row < previous.lines.count, previous.lines[row] == line { continue }
            code += "\u{1b}[\(row + 1);1H\u{1b}[0m\u{1b}[2K" + line.encoded(hasColor: hasColor, hasUTF8: hasUTF8)
        }
        return code + "\u{1b}[\(cursorRow + 1);\(cursorColumn + 1)H" + Self.end
    }
}
