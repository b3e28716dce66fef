internal import NearshareBase

/// Columns of escaped text, aligned by display width.
package enum Table {
    /// Rows whose last cells stand on lines of their own where a row would be wider than the terminal, and are broken at spaces. Those
    /// that are a path are not, to be copied.
    /// - Parameter maximumWidth: in terminal cells; nil for no limit. A line may be wider whose first cell alone is, or a path.
    package static func wrappedLines(_ rows: [[String]], maximumWidth: Int?) -> [String] {
        func fits(_ lines: [String]) -> Bool {
            maximumWidth.map { maximum in lines.allSatisfy { TerminalText.width(of: $0) <= maximum } } ?? true
        }
        var count = rows.map(\.count).max() ?? 0
        var heads = lines(rows)
        while !fits(heads), count > 1 {
            count -= 1
            heads = lines(rows.map { Array($0.prefix(count)) }).map { TextLayout.withoutTrailingSpaces($0.unicodeScalars) }
        }
        return zip(rows, heads).flatMap { row, head in
            [head]
                + row.dropFirst(count).filter { !$0.isEmpty }.flatMap { cell -> [String] in
                    guard let maximumWidth, !cell.hasPrefix("/") else { return ["    \(cell)"] }
                    return TextLayout.wrapWords("    \(cell)", columns: maximumWidth)
                }
        }
    }

    /// Rows that have one line each, whose cells are truncated to fit, and then the lines.
    /// - Parameters:
    ///   - maximumWidth: in terminal cells.
    ///   - columnsToTruncate: the columns whose cells are truncated, the first one first, until all lines fit. The last column of
    ///     the table is not among them: the end of the line is truncated for it.
    static func truncatedLines(_ rows: [[String]], maximumWidth: Int, columnsToTruncate: [Int]) -> [String] {
        var rows = rows
        for column in columnsToTruncate {
            let width = lines(rows).map { TerminalText.width(of: $0) }.max() ?? 0
            guard width > maximumWidth else { break }
            let cellWidth = rows.map { column < $0.count ? TerminalText.width(of: $0[column]) : 0 }.max() ?? 0
            let availableWidth = max(cellWidth - (width - maximumWidth), minimumCellWidth)
            for index in rows.indices where column < rows[index].count {
                rows[index][column] = TextLayout.truncated(rows[index][column], to: availableWidth)
            }
        }
        return lines(rows).map { TextLayout.truncated($0, to: maximumWidth) }
    }

    /// Width that a cell keeps when it is truncated.
    private static let minimumCellWidth = 8

    /// Rows that have one line each, of any width.
    package static func lines(_ rows: [[String]]) -> [String] {
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in
            rows.map { column < $0.count ? TerminalText.width(of: $0[column]) : 0 }.max() ?? 0
        }
        return rows.map { row in
            var line = ""
            for (column, cell) in row.enumerated() {
                line += cell
                // The last column is not padded: it may be long.
                if column < row.count - 1 {
                    line += String(repeating: " ", count: widths[column] - TerminalText.width(of: cell) + 2)
                }
            }
            return line
        }
    }
}
