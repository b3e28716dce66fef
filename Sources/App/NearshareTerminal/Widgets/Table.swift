internal import NearshareBase

/// Columns of escaped text, aligned by display width.
package enum Table {
    /// - Parameter columns: the width of the terminal: where a row is longer, the last cells of all rows stand on lines of their
    ///   own; nil for no limit.
    package static func lines(_ rows: [[String]], columns: Int?) -> [String] {
        func fits(_ lines: [String]) -> Bool {
            columns.map { columns in lines.allSatisfy { TerminalText.width(of: $0) <= columns } } ?? true
        }
        var count = rows.map(\.count).max() ?? 0
        var heads = lines(rows)
        while !fits(heads), count > 1 {
            count -= 1
            heads = lines(rows.map { Array($0.prefix(count)) }).map(trimmed)
        }
        return zip(rows, heads).flatMap { row, head in
            [head] + row.dropFirst(count).filter { !$0.isEmpty }.map { "    \($0)" }
        }
    }

    /// Rows of at most a width, one line for each: where one is longer, the cells of some columns are cut, and at last the lines.
    /// - Parameter order: the columns whose cells are cut, the first one first. Not the last column of the table, whose cells
    ///   are not padded.
    static func lines(_ rows: [[String]], columns: Int, cutting order: [Int]) -> [String] {
        var rows = rows
        for column in order {
            let width = lines(rows).map { TerminalText.width(of: $0) }.max() ?? 0
            guard width > columns else { break }
            let cellWidth = rows.map { column < $0.count ? TerminalText.width(of: $0[column]) : 0 }.max() ?? 0
            let availableColumns = max(cellWidth - (width - columns), minimumCellColumns)
            for index in rows.indices where column < rows[index].count {
                rows[index][column] = TextLayout.truncated(rows[index][column], to: availableColumns)
            }
        }
        return lines(rows).map { TextLayout.truncated($0, to: columns) }
    }

    /// Columns that a cell keeps when it is cut.
    private static let minimumCellColumns = 8

    private static func trimmed(_ line: String) -> String {
        String(line.reversed().drop { $0 == " " }.reversed())
    }

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
