internal import NearshareTerminal

/// Writes QR codes among the lines of a command's output.
enum QRCodeOutput {
    /// A text that is shown as a code, with a line for the user.
    struct Item: Sendable {
        let text: String
        let caption: String

        init(_ text: String, caption: String) {
            (self.text, self.caption) = (text, caption)
        }
    }

    /// Rows below a code that the user has to see with it.
    private static let captionRowCount = 2

    /// Writes the QR code of a text, or the reason why the code is not shown.
    /// - Returns: whether it is shown.
    @discardableResult
    static func write(_ text: String, to descriptor: Int32) -> Bool {
        code(of: text).map { write($0, to: descriptor) } ?? false
    }

    /// Writes the codes of several texts, each with its caption, to be scanned one after the other. Where the terminal has too few
    /// rows for all, the codes stand side by side, so that none is scrolled away.
    static func write(_ items: [Item], to descriptor: Int32) {
        let codes = items.map { code(of: $0.text) }
        let made = codes.compactMap(\.self)
        let size = TerminalProperties.size(of: descriptor)
        let isTooHigh = made.reduce(0) { $0 + $1.rowCount + captionRowCount } > size.rows
        if TerminalProperties.isTerminal(descriptor), isTooHigh, made.count == items.count {
            let row = QRCode.row(of: made, hasColor: TerminalProperties.hasColor(descriptor))
            if row.columnCount <= size.columns, row.lines.count + captionRowCount * items.count <= size.rows {
                Console.drawing(row.lines, on: descriptor)
                for item in items { Console.notice(item.caption) }
                return
            }
        }
        for (item, code) in zip(items, codes) {
            if let code { _ = write(code, to: descriptor) }
            Console.notice(item.caption)
        }
    }

    private static func code(of text: String) -> QRCode? {
        do throws(QRCodeError) {
            guard TerminalProperties.usesUTF8 else { throw .needsUTF8 }
            return try QRCode(text)
        } catch {
            Console.warn(error.description)
            return nil
        }
    }

    /// - Returns: false when the terminal has no room for it.
    private static func write(_ code: QRCode, to descriptor: Int32) -> Bool {
        let size = TerminalProperties.size(of: descriptor)
        let rowCount = code.rowCount + captionRowCount
        if TerminalProperties.isTerminal(descriptor), code.columns > size.columns || rowCount > size.rows {
            let advice = "enlarge it, or choose a smaller font, and start again"
            Console.warn(QRCodeError.needsRoom(columns: code.columns, rows: rowCount, advice: advice).description)
            return false
        }
        Console.drawing(code.text(hasColor: TerminalProperties.hasColor(descriptor)), on: descriptor)
        return true
    }
}
