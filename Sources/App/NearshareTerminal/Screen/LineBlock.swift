/// Lines at the cursor that are redrawn in place. A value: it returns the control sequences to write.
package struct LineBlock: Sendable {
    private var drawnCount = 0

    package init() {}

    /// Replaces the drawn lines, none of which may be wider than the terminal.
    package mutating func replace(with lines: [String]) -> String {
        defer { drawnCount = lines.count }
        return String(repeating: "\u{1b}[1A\u{1b}[2K", count: drawnCount) + lines.map { $0 + "\n" }.joined()
    }
}
