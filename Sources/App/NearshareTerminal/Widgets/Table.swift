internal import NearshareBase

/// Columns of escaped text, aligned by display width.
package enum Table {
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
