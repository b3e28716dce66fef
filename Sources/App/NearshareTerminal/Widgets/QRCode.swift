internal import CNearshareShims

/// A text as a QR code (ISO/IEC 18004), drawn with half blocks: one character for two modules above each other.
package struct QRCode: Sendable, Hashable {
    /// Modules in a row, and rows.
    package let moduleCount: Int
    /// The modules row by row from the top; true for dark ones.
    private let modules: [Bool]

    /// Width of the light border by which readers find the code, in modules.
    package static let quietZone = 4
    /// Modules in a row of version 40, the largest.
    private static let maximumModuleCount = 177

    /// - Throws: ``QRCodeError``.
    package init(_ text: String) throws(QRCodeError) {
        if let reason = nearshare_load_qrencode() { throw .unavailable(String(cString: reason)) }
        // The library reads up to a zero byte.
        guard !text.utf8.contains(0) else { throw .unsuitableText }
        var bytes = [UInt8](repeating: 0, count: Self.maximumModuleCount * Self.maximumModuleCount)
        let count = Int(nearshare_qr_encode(text, &bytes, Int32(bytes.count)))
        guard count > 0 else { throw .unsuitableText }
        moduleCount = count
        modules = bytes.prefix(count * count).map { $0 == 1 }
    }

    /// Columns of the drawing, with the quiet zone.
    package var columns: Int { moduleCount + 2 * Self.quietZone }

    /// Rows of the drawing, with the quiet zone.
    package var rowCount: Int { (columns + 1) / 2 }

    /// The rows of the drawing, with the quiet zone.
    /// - Parameter isInverted: whether light modules are drawn in the foreground colour, for light text on a dark background.
    ///   Otherwise dark modules are, for ``TextStyle/blackOnWhite``.
    package func lines(isInverted: Bool) -> [String] {
        let range = -Self.quietZone..<moduleCount + Self.quietZone
        return stride(from: range.lowerBound, to: range.upperBound, by: 2).map { row in
            range.map { column in
                switch (isDark(row, column) != isInverted, isDark(row + 1, column) != isInverted) {
                case (true, true): "█"
                case (true, false): "▀"
                case (false, true): "▄"
                case (false, false): " "
                }
            }.joined()
        }
    }

    /// The rows of the drawing for the output of a command.
    package func text(hasColor: Bool) -> [String] {
        lines(isInverted: !hasColor).map { line in
            hasColor ? TextStyle.blackOnWhite.sequence(hasColor: true) + line + "\u{1b}[0m" : line
        }
    }

    /// Several codes side by side. Each keeps its quiet zone, and a gap keeps cameras from taking two for one.
    package static func row(of codes: [QRCode], hasColor: Bool) -> (lines: [String], columnCount: Int) {
        let drawings = codes.map { (lines: $0.text(hasColor: hasColor), columns: $0.columns) }
        let lines = (0..<(codes.map(\.rowCount).max() ?? 0)).map { row in
            drawings.map { row < $0.lines.count ? $0.lines[row] : String(repeating: " ", count: $0.columns) }
                .joined(separator: String(repeating: " ", count: gap))
        }
        return (lines, codes.reduce(gap * max(0, codes.count - 1)) { $0 + $1.columns })
    }

    /// Columns between two codes side by side.
    private static let gap = 4

    private func isDark(_ row: Int, _ column: Int) -> Bool {
        (0..<moduleCount).contains(row) && (0..<moduleCount).contains(column) && modules[row * moduleCount + column]
    }
}

/// The reason why a QR code is not shown.
package enum QRCodeError: Error, Sendable, Hashable, CustomStringConvertible {
    /// libqrencode could not be loaded, for this reason.
    case unavailable(String)
    /// The text is empty, contains a zero byte, or is too long.
    case unsuitableText
    /// The terminal does not show UTF-8: drawn in other characters, the code could not be scanned.
    case needsUTF8
    /// The terminal is smaller than this, so that the code would be cut off. The advice is what the user does afterwards.
    case needsRoom(columns: Int, rows: Int, advice: String)

    package var description: String {
        switch self {
        case .unavailable(let reason):
            "the QR code is not shown: libqrencode is not available (\(reason)); its package is libqrencode4 (Debian, Ubuntu)"
        case .unsuitableText: "the text does not fit into a QR code"
        case .needsUTF8: "the QR code is not shown: it needs a terminal with UTF-8"
        case .needsRoom(let columns, let rows, let advice):
            "the terminal has no room for the QR code, which takes \(columns) columns and \(rows) rows: \(advice)"
        }
    }
}
