internal import Nearshare

/// How a piece of text looks.
struct Style: Sendable, Hashable {
    /// The numbers are those of "select graphic rendition" (ECMA-48).
    enum Color: Int, Sendable, Hashable {
        case red = 31
        case green = 32
        case yellow = 33
        case blue = 34
        case magenta = 35
        case cyan = 36
    }

    var color: Color?
    var isBold = false
    var isDim = false
    var isReversed = false

    static let plain = Style()
    static let dim = Style(isDim: true)
    static let bold = Style(isBold: true)
    static let warning = Style(color: .yellow)
    static let failure = Style(color: .red)
}

/// One row of a screen.
struct StyledLine: Sendable, Hashable {
    struct Span: Sendable, Hashable {
        var text: String
        var style: Style
        /// Drawn from this column on, whatever width a terminal gives to what stands before it.
        var column: Int?
    }

    private(set) var spans: [Span] = []
    /// Columns.
    private(set) var width = 0

    init() {}

    /// - Parameter text: fit for a terminal.
    init(_ text: String, _ style: Style = .plain) {
        append(text, style)
    }

    mutating func append(_ text: String, _ style: Style = .plain) {
        guard !text.isEmpty else { return }
        spans.append(Span(text: text, style: style))
        width += TerminalText.width(of: text)
    }

    /// Puts another line beside this one.
    /// - Parameter column: not less than ``width``.
    mutating func append(_ line: StyledLine, at column: Int) {
        for (index, var span) in line.spans.enumerated() {
            if index == 0 { span.column = column }
            spans.append(span)
        }
        width = column + line.width
    }

    /// No wider than so many columns.
    func cut(to columns: Int) -> StyledLine {
        guard width > columns else { return self }
        var line = StyledLine()
        for span in spans {
            if let column = span.column, column > line.width { line.width = column }
            guard line.width < columns else { break }
            var kept = String.UnicodeScalarView()
            var taken = line.width
            for scalar in span.text.unicodeScalars {
                taken += TerminalText.width(of: scalar)
                guard taken <= columns else { break }
                kept.append(scalar)
            }
            line.spans.append(Span(text: String(kept), style: span.style, column: span.column))
            line.width += TerminalText.width(of: String(kept))
            if taken > columns { break }
        }
        return line
    }

    /// Without styles.
    var plainText: String {
        var text = ""
        var width = 0
        for span in spans {
            if let column = span.column, column > width {
                text += String(repeating: " ", count: column - width)
                width = column
            }
            text += span.text
            width += TerminalText.width(of: span.text)
        }
        return text
    }

    /// For a terminal that is at the beginning of an empty row.
    func encoded(hasColor: Bool, hasUTF8: Bool) -> String {
        var code = ""
        for span in spans {
            if let column = span.column { code += "\u{1b}[\(column + 1)G" }
            var numbers: [Int] = []
            if span.style.isBold { numbers.append(1) }
            if span.style.isDim { numbers.append(2) }
            if span.style.isReversed { numbers.append(7) }
            if hasColor, let color = span.style.color { numbers.append(color.rawValue) }
            // To a terminal of another encoding, bytes of UTF-8 may be control characters (T2).
            let text = hasUTF8 ? span.text : Self.inASCII(span.text)
            code += numbers.isEmpty ? text : "\u{1b}[\(numbers.map { "\($0)" }.joined(separator: ";"))m\(text)\u{1b}[0m"
        }
        return code
    }

    private static func inASCII(_ text: String) -> String {
        var ascii = ""
        for scalar in text.unicodeScalars {
            ascii += scalar.isASCII ? String(scalar) : String(repeating: "?", count: TerminalText.width(of: scalar))
        }
        return ascii
    }
}
