/// Bars and curves drawn with block characters, at a resolution of an eighth of a cell.
package enum BlockGraphics {
    /// A bar chart, row by row from the top.
    /// - Parameter heights: one for each column, 0 to 1.
    package static func chart(_ heights: [Double], rows: Int) -> [String] {
        (0..<rows).reversed().map { row in
            heights.reduce(into: "") { line, height in
                // Silence is a line, so that the start and the end of a recording stay visible.
                let eighths = max(1, Int((min(1, max(0, height)) * Double(rows * 8)).rounded()))
                line += lowerBlocks[min(8, max(0, eighths - row * 8))]
            }
        }
    }

    /// A progress bar.
    /// - Parameter share: 0 to 1.
    package static func progressBar(_ share: Double, width: Int) -> String {
        let eighths = Int(min(1, max(0, share)) * Double(width * 8))
        let partial = eighths % 8 == 0 ? "" : leftBlocks[eighths % 8 - 1]
        let filled = String(repeating: "█", count: eighths / 8) + partial
        return filled + String(repeating: "░", count: max(0, width - filled.count))
    }

    /// A level meter: green, yellow from 70 %, red from 90 %.
    /// - Parameter level: 0 to 1.
    package static func levelMeter(_ level: Double, width: Int, style: ANSIStyle) -> String {
        let eighths = Int((min(1, max(0, level)) * Double(width * 8)).rounded())
        let cells = (0..<width).map { column -> String in
            let part = min(8, max(0, eighths - column * 8))
            return part == 0 ? "░" : leftBlocks[part - 1]
        }
        let yellow = width * 7 / 10
        let red = width * 9 / 10
        let filled = (eighths + 7) / 8
        return style.green(cells[..<min(filled, yellow)].joined())
            + (filled > yellow ? style.yellow(cells[yellow..<min(filled, red)].joined()) : "")
            + (filled > red ? style.red(cells[red..<filled].joined()) : "") + style.dim(cells[filled...].joined())
    }

    /// A slider that shows a position.
    /// - Parameter share: 0 to 1.
    package static func slider(_ share: Double, width: Int, style: ANSIStyle) -> String {
        let position = min(width - 1, max(0, Int(share * Double(width))))
        return style.green(String(repeating: "━", count: position) + "●")
            + style.dim(String(repeating: "─", count: width - 1 - position))
    }

    private static let lowerBlocks = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    private static let leftBlocks = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"]
}
