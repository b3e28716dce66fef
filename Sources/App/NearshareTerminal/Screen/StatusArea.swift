internal import NearshareBase

/// The bottom rows of a terminal, below other output: status lines, and under them a question with the cursor behind it.
///
/// A value: it tracks what is on the screen and returns the control sequences to write. The question includes what the user has
/// typed behind it.
///
/// In plain mode it writes no control sequences: status lines are written once, when the first ones are shown, and a question is
/// written again below other output.
package struct StatusArea: Sendable {
    private var lines: [String] = []
    private var question: String?
    /// Widths of the lines on the screen, which a terminal that has become narrower wraps into more rows.
    private var drawnWidths: [Int] = []
    /// Widths of the rows of the question on the screen, which is wrapped at words; nil while there is none.
    private var questionWidths: [Int]?
    /// Whether the terminal, or another program that writes to it, allows no cursor movement.
    package private(set) var isPlain: Bool

    package init(isPlain: Bool = false) {
        self.isPlain = isPlain
    }

    /// Begins or ends plain mode, with the same lines and question.
    package mutating func setPlain(_ isPlain: Bool, columns: Int) -> String {
        guard isPlain != self.isPlain else { return "" }
        let erased = erase(columns: columns)
        self.isPlain = isPlain
        return erased + draw(columns: columns)
    }

    /// Replaces the status lines, in place where their number stays the same.
    package mutating func show(_ lines: [String], columns: Int) -> String {
        if isPlain {
            defer { self.lines = lines }
            guard self.lines.isEmpty, !lines.isEmpty else { return "" }
            return erase(columns: columns) + lines.map { $0 + "\n" }.joined() + draw(columns: columns)
        }
        self.lines = lines
        let widths = lines.map(ANSIStyle.width)
        let isInPlace = lines.count == drawnWidths.count && (widths + drawnWidths).allSatisfy { $0 <= columns }
        guard let questionWidths, isInPlace else { return erase(columns: columns) + draw(columns: columns) }
        guard !lines.isEmpty else { return "" }
        drawnWidths = widths
        let rowCount = lines.count + Self.rowCount(widths: questionWidths, columns: columns) - 1
        return Self.saveCursor + Self.up(rowCount) + "\r" + encodedLines + Self.restoreCursor
    }

    /// Sets the question below the lines; nil removes it.
    package mutating func ask(_ question: String?, columns: Int) -> String {
        // An answer grows behind the question.
        if isPlain, questionWidths != nil, let shown = self.question, let question, question.hasPrefix(shown) {
            self.question = question
            return String(question.dropFirst(shown.count))
        }
        let erased = erase(columns: columns)
        // An empty one waits for what is typed.
        self.question = question?.isEmpty == true ? nil : question
        return erased + draw(columns: columns)
    }

    /// Moves the question, with its answer, above the status area. Called after Enter was pressed.
    package mutating func recordAnswer(columns: Int) -> String {
        guard let question else { return "" }
        if isPlain {
            self.question = nil
            return erase(columns: columns)
        }
        let erased = erase(columns: columns)
        self.question = nil
        return erased + TextLayout.wrappedText(question, columns: columns) + "\n" + draw(columns: columns)
    }

    /// Clears the area for other output, which has to end with a line break. ``draw(columns:)`` follows it.
    package mutating func erase(columns: Int) -> String {
        defer { (drawnWidths, questionWidths) = ([], nil) }
        var erased = ""
        guard !isPlain else { return questionWidths == nil ? "" : "\n" }
        if let questionWidths {
            let rowCount = Self.rowCount(widths: questionWidths, columns: columns)
            erased = "\r" + Self.clearRow + Self.upAndClear(rowCount - 1)
        }
        let rowCount = drawnRowCount(columns: columns)
        // A ^C of the terminal may stand where the cursor was.
        if rowCount > 0, erased.isEmpty { erased = "\r" + Self.clearRow }
        return erased + Self.upAndClear(rowCount)
    }

    package mutating func draw(columns: Int) -> String {
        let rows = question.map { $0.lines.flatMap { TextLayout.wrapWords(String($0), columns: columns) } }
        questionWidths = rows?.map(ANSIStyle.width)
        let shown = rows?.joined(separator: "\n") ?? ""
        guard !isPlain else { return shown }
        drawnWidths = lines.map(ANSIStyle.width)
        return encodedLines + shown
    }

    private func drawnRowCount(columns: Int) -> Int {
        drawnWidths.isEmpty ? 0 : Self.rowCount(widths: drawnWidths, columns: columns)
    }

    /// Rows that lines of these widths take on a terminal that wraps them.
    static func rowCount(widths: [Int], columns: Int) -> Int {
        widths.reduce(0) { $0 + rowCount(width: $1, columns: columns) }
    }

    private static func rowCount(width: Int, columns: Int) -> Int { max(1, (width + columns - 1) / max(1, columns)) }

    private var encodedLines: String { lines.map { Self.clearRow + $0 + "\n" }.joined() }

    private static let clearRow = "\u{1b}[2K"
    private static let saveCursor = "\u{1b}7"
    private static let restoreCursor = "\u{1b}8"

    private static func up(_ count: Int) -> String { count > 0 ? "\u{1b}[\(count)A" : "" }

    private static func upAndClear(_ count: Int) -> String { String(repeating: up(1) + clearRow, count: count) }
}
