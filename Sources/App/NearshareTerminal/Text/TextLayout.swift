internal import NearshareBase

/// Untrusted text as rows of a terminal: escaped, wrapped at a width and bounded in number.
package enum TextLayout {
    /// Limit on the rows of one text: a text that is nothing but line breaks must not fill the screen.
    package static let maximumRows = 400

    /// The lines of a text of another nearshare process of this user, each as ``TerminalText/sanitized(_:columns:)`` returns it.
    package static func sanitized(_ text: String) -> String {
        text.lines.map { TerminalText.sanitized(String($0)) }.joined(separator: "\n")
    }

    /// Escapes and wraps a text of several lines.
    /// - Parameters:
    ///   - isEscaped: the parts that come from peers are escaped already, such as in a sentence for the user: backslashes are
    ///     not escaped a second time.
    ///   - firstColumns: width of the first row, which a heading may shorten.
    ///   - columns: width of the other rows.
    /// - Returns: at least one row.
    package static func rows(
        of text: String, isEscaped: Bool = false, firstColumns: Int, columns: Int
    ) -> [String] {
        var rows: [String] = []
        var omittedCount = 0
        for line in text.lines {
            guard rows.count < maximumRows else {
                omittedCount += 1
                continue
            }
            let safe = isEscaped ? TerminalText.sanitized(String(line), columns: .max) : escaped(line)
            rows += wrap(safe, firstColumns: rows.isEmpty ? firstColumns : columns, columns: columns)
        }
        if rows.count > maximumRows {
            omittedCount += rows.count - maximumRows
            rows.removeLast(rows.count - maximumRows)
        }
        if omittedCount > 0 {
            rows += wrap("… \(omittedCount) more rows are not shown", firstColumns: columns, columns: columns)
        }
        return rows
    }

    /// The text for a terminal without UTF-8: what this program draws has a likeness in ASCII, anything else becomes question
    /// marks. No width changes.
    package static func replacingNonASCII(_ text: String) -> String {
        var ascii = ""
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                ascii.unicodeScalars.append(scalar)
            } else if let likeness = likenesses[scalar] {
                ascii.append(likeness)
            } else {
                ascii += String(repeating: "?", count: TerminalText.width(of: scalar))
            }
        }
        return ascii
    }

    /// The text for a file or a pipe without UTF-8: only what this program draws is replaced. Signs of text get the usual ASCII
    /// form, which may be wider.
    package static func replacingDrawnSigns(_ text: String) -> String {
        var ascii = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "…": ascii += "..."
            case "→": ascii += "->"
            case "—", "–", "×", "·": ascii.unicodeScalars.append(scalar)
            default:
                if let likeness = likenesses[scalar] { ascii.append(likeness) } else { ascii.unicodeScalars.append(scalar) }
            }
        }
        return ascii
    }

    /// Characters of one cell.
    private static let likenesses: [Unicode.Scalar: Character] = [
        "→": ">", "←": "<", "↑": "^", "↓": "v", "▸": ">", "▶": ">", "‖": "=", "…": ".", "·": "-", "●": "*", "✓": "v",
        "—": "-", "–": "-", "×": "x", "━": "=", "─": "-", "│": "|",
        "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "#", "▎": "#", "▏": "|", "░": ".",
        "▁": "_", "▂": "_", "▃": "-", "▄": "-", "▅": "=", "▆": "=", "▇": "#",
    ]

    /// One line of a message, escaped for a terminal.
    ///
    /// Differs from ``TerminalText/escaped(_:columns:)`` for names: a tab becomes spaces, a zero-width joiner (ZWJ) of
    /// emoji and the tags of a flag are left out (each emoji is drawn by itself, at a width on which all terminals agree), and a
    /// backslash is doubled only where it could be mistaken for the start of an escape, because messages often contain code.
    /// - Parameter keepsJoiners: keeps joiners and tags, for text that is not laid out in columns.
    package static func escaped(_ line: some StringProtocol, keepsJoiners: Bool = false) -> String {
        var text = ""
        var part = String.UnicodeScalarView()
        func join(_ scalars: some Sequence<Unicode.Scalar>) {
            text += escapedPart(String(part))
            part = String.UnicodeScalarView()
            if keepsJoiners { text.unicodeScalars.append(contentsOf: scalars) }
        }
        let all = Array(line.unicodeScalars)
        var index = 0
        while index < all.count {
            let scalar = all[index]
            let tags = tagCount(at: index, of: all)
            if tags > 0 {
                join(all[index..<index + tags])
                index += tags
                continue
            }
            if scalar == "\t" {
                part.append(contentsOf: "    ".unicodeScalars)
            } else if scalar == joiner, index > 0, index + 1 < all.count, isEmoji(all[index - 1]), isEmoji(all[index + 1]) {
                join([scalar])
            } else {
                part.append(scalar)
            }
            index += 1
        }
        join([])
        return text
    }

    /// The length of the tag sequence (UTS #51) that makes the black flag before it that of England, Scotland or Wales; else 0, as
    /// other tags could hide text.
    private static func tagCount(at index: Int, of all: [Unicode.Scalar]) -> Int {
        guard index > 0, all[index - 1] == "\u{1f3f4}" else { return 0 }
        return flagTags.first { all[index...].starts(with: $0) }?.count ?? 0
    }

    private static let flagTags: [[Unicode.Scalar]] = ["gbeng", "gbsct", "gbwls"].map { region in
        region.unicodeScalars.compactMap { Unicode.Scalar(0xe0000 + $0.value) } + ["\u{e007f}"]
    }

    private static func escapedPart(_ part: String) -> String {
        var text = ""
        for (index, piece) in part.split(separator: "\\", omittingEmptySubsequences: false).enumerated() {
            if index > 0 { text += piece.hasPrefix("u{") ? "\\\\" : "\\" }
            text += TerminalText.escaped(String(piece), columns: .max)
        }
        return text
    }

    private static let joiner: Unicode.Scalar = "\u{200d}"

    private static func isEmoji(_ scalar: Unicode.Scalar) -> Bool {
        !scalar.isASCII && (scalar.properties.isEmoji || scalar == "\u{fe0f}")
    }

    /// Wraps an escaped line at spaces, and inside a word only where the word is longer than a row. The first row is empty where
    /// the first word fits only into the second one.
    package static func wrap(_ line: String, firstColumns: Int, columns: Int) -> [String] {
        let firstWidth = TerminalText.width(of: String(line.prefix { $0 != " " }))
        var rows: [String] = firstWidth > firstColumns && firstWidth <= columns ? [""] : []
        var row: [Unicode.Scalar] = []
        var width = 0
        // The index after the last space of the row, where it can be broken.
        var wordStart: Int?
        for scalar in line.unicodeScalars {
            let scalarWidth = TerminalText.width(of: scalar)
            while scalarWidth > 0, width + scalarWidth > (rows.isEmpty ? firstColumns : columns), !row.isEmpty {
                let end = scalar == " " ? row.count : wordStart ?? row.count
                rows.append(withoutTrailingSpaces(row[..<end]))
                row = Array(row[end...])
                width = row.reduce(0) { $0 + TerminalText.width(of: $1) }
                wordStart = nil
            }
            // The space at which a row was broken is not shown.
            if scalar == " ", row.isEmpty, !rows.isEmpty { continue }
            row.append(scalar)
            width += scalarWidth
            if scalar == " " { wordStart = row.count }
        }
        if !row.isEmpty || rows.isEmpty { rows.append(withoutTrailingSpaces(row)) }
        return rows
    }

    /// Breaks an escaped line at spaces, and words that are longer than a row anywhere: the terminal would go on at its edge, where
    /// the words of a peer could pass for a line of this program (T4). Further rows are indented by two columns more than the first.
    /// - Parameter keepsAddresses: keeps a path or a web address on one row, to be copied. Pass false for text with addresses that
    ///   a peer may have chosen.
    package static func wrapWords(_ line: String, columns: Int, keepsAddresses: Bool = true) -> [String] {
        guard TerminalText.width(of: line) > columns else { return [line] }
        let indentation = String(line.prefix { $0 == " " })
        var rows: [String] = []
        var row = indentation
        var hasWord = false
        for word in line.dropFirst(indentation.count).split(separator: " ", omittingEmptySubsequences: false) {
            let longer = hasWord ? "\(row) \(word)" : row + word
            if hasWord, !word.isEmpty, TerminalText.width(of: longer) > columns {
                // Spaces beyond the edge would leave an empty row on the terminal.
                rows.append(withoutTrailingSpaces(row.unicodeScalars))
                row = "\(indentation)  \(word)"
            } else {
                row = longer
            }
            hasWord = true
            if !word.isEmpty, TerminalText.width(of: row) > columns, !(keepsAddresses && isAddress(word)) {
                let pieces = broken(row, columns: columns, indentation: "\(indentation)  ")
                rows += pieces.dropLast()
                row = pieces.last ?? ""
            }
        }
        // Behind a question that fits, the answer follows the space at its end.
        return rows + [TerminalText.width(of: row) > columns ? withoutTrailingSpaces(row.unicodeScalars) : row]
    }

    private static func isAddress(_ word: some StringProtocol) -> Bool {
        word.hasPrefix("/") || ["http://", "https://", "bitchat://"].contains { word.hasPrefix($0) }
    }

    /// The pieces of a row that is too long, each but the first behind `indentation`. A terminal of a few columns has at least one
    /// character in each.
    private static func broken(_ row: String, columns: Int, indentation: String) -> [String] {
        var pieces: [String] = []
        var (piece, width, isEmpty) = ("", 0, true)
        for character in row {
            let characterWidth = TerminalText.width(of: String(character))
            if !isEmpty, width + characterWidth > columns {
                pieces.append(piece)
                (piece, width) = (indentation, indentation.utf8.count)
            }
            piece.append(character)
            width += characterWidth
            isEmpty = false
        }
        return pieces + [piece]
    }

    /// The lines of an escaped text, broken as by ``wrapWords(_:columns:keepsAddresses:)``.
    package static func wrappedText(_ text: String, columns: Int, keepsAddresses: Bool = true) -> String {
        text.lines.flatMap { wrapWords(String($0), columns: columns, keepsAddresses: keepsAddresses) }
            .joined(separator: "\n")
    }

    /// The longest start of an escaped text that fits, with "…" for the rest.
    package static func truncated(_ text: String, to columns: Int) -> String {
        guard TerminalText.width(of: text) > columns else { return text }
        var kept = ""
        for character in text {
            guard TerminalText.width(of: kept) + TerminalText.width(of: String(character)) < columns else { break }
            kept.append(character)
        }
        return columns > 0 ? kept + "…" : ""
    }

    /// The start and the end of an escaped text that fit, with "…" between them: the end of a file's name tells its type.
    package static func middleCut(_ text: String, to columns: Int) -> String {
        guard TerminalText.width(of: text) > columns else { return text }
        let tailColumns = max(0, columns - 1) * 2 / 3
        var (tail, tailWidth) = ([Character](), 0)
        for character in text.reversed() {
            let width = TerminalText.width(of: String(character))
            guard tailWidth + width <= tailColumns else { break }
            tail.append(character)
            tailWidth += width
        }
        return truncated(String(text.dropLast(tail.count)), to: columns - tailWidth) + String(tail.reversed())
    }

    package static func withoutTrailingSpaces(_ scalars: some BidirectionalCollection<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        if let last = scalars.lastIndex(where: { $0 != " " }) { view.append(contentsOf: scalars[...last]) }
        return String(view)
    }
}
