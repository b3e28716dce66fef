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

    func log(event: LogEvent) {
        Console.warn("\(event.level): \(TerminalText.escaped("\(event.message)", columns: Self.maximumColumns))")
    }
}
