import FoundationEssentials
import Glibc
import NearshareInterfaces
import NearshareStorage
import Testing

@Suite("changing single settings of config.toml") struct ConfigurationTextTests {
    private func change(_ text: String, _ settings: (String, String)...) -> String {
        var changed = ConfigurationText(text)
        for (key, value) in settings { changed.set(key, to: value) }
        return changed.text
    }

    @Test func `a setting is replaced where it stands, or added before the first table`() {
        #expect(change("", ("inbox", "~/In")) == "inbox = \"~/In\"\n")
        #expect(change("# mine\ninbox = '/a' # here\nport = 5\n", ("inbox", "/b")) == "# mine\ninbox = \"/b\"\nport = 5\n")
        #expect(
            change("port = 5\n\n# types\n[open]\ninbox = 'x'\n", ("inbox", "/b"))
                == "port = 5\ninbox = \"/b\"\n\n# types\n[open]\ninbox = 'x'\n")
        #expect(
            change("[open]\n\"image/*\" = \"feh\"", ("accept", "friends"))
                == "accept = \"friends\"\n[open]\n\"image/*\" = \"feh\"\n")
        #expect(change("\"inbox\" = \"/a\"\n", ("inbox", "/b")) == "inbox = \"/b\"\n")
    }

    @Test func `lines that end with CR LF stay so, and each is a line`() {
        #expect(
            change("# mine\r\naccept = \"ask\"\r\n# yours\r\n", ("accept", "friends"))
                == "# mine\r\naccept = \"friends\"\r\n# yours\r\n")
        #expect(
            change("port = 5\r\n\r\n[open]\r\n", ("inbox", "/b")) == "port = 5\r\ninbox = \"/b\"\r\n\r\n[open]\r\n")
    }

    @Test("every text comes back as it was", arguments: ["a \"b\" \\c", "tab\there", "Grüße 👋", "~/In box", "\u{7f}\u{1}"])
    func strings(_ value: String) throws {
        let path = value.hasPrefix("~/") ? value : "/\(value)"
        let configuration = try Configuration(toml: change("", ("inbox", path)))
        #expect(configuration.inbox == path)
    }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o777 : 0
    }

    @Test func `a changed file keeps its permissions, and a link to it stays one`() throws {
        let folder = ScratchFolder()
        try folder.write("dotfiles/config.toml", Array("accept = \"ask\"\n".utf8))
        chmod(folder("dotfiles/config.toml"), 0o640)
        symlink(folder("dotfiles/config.toml"), folder("config.toml"))
        try Configuration.change(path: folder("config.toml"), settings: [("accept", "friends")])
        #expect(mode(folder("dotfiles/config.toml")) == 0o640)
        #expect(try Configuration.read(path: folder("dotfiles/config.toml")).accept == .friends)
        #expect((try? FileManager.default.destinationOfSymbolicLink(atPath: folder("config.toml"))) != nil)
    }

    @Test func `a file is created, changed, and left alone where it is not understood`() throws {
        let folder = ScratchFolder()
        let path = "\(folder.path)/new/config.toml"
        try Configuration.change(path: path, settings: [("inbox", "/a"), ("accept", "friends")])
        try Configuration.change(path: path, settings: [("accept", "ask")])
        #expect(mode(path) == 0o600)
        let changed = try Configuration.read(path: path)
        #expect(changed.inbox == "/a" && changed.accept == .ask)
        // A text of several lines, in which a line looks like a setting.
        try "profile = \"\"\"\ninbox = '/b'\n\"\"\"\n".write(toFile: folder("odd.toml"), atomically: true, encoding: .utf8)
        #expect(throws: StorageError.self) {
            try Configuration.change(path: "\(folder.path)/odd.toml", settings: [("inbox", "/c")])
        }
        #expect(try Configuration.read(path: "\(folder.path)/odd.toml").inbox == nil)
    }
}
