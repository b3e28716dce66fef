internal import Nearshare

/// A word of a command that the user may copy into a shell.
enum ShellWord {
    /// Quotes a text for a POSIX shell, and so that it is safe for a terminal: only as far as necessary, and with escapes in `$'…'`
    /// where the text has characters that are not shown.
    static func quoted(_ text: String) -> String {
        if PeerArgument.isPlainWord(text.replacing(scalar: "/", with: "")) { return text }
        // Within single quotes a backslash is literal.
        guard TerminalText.sanitized(text, columns: .max) != text else {
            return "'\(text.replacing(scalar: "'", with: "'\\''"))'"
        }
        var word = "$'"
        for scalar in text.unicodeScalars {
            if scalar == "'" || scalar == "\\" {
                word += "\\\(scalar)"
            } else if (0x20...0x7e).contains(scalar.value) {
                word.unicodeScalars.append(scalar)
            } else {
                // Octal digits: exactly three belong to an escape, whatever follows.
                for byte in String(scalar).utf8 {
                    word += "\\\(byte >> 6)\(byte >> 3 & 7)\(byte & 7)"
                }
            }
        }
        return word + "'"
    }
}
