import FoundationEssentials
import Logging
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("settings in force") struct EffectiveSettingsTests {
    private let scratch = ScratchFolder()

    private func settings(
        _ toml: String, _ options: NodeOptions = NodeOptions(radio: nil, log: Logger(label: "test"))
    ) throws -> [String: EffectiveSettings.Setting] {
        Dictionary(try effective(toml, options).settings.map { ($0.name, $0) }) { first, _ in first }
    }

    private func effective(
        _ toml: String, _ options: NodeOptions = NodeOptions(radio: nil, log: Logger(label: "test"))
    ) throws -> EffectiveSettings {
        try FileManager.default.createDirectory(atPath: scratch("config/nearshare"), withIntermediateDirectories: true)
        try Data(toml.utf8).write(to: URL(filePath: scratch("config/nearshare/config.toml")))
        let environment = [
            "HOME": scratch.path, "XDG_CONFIG_HOME": scratch("config"), "XDG_STATE_HOME": scratch("state"),
            "XDG_DATA_HOME": "relative",
        ]
        return try EffectiveSettings(
            of: LocalMachine(environment: environment), options: options, environment: environment)
    }

    @Test func `what does not exist is a problem, with its place and its setting`() throws {
        let file = scratch("config/nearshare/config.toml")
        let toml = "interface = \"absent0\"\nprofile = \"absent\"\n[profiles.town]\nhop-limit = 70000\n"
        let problems = try effective(toml).problems
        #expect(problems.count == 3)
        #expect(problems.first?.hasPrefix("\(file): interface: there is no network interface absent0: ") == true)
        #expect(problems.dropFirst().first?.hasPrefix("\(file): profile: there is no profile absent; choose one of ") == true)
        #expect(problems.last?.hasPrefix("\(file): profiles.town: ") == true)
        var options = NodeOptions(radio: nil, log: Logger(label: "test"))
        options.interface = "absent1"
        #expect(try effective("", options).problems.first?.hasPrefix("--interface: ") == true)
        options.interface = "lo"
        #expect(try effective("interface = \"absent0\"\nprofile = \"standard\"\n", options).problems.isEmpty)
    }

    @Test func `P17: an inbox among keys and settings is a problem, with its file and key or its option`() throws {
        let file = scratch("config/nearshare/config.toml")
        for (path, word) in [
            ("config/nearshare", "is"), ("config", "contains"), ("config/nearshare/in", "is inside"),
            ("state/nearshare", "is"), ("state/nearshare/spool", "is inside"), ("state", "contains"),
            ("elsewhere/../state/nearshare", "is"),
        ] {
            try FileManager.default.createDirectory(atPath: scratch("elsewhere"), withIntermediateDirectories: true)
            let problem = try effective("inbox = \"\(scratch(path))\"\n").problems.first
            #expect(problem?.hasPrefix("\(file): inbox: the inbox ") == true, "\(path)")
            #expect(problem?.contains(" \(word) nearshare's own directory ") == true, "\(path)")
        }
        // Where it leads is open until the folder exists.
        let open = try effective("inbox = \"\(scratch("none/../state/nearshare"))\"\n").problems.first
        #expect(open?.hasPrefix("\(file): inbox: the inbox ") == true && open?.contains("write it without ..") == true)
        #expect(try effective("inbox = \"\(scratch("inbox"))\"\n").problems.isEmpty)
        var options = NodeOptions(radio: nil, log: Logger(label: "test"))
        options.inbox = scratch("state/nearshare")
        #expect(try effective("", options).problems.first?.hasPrefix("--inbox: the inbox ") == true)
    }

    @Test func `each setting has its value and where that comes from`() throws {
        var options = NodeOptions(radio: nil, log: Logger(label: "test"))
        options.maximumSize = 1000
        let all = try settings(
            "# mine\nport = 4711\n\nmax-size = \"2 GB\"\n[profiles.village]\nhop-limit = 3\n", options)
        let file = scratch("config/nearshare/config.toml")
        #expect(all["port"]?.value == "4711" && all["port"]?.origin == .file(path: file, line: 2))
        #expect(all["max-size"]?.value == "1000" && all["max-size"]?.origin == .option)
        #expect(all["profiles.village.hop-limit"]?.origin == .file(path: file, line: 6))
        #expect(all["timeout"]?.value == "30" && all["timeout"]?.origin == .default)
        #expect(all["interface"]?.value == nil)
        #expect(all["state directory"]?.origin == .environment(variable: "XDG_STATE_HOME"))
        // A relative path is ignored, as the specification requires.
        #expect(all["data directory"]?.origin == .default)
    }

    @Test func `a limit of the file is in force without the option`() throws {
        let all = try settings("max-size = \"2 GB\"\nkeep-executable = true\ntimeout = 5\n")
        #expect(all["max-size"]?.value == "2000000000" && all["keep-executable"]?.value == "true")
        #expect(all["timeout"]?.value == "5")
    }

    @Test func `lines stay unless the file limits their lifetime`() throws {
        let (file, toml) = (scratch("config/nearshare/config.toml"), "message-lifetime = ")
        #expect(try settings("")["message-lifetime"]?.value == "off")
        #expect(try settings("\(toml)\"off\"\n")["message-lifetime"]?.value == "off")
        let limited = try settings("\(toml)\"168h\"\n")["message-lifetime"]
        #expect(limited?.value == "7d" && limited?.origin == .file(path: file, line: 1))
    }

    @Test func `a name that was chosen is told from the host's`() throws {
        let before = try settings("")
        #expect(before["name"]?.origin == .default)
        let machine = try LocalMachine(environment: ["HOME": scratch.path, "XDG_STATE_HOME": scratch("state")])
        try machine.rename(to: DisplayName("zoe"))
        let after = try settings("")
        #expect(after["name"]?.value == "zoe" && after["name"]?.origin == .state)
    }
}
