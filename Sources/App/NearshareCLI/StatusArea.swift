internal import Nearshare

/// What stays at the bottom of a terminal while other output goes on above it: lines that show how things go, and below them a question
/// with the cursor behind it. A value that knows what is on the screen and says what to write; what somebody has begun to type
/// is echoed by the terminal, and not known here.
struct StatusArea: Sendable {
    private var lines: [String] = []
    private var question: String?
    /// How wide the lines on the screen are, which a terminal that has become narrower folds into more rows.
    private var drawnWidths: [Int] = []
    /// Of the question on the screen; nil while it is not there.
    private var questionWidth: Int?

    /// Replaces the lines. With a question below, as many lines as before leave what is being typed alone.
    mutating func show(_ lines: [String], columns: Int) -> String {
        self.lines = lines
        let widths = lines.map(TerminalText.width)
        let isInPlace = lines.count == drawnWidths.count && (widths + drawnWidths).allSatisfy { $0 <= columns }
        guard let questionWidth, isInPlace else { return erase(columns: columns) + draw(columns: columns) }
        guard !lines.isEmpty else { return "" }
        drawnWidths = widths
        let rowCount = lines.count + Self.rows(questionWidth, columns) - 1
        return Self.saveCursor + Self.up(rowCount) + "\r" + rows + Self.restoreCursor
    }

    /// Puts a question below the lines; nil takes it away.
    mutating func ask(_ question: String?, columns: Int) -> String {
        let erased = erase(columns: columns)
        self.question = question
        return erased + draw(columns: columns)
    }

    /// Enter was pressed: the question stays above, with its answer, as what has been said.
    mutating func answered(_ answer: String, columns: Int) -> String {
        guard let question, let questionWidth else { return "" }
        let erased = Self.upAndClear(Self.rows(questionWidth, columns) + lineRows(columns))
        (self.question, self.questionWidth, drawnWidths) = (nil, nil, [])
        return erased + "\(question)\(answer)\n" + draw(columns: columns)
    }

    /// Out of the way of other output, which ends with a line's end; ``draw(columns:)`` comes after it.
    mutating func erase(columns: Int) -> String {
        defer { (drawnWidths, questionWidth) = ([], nil) }
        let cleared = questionWidth.map { "\r" + Self.clearRow + Self.upAndClear(Self.rows($0, columns) - 1) } ?? ""
        return cleared + Self.upAndClear(lineRows(columns))
    }

    mutating func draw(columns: Int) -> String {
        drawnWidths = lines.map(TerminalText.width)
        questionWidth = question.map(TerminalText.width)
        return rows + (question ?? "")
    }

    private func lineRows(_ columns: Int) -> Int { drawnWidths.reduce(0) { $0 + Self.rows($1, columns) } }

    private static func rows(_ width: Int, _ columns: Int) -> Int { max(1, (width + columns - 1) / max(1, columns)) }

    private var rows: String { lines.map { Self.clearRow + $0 + "\n" }.joined() }

    private static let clearRow = "\u{1b}[2K"
    private static let saveCursor = "\u{1b}7"
    private static let restoreCursor = "\u{1b}8"

    private static func up(_ count: Int) -> String { count > 0 ? "\u{1b}[\(count)A" : "" }

    private static func upAndClear(_ count: Int) -> String { String(repeating: up(1) + clearRow, count: count) }
}
