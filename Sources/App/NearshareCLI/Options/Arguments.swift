internal import ArgumentParser
internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareService

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

    /// For whoever has asked for Bluetooth and nothing else.
    func checkOn() throws {
        if isOff { throw ValidationError("--via bluetooth needs an adapter; leave --adapter none out") }
        if LocalMachine.radio() == nil {
            throw ValidationError("this nearshare was built without Bluetooth; choose another way, or install one with it")
        }
    }

    /// What a node opens when it needs it.
    func radio(log: Logger) -> (@Sendable () throws(DiscoveryError) -> Radio)? {
        isOff ? nil : LocalMachine.radio(adapter: adapter, log: log)
    }
}

/// How something gets to somebody.
struct TransportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The way to take: lan (a connection over the network), bluetooth (a channel to somebody in range) or mesh (from "
                + "neighbour to neighbour, at most 5 MiB a file). Without, the first of these that there is.",
            valueName: "way"))
    var via: Transport?

    @Option(help: ArgumentHelp("Look for peers through this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var radio: RadioOptions

    /// Whether the way fits those to whom something is to be sent, as the person named them.
    func check(_ peers: [String]) throws {
        let address = peers.first { LinkAddress(parsing: $0) != nil }.map { TerminalText.escaped($0) }
        switch via {
        case .mesh:
            if let address { throw ValidationError("\(address) is an address; in the mesh peers go by name or id") }
        case .bluetooth:
            try radio.checkOn()
            if let address { throw ValidationError("\(address) is an address; over Bluetooth peers go by name or id") }
        case .lan, nil: break
        }
    }

    /// A node that finds those who are named; for addresses alone, none that looks for anybody.
    func nodeSettings(_ machine: LocalMachine, for peers: [String], log: Logger) throws -> NodeSettings {
        let looks = peers.isEmpty || peers.contains { LinkAddress(parsing: $0) == nil }
        return try machine.nodeSettings(
            interface: interface, discovery: looks && via != .bluetooth ? machine.discovery() : nil,
            radio: via == .lan ? nil : radio.radio(log: log), log: log)
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

/// A display name of 1 to 63 bytes, without what would break a line or steer a terminal, and with something to be seen.
struct NameArgument: ExpressibleByArgument {
    let name: DisplayName

    init?(argument: String) {
        let isPlain = argument.unicodeScalars.allSatisfy { scalar in
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
        guard isPlain, !argument.allSatisfy(\.isWhitespace), let name = try? DisplayName(argument) else { return nil }
        self.name = name
    }
}

/// Whom a command is about, as the person has named them.
enum PeerText {
    /// - Throws: a `ValidationError` for what can mean nobody: an empty text, most often a variable that is not set, would be the
    ///   beginning of every name.
    @Sendable static func check(_ text: String) throws -> String {
        if text.allSatisfy(\.isWhitespace) { throw ValidationError("say whom: the name is empty") }
        if isHostAddress(text) {
            let host = text.contains(":") ? "[\(text)]" : text
            throw ValidationError(
                "an address needs a port; add the one that `nearshare receive` shows there, as in \(host):4000")
        }
        return text
    }

    /// The same peer named twice is one.
    static func unique(_ peers: [String]) -> [String] {
        var named = Set<String>()
        return peers.filter { named.insert($0.lowercased()).inserted }
    }

    private static func isHostAddress(_ text: String) -> Bool {
        var address = in6_addr()
        let host = text.split(separator: "%", maxSplits: 1).first.map(String.init) ?? text
        return [AF_INET, AF_INET6].contains { inet_pton($0, host, &address) == 1 }
    }
}

/// Seconds, 0.1 to 600.
struct TimeoutArgument: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        guard let seconds = Double(argument), (0.1...600).contains(seconds) else { return nil }
        duration = .milliseconds(Int64(seconds * 1000))
    }
}

extension Configuration.Accept: ExpressibleByArgument {}

extension Transport: ExpressibleByArgument {}
