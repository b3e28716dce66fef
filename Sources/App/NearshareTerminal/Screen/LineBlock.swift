/// Lines above the cursor that are redrawn in place. A value: it returns the control sequences to write.
package struct LineBlock: Sendable {
    /// Widths of the lines on the screen, which a terminal that has become narrower wraps into more rows.
    private var drawnWidths: [Int] = []

    package init() {}

    /// Replaces the drawn lines.
    /// - Parameter columns: width of the terminal, which wraps longer lines.
    package mutating func replace(with lines: [String], columns: Int) -> String {
        let rowCount = StatusArea.rowCount(widths: drawnWidths, columns: columns)
        drawnWidths = lines.map { ANSIStyle.width(of: $0) }
        return String(repeating: "\u{1b}[1A\u{1b}[2K", count: rowCount) + lines.map { $0 + "\n" }.joined()
    }
}
