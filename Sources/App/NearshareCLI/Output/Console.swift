internal import Glibc
internal import Nearshare
internal import NearshareTerminal
internal import Synchronization

/// The tool's output: results on standard output, everything else on standard error.
enum Console {
    /// Shows messages in full-screen mode, where output to the terminal would overwrite the screen; nil to write them to standard
    /// error.
    static let fullScreenMessageHandler = Mutex<MessageHandler?>(nil)

    /// A function in a struct: a `Mutex` of a function itself would wrap the function once more on each read.
    struct MessageHandler {
        let show: @Sendable (String) -> Void
    }

    /// Writes a line of the command's result.
    /// - Parameter isMessage: whether the user reads it, rather than a program.
    static func writeResult(_ line: String, isMessage: Bool = false) {
        if TerminalProperties.isPipe(STDOUT_FILENO) { StatusDisplay.shared.recordPipedOutput() }
        StatusDisplay.shared.withAreaCleared {
            DescriptorOutput.write(line + "\n", to: STDOUT_FILENO, isMessage: isMessage)
        }
    }

    /// Writes a text of the command's result that may contain words of peers, wrapped on a terminal.
    static func writeWrappedResult(_ text: String) {
        writeResult(
            columns(of: STDOUT_FILENO).map { TextLayout.wrappedText(text, columns: $0, keepsAddresses: false) } ?? text)
    }

    /// Writes a sentence of the command's result behind a label, wrapped at words on a terminal.
    static func writeResult(_ sentence: String, after label: String) {
        let availableColumns = columns(of: STDOUT_FILENO).map { max(20, $0 - TerminalText.width(of: label)) }
        let rows = sentence.lines.flatMap { line in
            availableColumns.map { TextLayout.wrapWords(String(line), columns: $0) } ?? [String(line)]
        }
        let indentation = String(repeating: " ", count: TerminalText.width(of: label))
        writeResult(label + rows.joined(separator: "\n" + indentation), isMessage: true)
    }

    /// Writes a table of the command's results, as far as possible within the width of the terminal.
    /// - Parameter notice: the message to the user about an empty table.
    static func writeTable(_ rows: [[String]], ifEmpty notice: String? = nil) {
        if rows.isEmpty, let notice { Console.notice(notice) }
        for line in Table.wrappedLines(rows, maximumWidth: columns(of: STDOUT_FILENO)) { writeResult(line) }
    }

    /// Writes a message for the user, wrapped at words on a terminal.
    static func notice(_ text: String) {
        if let handler = fullScreenMessageHandler.withLock({ $0 }) { return handler.show(text) }
        let wrapped = columns(of: STDERR_FILENO).map { TextLayout.wrappedText(text, columns: $0) } ?? text
        StatusDisplay.shared.withAreaCleared {
            DescriptorOutput.write(wrapped + "\n", to: STDERR_FILENO, isMessage: true)
        }
    }

    /// Writes the lines of a drawing, such as a QR code, for the user. They are not wrapped.
    static func drawing(_ lines: [String], on descriptor: Int32) {
        let text = lines.joined(separator: "\n") + "\n"
        StatusDisplay.shared.withAreaCleared { DescriptorOutput.write(text, to: descriptor) }
    }

    /// - Returns: nil for what is not a terminal.
    private static func columns(of descriptor: Int32) -> Int? {
        TerminalProperties.isTerminal(descriptor) ? TerminalProperties.size(of: descriptor).columns : nil
    }

    /// The beginning of each warning and error.
    static let messagePrefix = "nearshare: "

    /// Writes a warning or an error for the user.
    static func warn(_ line: String) { notice(messagePrefix + line) }
}
