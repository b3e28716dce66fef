internal import NearshareBase

/// One row of a screen: spans of styled text, with a known width in columns.
package struct StyledLine: Sendable, Hashable {
    package struct Span: Sendable, Hashable {
        package var text: String
        package var style: TextStyle
        /// The column at which the span starts; nil directly after the previous span. An explicit column holds even where a
        /// terminal draws the preceding text with another width.
        package var column: Int?
    }

    package private(set) var spans: [Span] = []
    /// Width in columns.
    package private(set) var width = 0
    /// The column of the next span, where nothing was drawn up to there.
    private var nextColumn: Int?

    package init() {}

    /// - Parameter text: escaped for a terminal.
    package init(_ text: String, _ style: TextStyle = .plain) {
        append(text, style)
    }

    /// - Parameter text: escaped for a terminal (T1–T4).
    package mutating func append(_ text: String, _ style: TextStyle = .plain) {
        guard !text.isEmpty else { return }
        spans.append(Span(text: text, style: style, column: nextColumn))
        nextColumn = nil
        width += TerminalText.width(of: text)
    }

    package mutating func append(_ line: StyledLine) {
        let start = width
        for var span in line.spans {
            // The columns of the other line count from its own start.
            span.column = span.column.map { $0 + start } ?? nextColumn
            nextColumn = nil
            spans.append(span)
        }
        if let column = line.nextColumn { nextColumn = column + start }
        width += line.width
    }

    /// Places another line to the right of this one.
    /// - Parameter column: at least ``width``.
    package mutating func append(_ line: StyledLine, at column: Int) {
        width = column
        nextColumn = column
        append(line)
    }

    /// The line without what lies beyond a width.
    package func truncated(to columns: Int) -> StyledLine {
        guard width > columns else { return self }
        var line = StyledLine()
        for span in spans {
            let start = max(line.width, span.column ?? 0)
            guard start < columns else { break }
            line.width = start
            var kept = String.UnicodeScalarView()
            var used = line.width
            for scalar in span.text.unicodeScalars {
                used += TerminalText.width(of: scalar)
                guard used <= columns else { break }
                kept.append(scalar)
            }
            line.spans.append(Span(text: String(kept), style: span.style, column: span.column))
            line.width += TerminalText.width(of: String(kept))
            if used > columns { break }
        }
        return line
    }

    /// The text without styles, with spaces for explicit columns.
    package var plainText: String {
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

    /// The control sequences and the text that draw the line from the start of an empty row.
    package func encoded(hasColor: Bool, hasUTF8: Bool) -> String {
        var output = ""
        for span in spans {
            if let column = span.column { output += "\u{1b}[\(column + 1)G" }
            // For a terminal with another encoding, bytes of UTF-8 may be control characters (T2).
            let text = hasUTF8 ? span.text : TextLayout.replacingNonASCII(span.text)
            let style = span.style.sequence(hasColor: hasColor)
            output += style.isEmpty ? text : "\(style)\(text)\u{1b}[0m"
        }
        return output
    }
}
