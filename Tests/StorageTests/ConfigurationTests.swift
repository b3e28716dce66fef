import FoundationEssentials
import Glibc
import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("configuration and places")
struct ConfigurationTests {
    @Test("every setting is read")
    func all() throws {
        let configuration = try Configuration(
            toml: """
                name = "anna"
                inbox = "~/Inbox"
                accept = "friends"
                max-size = "2GB"
                port = 4000
                interface = "eth0"
                timeout = 45
                """)
        #expect(configuration.name == (try DisplayName("anna")))
        #expect(configuration.inbox == "~/Inbox" && configuration.accept == .friends)
        #expect(configuration.maximumSize == 2_000_000_000 && configuration.port == 4000)
        #expect(configuration.interface == "eth0" && configuration.timeout == .seconds(45))
        #expect(try Configuration(toml: "") == Configuration())
        #expect(try Configuration(toml: "max-size = 1000").maximumSize == 1000)
        #expect(try Configuration(toml: "keep-executable = true").keepsExecutable && !Configuration().keepsExecutable)
        let openers = try Configuration(
            toml: "[open]\n\"image/*\" = \"feh --fullscreen\"\n\"image/PNG\" = \"gimp\"\n\"application/x.y\" = \"z\"")
        #expect(openers.opener(for: "image/png") == ["gimp"])
        #expect(openers.opener(for: "image/jpeg") == ["feh", "--fullscreen"])
        #expect(openers.opener(for: "application/x.y") == ["z"])
        #expect(openers.opener(for: "text/plain") == nil && openers.opener(for: nil) == nil)
        for line in ["image = \"feh\"", "\"image/png\" = \" \"", "\"image/png\" = 3"] {
            #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "[open]\n\(line)") }
        }
        #expect(try Configuration(toml: "max-per-peer = \"1 MB\"").maximumPerPeer == 1_000_000)
        #expect(try Configuration(toml: "message-lifetime = \"7d\"").messageLifetime == MessageLifetime("7d"))
        #expect(try Configuration(toml: "message-lifetime = \"off\"").messageLifetime == nil)
    }

