internal import ArgumentParser
internal import Logging
internal import Nearshare

/// Options of every command.
struct GlobalOptions: ParsableArguments {
    @Flag(name: .customShort("v"), help: "Log info messages (-v), debug messages (-vv) or trace messages (-vvv).")
    var verbosity: Int

    @Option(help: "Lowest level that is logged on standard error (default: warning).")
    var logLevel: LogLevel?

    /// The level that the user has chosen. ``logLevel`` overrides ``verbosity``.
    var effectiveLogLevel: Logger.Level {
        if let logLevel { return logLevel.level }
        switch verbosity {
        case 0: return .warning
        case 1: return .info
        case 2: return .debug
        default: return .trace
        }
    }

    var logger: Logger {
        var logger = Logger(label: "nearshare") { _ in ConsoleLogHandler() }
        logger.logLevel = effectiveLogLevel
        return logger
    }
}

/// The log levels that users can choose.
enum LogLevel: String, ExpressibleByArgument, CaseIterable {
    case error, warning, info, debug, trace

    var level: Logger.Level {
        switch self {
        case .error: .error
        case .warning: .warning
        case .info: .info
        case .debug: .debug
        case .trace: .trace
        }
    }
}
