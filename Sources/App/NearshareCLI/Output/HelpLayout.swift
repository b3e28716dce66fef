internal import NearshareTerminal

/// The parser's help on a terminal. The parser leaves its descriptions the columns behind the 26 of the options, breaks neither the
/// usage nor long words, and has no text at all where fewer columns are left than one.
enum HelpLayout {
    /// Width from which on the parser's two columns are kept.
    private static let twoColumnWidth = 60
    /// Width at which the parser breaks no line.
    private static let unbrokenWidth = 10_000
    /// Width of the parser's first column.
    private static let labelWidth = 26

    /// The width for which the parser writes a text that is shown on so many columns.
    /// - Parameter columns: nil for what is not a terminal.
    static func parserColumns(for columns: Int?) -> Int {
        guard let columns else { return TerminalSize.standard.columns }
        return columns < twoColumnWidth ? unbrokenWidth : columns
    }

    /// A text of the parser, written for ``parserColumns(for:)``, on so many columns. Other texts than help stay as they are.
    static func text(_ text: String, columns: Int?) -> String {
        // A command without operands that it needs shows its help behind the error.
        guard let columns, text.hasPrefix("OVERVIEW: ") || text.contains("\nOVERVIEW: ") else { return text }
        return text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { line in
            rows(of: String(line), columns: columns).flatMap {
                TextLayout.wrapWords($0, columns: columns, keepsAddresses: false)
            }
        }.joined(separator: "\n")
    }

    /// The label and the description of an option or a command in lines of their own, where the terminal is narrow.
    private static func rows(of line: String, columns: Int) -> [String] {
        guard columns < twoColumnWidth, line.hasPrefix("  "), !line.hasPrefix("  See ") else { return [line] }
        let label = TextLayout.withoutTrailingSpaces(String(line.prefix(labelWidth)).unicodeScalars)
        let description = line.dropFirst(labelWidth)
        if label.isEmpty { return ["    \(description)"] }
        // Longer labels have their descriptions in the next line.
        guard line.dropFirst(labelWidth - 1).first == " ", description.first != " " else { return [line] }
        return [label, "    \(description)"]
    }
}
