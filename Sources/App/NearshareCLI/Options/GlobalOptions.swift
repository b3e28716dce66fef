internal import ArgumentParser
internal import Logging
internal import Nearshare

/// Options of every command.
struct GlobalOptions: ParsableArguments {
    @Flag(name: .customShort("v"), help: "Log more; give it twice for still more.")
    var verbosity: Int

    @Option(help: "Log level on standard error: error, info, debug or trace.")
    var logLevel: LogLevel?

    var logger: Logger {
        let level: Logger.Level =
            switch (logLevel, verbosity) {
            case (.error?, _): .error
            case (.info?, _), (nil, 1): .info
            case (.debug?, _), (nil, 2): .debug
            case (.trace?, _), (nil, 3...): .trace
            default: .error
            }
        var logger = Logger(label: "nearshare") { _ in ConsoleLogHandler() }
        logger.logLevel = level
        return logger
    }
}

enum LogLevel: String, ExpressibleByArgument, CaseIterable {
    case error, info, debug, trace
}

/// Writes log lines in the form of the tool's other messages.
private struct ConsoleLogHandler: LogHandler {
    var metadata = Logger.Metadata()
    var logLevel = Logger.Level.error
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        Console.complain("\(event.level): \(TerminalText.escaped("\(event.message)", columns: 500))")
    }
}
