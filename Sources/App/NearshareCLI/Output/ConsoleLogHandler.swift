internal import Logging
internal import Nearshare

/// Writes log messages to standard error in the form of the tool's other messages, escaped and without metadata.
struct ConsoleLogHandler: LogHandler {
    var metadata = Logger.Metadata()
    var logLevel = Logger.Level.warning

    /// Limit on the width of a message; longer ones are cut.
    private static let maximumColumns = 500

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { Console.warn(Self.line("\(event.message)", level: event.level)) }

    /// The line about a message, escaped. Warnings and errors look like those that are not logged; all others tell their level.
    static func line(_ message: String, level: Logger.Level) -> String {
        let text = TerminalText.escaped(message, columns: maximumColumns)
        return level >= .warning ? text : "\(level): \(text)"
    }
}
