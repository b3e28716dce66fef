internal import ArgumentParser
internal import FoundationEssentials
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Show the settings in force, and where each comes from.",
        discussion: "With options of `nearshare receive`, shows what would be in force there.")

    @OptionGroup var receiving: ReceivingOptions

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let effective = try EffectiveSettings(
                of: LocalMachine(), options: receiving.nodeOptions(log: global.logger),
                environment: ProcessInfo.processInfo.environment)
            output.reporter.emit("setting", for: effective.settings, members: Self.jsonMembers) {
                let columns =
                    TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : nil
                for line in Self.lines(effective.settings, columns: columns) { Console.writeResult(line) }
            }
            guard effective.problems.isEmpty else { throw CommandFailure(.failure, effective.problems.joined(separator: "\n")) }
        }
    }

    /// The table of names, values and origins. On a terminal, files are named without their folder, which is a row of its own, and
    /// the origin of a long value stands on the next line. A value that does not fit beside its name stands below it; where not
    /// even short ones fit, each does.
    /// - Parameter columns: width of the terminal; nil for other outputs.
    static func lines(_ settings: [EffectiveSettings.Setting], columns: Int?) -> [String] {
        let rows = settings.map { setting in
            [
                setting.name, setting.value.map { TerminalText.escaped($0, columns: 4096) } ?? "none",
                text(setting.origin, isShort: columns != nil),
            ]
        }
        guard let columns else { return Table.lines(rows) }
        func width(_ column: Int) -> Int { rows.map { TerminalText.width(of: $0[column]) }.max() ?? 0 }
        let availableColumns = columns - width(0) - width(2) - 4
        guard availableColumns >= minimumValueColumns else { return rows.flatMap { stacked($0, columns: columns) } }
        // The table without long values has the width of the terminal at most.
        let lines = Table.lines(rows.map { TerminalText.width(of: $0[1]) > availableColumns ? [$0[0], ""] : $0 })
        return zip(rows, lines).flatMap { row, line in
            guard TerminalText.width(of: row[1]) > availableColumns else { return [line] }
            let long = line + row[1]
            return TerminalText.width(of: long) > columns ? stacked(row, columns: columns) : [long, "    \(row[2])"]
        }
    }

    /// The value below the name, with its origin on the same line where it fits.
    private static func stacked(_ row: [String], columns: Int) -> [String] {
        let line = "  \(row[1])  \(row[2])"
        guard TerminalText.width(of: line) > columns else { return [row[0], line] }
        return [row[0]] + ["  \(row[1])", "      \(row[2])"].flatMap { TextLayout.wrapWords($0, columns: columns) }
    }

    private static let minimumValueColumns = 8

    private static func text(_ origin: EffectiveSettings.Origin, isShort: Bool) -> String {
        switch origin {
        case .default: "default"
        case .file(let path, let line):
            "\(TerminalText.path(isShort ? path.pathComponents.last ?? path : path)), line \(line)"
        case .environment(let variable): "environment, \(variable)"
        case .option: "option"
        case .state: "chosen with `nearshare identity`"
        }
    }

    private static func jsonMembers(_ setting: EffectiveSettings.Setting) -> [String: JSONValue] {
        var members: [String: JSONValue] = ["name": .string(setting.name), "value": JSONValue(setting.value)]
        switch setting.origin {
        case .default: members["origin"] = .string("default")
        case .file(let path, let line):
            members["origin"] = .string("file")
            members["path"] = .string(path)
            members["line"] = .number(UInt64(clamping: line))
        case .environment(let variable):
            members["origin"] = .string("environment")
            members["variable"] = .string(variable)
        case .option: members["origin"] = .string("option")
        case .state: members["origin"] = .string("state")
        }
        return members
    }
}
