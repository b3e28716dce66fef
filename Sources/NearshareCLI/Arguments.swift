public import ArgumentParser
internal import Logging
internal import Nearshare

/// What every command understands.
struct GlobalOptions: ParsableArguments {
    @Flag(name: .customShort("v"), help: "Say more of what happens; twice for still more.")
    var verbosity: Int

    @Option(help: "How much is logged on standard error: error, info, debug or trace.")
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
        var logger = Logger(label: "nearshare") { _ in PlainLog() }
        logger.logLevel = level
        return logger
    }
}

/// The Bluetooth adapter that a command uses.
struct RadioOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The Bluetooth adapter to use, such as hci0, or none for no Bluetooth (default: the first that is switched on).",
            valueName: "adapter"))
    var adapter: String?

    var isOff: Bool { adapter == "none" }

    /// What a node opens when it needs it.
    func radio(log: Logger) -> (@Sendable () throws(DiscoveryError) -> Radio)? {
        isOff ? nil : LocalMachine.radio(adapter: adapter, log: log)
    }
}

enum LogLevel: String, ExpressibleByArgument, CaseIterable {
    case error, info, debug, trace
}

/// Log lines as the tool's other messages.
private struct PlainLog: LogHandler {
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

/// A size such as `500MB`.
struct SizeArgument: ExpressibleByArgument {
    let bytes: UInt64

    init?(argument: String) {
        guard let bytes = ByteSize.parse(argument) else { return nil }
        self.bytes = bytes
    }
}

/// A display name of 1 to 63 bytes.
struct NameArgument: ExpressibleByArgument {
    let name: DisplayName

    init?(argument: String) {
        guard let name = try? DisplayName(argument) else { return nil }
        self.name = name
    }
}

/// Seconds, 1 to 600.
struct TimeoutArgument: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        guard let seconds = Double(argument), (0.1...600).contains(seconds) else { return nil }
        duration = .milliseconds(Int64(seconds * 1000))
    }
}

extension Configuration.Accept: ExpressibleByArgument {}
