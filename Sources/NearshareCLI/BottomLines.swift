internal import Nearshare

/// What stays at the bottom of a terminal while other output goes on above it: lines that show how things go, and below them a question
/// with the cursor behind it. A value that knows what is on the screen and says what to write; what somebody has begun to type
/// is echoed by the terminal, and not known here.
struct BottomLines: Sendable {
    private var lines: [String] = []
    private var question: String?
    private var drawnLines = 0
    /// Rows that the question takes, which may be longer than one; 0 while it is not on the screen.
    private var questionRows = 0

    /// Replaces the lines. With a question below, as many lines as before leave what is being typed alone.
    mutating func show(_ lines: [String], columns: Int) -> String {
        self.lines = lines
        guard questionRows > 0, lines.count == drawnLines else { return erase() + draw(columns: columns) }
        guard drawnLines > 0 else { return "" }
        return Self.saveCursor + Self.up(drawnLines + questionRows - 1) + "\r" + rows + Self.restoreCursor
    }

    /// Puts a question below the lines; nil takes it away.
    mutating func ask(_ question: String?, columns: Int) -> String {
        let erased = erase()
        self.question = question
        return erased + draw(columns: columns)
    }

    /// Enter was pressed: the question stays above, with its answer, as what has been said.
    mutating func answered(_ answer: String, columns: Int) -> String {
        guard let question, questionRows > 0 else { return "" }
        let erased = Self.upAndClear(questionRows + drawnLines)
        (self.question, questionRows, drawnLines) = (nil, 0, 0)
        return erased + "\(question)\(answer)\n" + draw(columns: columns)
    }

    /// Out of the way of other output, which ends with a line's end; ``draw(columns:)`` comes after it.
    mutating func erase() -> String {
        defer { (drawnLines, questionRows) = (0, 0) }
        let cleared = questionRows > 0 ? "\r" + Self.clearRow + Self.upAndClear(questionRows - 1) : ""
        return cleared + Self.upAndClear(drawnLines)
    }

    mutating func draw(columns: Int) -> String {
        drawnLines = lines.count
        guard let question else { return rows }
        let columns = max(1, columns)
        questionRows = max(1, (TerminalText.width(of: question) + columns - 1) / columns)
        return rows + question
    }

    private var rows: String { lines.map { Self.clearRow + $0 + "\n" }.joined() }

    private static let clearRow = "\u{1b}[2K"
    private static let saveCursor = "\u{1b}7"
    private static let restoreCursor = "\u{1b}8"

    private static func up(_ count: Int) -> String { count > 0 ? "\u{1b}[\(count)A" : "" }

    private static func upAndClear(_ count: Int) -> String { String(repeating: up(1) + clearRow, count: count) }
}
