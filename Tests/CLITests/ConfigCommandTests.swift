import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareService

@Suite("settings in a terminal") struct ConfigCommandTests {
    private let settings = [
        EffectiveSettings.Setting(
            name: "accept", value: "friends", origin: .file(path: "/home/anna/.config/config.toml", line: 3)),
        EffectiveSettings.Setting(name: "inbox", value: "/home/anna/" + String(repeating: "x", count: 40), origin: .default),
        EffectiveSettings.Setting(name: "configuration directory", value: "/home/anna/.config", origin: .default),
        EffectiveSettings.Setting(name: "port", value: nil, origin: .environment(variable: "X")),
    ]

    @Test func `short values have their origin beside them, long ones below`() {
        let lines = ConfigCommand.lines(settings, columns: 80)
        #expect(
            lines == [
                "accept                   friends             config.toml, line 3",
                "inbox                    /home/anna/\(String(repeating: "x", count: 40))", "    default",
                "configuration directory  /home/anna/.config  default",
                "port                     none                environment, X",
            ])
        #expect(lines.allSatisfy { TerminalText.width(of: $0) <= 80 })
    }

    @Test func `a value that does not fit beside its name stands below it, as does one whose origin is long`() {
        let setting = EffectiveSettings.Setting(
            name: "configuration", value: String(repeating: "word ", count: 10) + "end", origin: .default)
        #expect(
            ConfigCommand.lines([setting, settings[0]], columns: 60).prefix(2) == [
                "configuration", "  \(setting.value ?? "")",
            ])
        let chosen = EffectiveSettings.Setting(name: "a", value: "123456", origin: .state)
        #expect(
            ConfigCommand.lines([chosen], columns: 20) == [
                "a", "  123456", "      chosen with", "        `nearshare", "        identity`",
            ])
    }

    @Test func `a narrow terminal has each value below its name`() {
        #expect(
            ConfigCommand.lines(settings, columns: 40) == [
                "accept", "  friends  config.toml, line 3",
                "inbox", "  /home/anna/\(String(repeating: "x", count: 40))", "      default",
                "configuration directory", "  /home/anna/.config  default",
                "port", "  none  environment, X",
            ])
    }

    @Test func `a sentence is broken at its words on a narrow terminal`() {
        let setting = EffectiveSettings.Setting(
            name: "accept", value: "ask (without a terminal, not about friends)", origin: .default)
        #expect(
            ConfigCommand.lines([setting, settings[2]], columns: 30) == [
                "accept", "  ask (without a terminal, not", "    about friends)", "      default",
                "configuration directory", "  /home/anna/.config  default",
            ])
    }

    @Test func `other outputs have a line for each setting, with the whole path`() {
        let lines = ConfigCommand.lines(settings, columns: nil)
        #expect(lines.count == settings.count)
        #expect(lines.first?.hasSuffix("  /home/anna/.config/config.toml, line 3") == true)
    }
}
