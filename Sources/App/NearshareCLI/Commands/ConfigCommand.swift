internal import ArgumentParser
internal import FoundationEssentials
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
            let all = try EffectiveSettings(
                of: LocalMachine(), options: receiving.nodeOptions(log: global.logger),
                environment: ProcessInfo.processInfo.environment)
            if output.json {
                for one in all.settings { JSONEvents.emit("setting", Self.fields(one)) }
            } else {
                let rows = all.settings.map { one in
                    [one.name, one.value.map { TerminalText.escaped($0, columns: 4096) } ?? "none", Self.text(one.origin)]
                }
                Console.writeTable(rows)
            }
            guard all.problems.isEmpty else { throw CommandFailure(.failure, all.problems.joined(separator: "\n")) }
        }
    }

    private static func text(_ origin: EffectiveSettings.Origin) -> String {
        switch origin {
        case .default: "default"
        case .file(let path, let line): "\(TerminalText.path(path)), line \(line)"
        case .environment(let variable): "environment, \(variable)"
        case .option: "option"
        case .state: "chosen with `nearshare identity`"
        }
    }

    private static func fields(_ setting: EffectiveSettings.Setting) -> [String: JSONValue] {
        var fields: [String: JSONValue] = ["name": .string(setting.name), "value": JSONValue(setting.value)]
        switch setting.origin {
        case .default: fields["origin"] = .string("default")
        case .file(let path, let line):
            fields["origin"] = .string("file")
            fields["path"] = .string(path)
            fields["line"] = .number(UInt64(clamping: line))
        case .environment(let variable):
            fields["origin"] = .string("environment")
            fields["variable"] = .string(variable)
        case .option: fields["origin"] = .string("option")
        case .state: fields["origin"] = .string("state")
        }
        return fields
    }
}
