internal import NearshareTerminal

/// QR codes between the lines of a command's output.
enum QRCodeOutput {
    /// Writes the QR code of a text, or says why it is not shown: a part of it, or one in other characters, cannot be scanned.
    /// - Returns: whether it is shown.
    @discardableResult
    static func write(_ text: String, to descriptor: Int32) -> Bool {
        guard TerminalProperties.usesUTF8 else {
            Console.warn("the QR code is not shown: it needs a terminal with UTF-8")
            return false
        }
        do throws(QRCodeError) {
            let code = try QRCode(text)
            let lines = code.text(hasColor: TerminalProperties.hasColor(descriptor))
            let size = TerminalProperties.size(of: descriptor)
            if TerminalProperties.isTerminal(descriptor), code.columns > size.columns || lines.count + 2 > size.rows {
                Console.warn(
                    "the terminal has no room for the QR code, which takes \(code.columns) columns and \(lines.count + 2) rows: "
                        + "enlarge it, or choose a smaller font, and start again")
                return false
            }
            Console.drawing(lines, on: descriptor)
            return true
        } catch {
            Console.warn(error.description)
            return false
        }
    }
}
