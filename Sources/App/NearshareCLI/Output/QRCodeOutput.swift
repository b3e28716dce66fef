internal import NearshareTerminal

/// QR codes between the lines of a command's output.
enum QRCodeOutput {
    /// Writes the QR code of a text, or says why it is not shown: a part of it, or one in other characters, cannot be scanned.
    static func write(_ text: String, to descriptor: Int32) {
        guard TerminalProperties.usesUTF8 else {
            return Console.warn("the QR code is not shown: it needs a terminal with UTF-8")
        }
        do throws(QRCodeError) {
            let code = try QRCode(text)
            let lines = code.text(hasColor: TerminalProperties.hasColor(descriptor))
            let size = TerminalProperties.size(of: descriptor)
            if TerminalProperties.isTerminal(descriptor), code.columns > size.columns || lines.count + 2 > size.rows {
                Console.warn(
                    "the terminal has no room for the QR code, which takes \(code.columns) columns and \(lines.count + 2) rows: "
                        + "enlarge it, or choose a smaller font, and start again")
            } else {
                Console.drawing(lines, on: descriptor)
            }
        } catch {
            Console.warn(error.description)
        }
    }
}
