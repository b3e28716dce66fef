internal import Nearshare

/// A stranger's text as rows of a terminal: each one escaped, none wider than there is room.
enum ChatText {
    /// A text that is nothing but line breaks must not fill the screen for minutes.
    static let maximumRows = 400

    /// - Parameters:
    ///   - first: columns of the first row, after what stands before it.
    ///   - rest: columns of the others.
    /// - Returns: at least one row.
    static func rows(of text: String, first: Int, rest: Int) -> [String] {
        var rows: [String] = []
        var left = 0
        // "\r\n" is one character.
        for line in text.split(omittingEmptySubsequences: false, whereSeparator: { $0 == "\n" || $0 == "\r\n" }) {
            guard rows.count < maximumRows else {
                left += 1
                continue
            }
            rows += wrap(shown(line), first: rows.isEmpty ? first : rest, rest: rest)
        }
        if rows.count > maximumRows {
            left += rows.count - maximumRows
            rows.removeLast(rows.count - maximumRows)
        }
        if left > 0 { rows += wrap("… \(left) more rows are not shown", first: rest, rest: rest) }
        return rows
    }

    /// One line of a text, escaped.
    ///
    /// Differs from what is done to names: a tab is spaces, a joiner between two emoji is left out (each is drawn by itself, in a
    /// width that all terminals agree on), and a back slash is doubled only where it would look like the beginning of an escape:
    /// people send each other code.
    static func shown(_ line: some StringProtocol) -> String {
        var scalars = String.UnicodeScalarView()
        let all = Array(line.unicodeScalars)
        for (index, scalar) in all.enumerated() {
            if scalar == "\t" {
                scalars.append(contentsOf: "    ".unicodeScalars)
            } else if scalar == joiner, index > 0, index + 1 < all.count, isEmoji(all[index - 1]), isEmoji(all[index + 1]) {
                continue
            } else {
                scalars.append(scalar)
            }
        }
        let pieces = String(scalars).split(separator: "\\", omittingEmptySubsequences: false)
        var shown = ""
        for (index, piece) in pieces.enumerated() {
            if index > 0 { shown += piece.hasPrefix("u{") ? "\\\\" : "\\" }
            shown += TerminalText.escaped(String(piece), columns: .max)
        }
        return shown
    }

    private static let joiner: Unicode.Scalar = "\u{200d}"

    private static func isEmoji(_ scalar: Unicode.Scalar) -> Bool {
        !scalar.isASCII && (scalar.properties.isEmoji || scalar == "\u{fe0f}")
    }

    /// Breaks at spaces, and inside a word only where it is longer than a row.
    static func wrap(_ line: String, first: Int, rest: Int) -> [String] {
        var rows: [String] = []
        var row: [Unicode.Scalar] = []
        var width = 0
        // Where the row can be broken: after its last space.
        var wordStart: Int?
        for scalar in line.unicodeScalars {
            let columns = TerminalText.width(of: scalar)
            while columns > 0, width + columns > (rows.isEmpty ? first : rest), !row.isEmpty {
                let cut = scalar == " " ? row.count : wordStart ?? row.count
                rows.append(text(row[..<cut]))
                row = Array(row[cut...])
                width = row.reduce(0) { $0 + TerminalText.width(of: $1) }
                wordStart = nil
            }
            // A space at which a row was broken isn't shown.
            if scalar == " ", row.isEmpty, !rows.isEmpty { continue }
            row.append(scalar)
            width += columns
            if scalar == " " { wordStart = row.count }
        }
        if !row.isEmpty || rows.isEmpty { rows.append(text(row[...])) }
        return rows
    }

    private static func text(_ row: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        let kept = row.lastIndex { $0 != " " }.map { row[...$0] } ?? []
        view.append(contentsOf: kept)
        return String(view)
    }
}