    @Test("a size that is none is told what is expected", arguments: ["-1", "true", "1.5", "\"big\"", "[]"])
    func wrongSize(_ value: String) {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "max-size = \(value)") }
        #expect(failure?.description == "line 1: max-size: expected a size such as \"500 MB\" or \"2 GiB\"")
    }

    @Test("a file above 1 MiB is rejected whole")
    func largeFile() throws {
        let scratch = ScratchFolder()
        try Data(repeating: UInt8(ascii: "\n"), count: 1 << 20).write(to: URL(filePath: scratch("small")))
        #expect(try Configuration.read(path: scratch("small")) == Configuration())
        try Data(repeating: UInt8(ascii: "\n"), count: (1 << 20) + 1).write(to: URL(filePath: scratch("large")))
        #expect(throws: StorageError.self) { try Configuration.read(path: scratch("large")) }
    }

    @Test(
        "a wrong setting is named",
        arguments: [
            ("nmae = \"x\"", "nmae"), ("name = 5", "name"), ("name = \"\"", "name"), ("accept = \"maybe\"", "accept"),
            ("max-size = \"big\"", "max-size"), ("max-size = -1", "max-size"),
            ("message-lifetime = \"1w\"", "message-lifetime"), ("message-lifetime = 60", "message-lifetime"),
            ("port = 65536", "port"),
            ("port = \"80\"", "port"),
            ("timeout = 0", "timeout"), ("timeout = 1.5", "timeout"), ("inbox = []", "inbox"), ("[table]\nx = 1", "table.x"),
            ("\"\\u001b[2J\" = 1", "\\u{1b}[2J"),
        ])
    func wrong(toml: String, key: String) {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: toml) }
        let line = toml.hasPrefix("[table]") ? 2 : 1
        #expect(failure?.description.hasPrefix("line \(line): \(key): ") == true, "\(String(describing: failure))")
    }

    @Test("all errors are reported, each with its line, its key and what is expected")
    func severalErrors() {
        let toml = """
            name = anna
            accept = "maybe"
            port = 80
            # a comment
            colour = "blue"
            port = 81
            [open
            max-size
            "image/*" = 3
            """
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: toml) }
        let value = "expected a string in quotes, a number, true, false, or a list in brackets"
        #expect(
            failure?.description == """

                  line 1: name: \(value)
                  line 2: accept: expected one of ask, friends, all, none
                  line 5: colour: unknown setting; nearshare(5) lists all
                  line 6: port: set a second time; omit one of the two
                  line 7: [open: expected the name of a table in brackets, such as [open]
                  line 8: expected a setting, such as accept = "ask"
                  line 9: image/*: unknown setting; nearshare(5) lists all
                """)
    }

    @Test(
        "an invalid document has an end of its errors",
        arguments: ["a = [\n", "a = \"\"\"\n", "=\n", "\u{0}\r\n", "[[\r\n", "[.a]\n"])
    func manyErrors(_ line: String) {
        let failure = #expect(throws: Configuration.Invalid.self) {
            try Configuration(toml: String(repeating: line, count: 500))
        }
        #expect((failure?.description.count ?? .max) < 2000)
    }

    @Test("what is no TOML is told with no escape sequence in it")
    func notTOML() {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "name = \u{1b}[2J") }
        #expect(failure?.description.contains("\u{1b}") == false)
        #expect(failure?.description.hasPrefix("line 1: name: expected a string in quotes") == true)
    }

    @Test("a string without its closing quote is told", arguments: ["\"~/x", "'/x", " \"a \\\"", "\"it's"])
    func unclosedQuote(_ value: String) {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "inbox = \(value)\nport = 81\n") }
        #expect(failure?.description.hasPrefix("line 1: inbox: the closing quote is missing") == true)
    }

    @Test("a folder, a FIFO, a link to nowhere, and text that is not UTF-8, are rejected; /dev/null is empty")
    func unreadable() throws {
        let scratch = ScratchFolder()
        scratch.makeFolder("folder")
        let folder = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("folder")) }
        #expect(folder?.description.hasSuffix("folder is a folder") == true)
        mkfifo(scratch("fifo"), 0o600)
        let fifo = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("fifo")) }
        #expect(fifo?.description.hasSuffix("fifo is not a file") == true)
        #expect(symlink("/dev/null", scratch("none")) == 0)
        #expect(try Configuration.read(path: scratch("none")) == Configuration())
        #expect(symlink("/nowhere/config", scratch("link")) == 0)
        let link = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("link")) }
        #expect(link?.description.contains("/link, a symbolic link to /nowhere/config: ") == true)
        try scratch.write("config.toml", Array("port = 29742\nname = \"c".utf8) + [0xff] + Array("\"\n".utf8))
        let text = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("config.toml")) }
        #expect(text?.description.hasSuffix("config.toml: line 2: not UTF-8") == true)
    }

    @Test("a missing file is no configuration, a wrong one is told with its path, ~ is the home")
    func file() throws {
        let scratch = ScratchFolder()
        #expect(try Configuration.read(path: scratch("config.toml")) == Configuration())
        try scratch.write("config.toml", Array("nope = 1".utf8))
        let failure = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("config.toml")) }
        #expect(failure?.description.contains("config.toml: line 1: nope: ") == true)
        try scratch.write("config.toml", Array("inbox = \"~/Inbox\"".utf8))
        #expect(try Configuration.read(path: scratch("config.toml"), home: "/home/a").inbox == "/home/a/Inbox")
        try scratch.write("config.toml", Array("[open]\n\"image/*\" = \"~/bin/show --all ~/x\"".utf8))
        let openers = try Configuration.read(path: scratch("config.toml"), home: "/home/a").openers
        #expect(openers == ["image/*": ["/home/a/bin/show", "--all", "/home/a/x"]])
    }

    @Test(
        "sizes as people write them",
        arguments: [
            ("1500", 1500), ("500 MB", 500_000_000), ("500MB", 500_000_000), ("1.5GiB", 1_610_612_736),
            ("1.5 GiB", 1_610_612_736),
            ("2gb", 2_000_000_000), ("1 k", 1000), ("4KiB", 4096), ("0", 0), ("0.1 KB", 100),
            ("9007199254740993", 9_007_199_254_740_993),
            ("16 TiB", 17_592_186_044_416), ("1 B", 1), (" 7 ", 7),
        ] as [(String, UInt64)])
    func sizes(text: String, bytes: UInt64) {
        #expect(ByteSize.parse(text) == bytes)
    }

    @Test(
        "R7: invalid sizes are rejected",
        arguments: [
            "", "x", "-1", "1 PB", "1..5", ".", "1e5", "1,5 MB", "99999999999999999999", "9999999999 TiB", "5 5", "MB", "١ MB",
            "1 M B B", "1 M B", "5 M i B", "0.4", "1.5 B",
            "inf", "nan", "0x10",
        ])
    func noSizes(text: String) {
        #expect(ByteSize.parse(text) == nil)
    }

    @Test("directories follow the XDG base directory specification; relative paths are ignored")
    func directories() {
        let plain = Directories(environment: ["HOME": "/home/a"], home: "/x")
        #expect(plain.configuration == "/home/a/.config/nearshare" && plain.state == "/home/a/.local/state/nearshare")
        #expect(plain.defaultInbox == "/home/a/Inbox")
        let set = Directories(environment: ["XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"], home: "/x")
        #expect(set.configuration == "/c/nearshare" && set.state == "/s/nearshare" && set.defaultInbox == "/x/Inbox")
        let relative = Directories(environment: ["XDG_CONFIG_HOME": "c", "HOME": "h"], home: "/x")
        #expect(relative.configuration == "/x/.config/nearshare")
        #expect(plain.data == "/home/a/.local/share/nearshare" && relative.data == "/x/.local/share/nearshare")
        let data = Directories(environment: ["XDG_DATA_HOME": "/d", "HOME": "h"], home: "/x").data
        #expect(data == "/d/nearshare")
    }
}
