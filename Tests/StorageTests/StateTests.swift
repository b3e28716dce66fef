import FoundationEssentials
import Glibc
import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("keys and what is remembered")
struct StateTests {
    private let scratch = ScratchFolder()

    private func state() throws -> StateDirectory { try StateDirectory(path: scratch("a/b/state")) }

    @Test("K8, P12: the directory is 0700 with all that is missing above it, the key file 0600")
    func modes() throws {
        _ = try state().identity()
        for name in ["a", "a/b", "a/b/state"] { #expect(try scratch.status(name).st_mode & 0o777 == 0o700) }
        #expect(try scratch.status("a/b/state/identity.key").st_mode & 0o7777 == 0o600)
        chmod(scratch("a/b/state"), 0o755)
        _ = try state()
        #expect(try scratch.status("a/b/state").st_mode & 0o777 == 0o700)
    }

    private struct Note: Codable, Equatable {
        var text = "nothing yet"
    }

    @Test("a remembered file counts as it is now, regardless of which process wrote it, and how")
    func stateFile() throws {
        let (here, elsewhere) = try (StateFile("note.json", in: state(), startingWith: Note()), state())
        #expect(try here.read() == Note())
        for text in ["one", "two", "six"] {
            try elsewhere.update("note.json", startingWith: Note()) { $0.text = text }
            #expect(try here.read().text == text)
            #expect(try here.read().text == text)
        }
        // Written over by hand, with as many bytes as before.
        let whole = String(decoding: try scratch.read("a/b/state/note.json"), as: UTF8.self)
        try scratch.write("a/b/state/note.json", Array(whole.replacing("six", with: "ten").utf8))
        #expect(try here.read().text == "ten")
        try here.update { $0.text += "!" }
        #expect(try here.read().text == "ten!")
        unlink(scratch("a/b/state/note.json"))
        #expect(try here.read() == Note())
    }

    @Test("a remembered file that gets damaged is told, and counts again when it is mended")
    func damagedStateFile() throws {
        let file = try StateFile("note.json", in: state(), startingWith: Note())
        try file.update { $0.text = "one" }
        let whole = try scratch.read("a/b/state/note.json")
        #expect(try file.read().text == "one")
        try scratch.write("a/b/state/note.json", Array(whole.dropLast(4)))
        for _ in 0..<2 { #expect(throws: StorageError.self) { try file.read() } }
        try scratch.write("a/b/state/note.json", whole)
        #expect(try file.read().text == "one")
    }

    @Test("a file of a later version is told apart from a damaged one, and the last value read stays at hand")
    func laterVersion() throws {
        let file = try StateFile("note.json", in: state(), startingWith: Note())
        #expect(file.latestValue == nil)
        try file.update { $0.text = "one" }
        #expect(try file.read().text == "one")
        for (content, words) in [
            ("{\"text\": [1]}", "later version"), ("[]", "later version"), ("", "damaged"), ("{", "damaged"),
        ] {
            try scratch.write("a/b/state/note.json", Array(content.utf8))
            let failure = #expect(throws: StorageError.self) { try file.read() }
            #expect(failure?.description.contains(words) == true, "\(content)")
            // Nothing that can't be read is replaced.
            #expect(throws: StorageError.self) { try file.update { $0.text = "two" } }
            #expect(try scratch.read("a/b/state/note.json") == Array(content.utf8))
        }
        #expect(file.latestValue?.text == "one")
    }

    @Test("K10: a key is made once, from the kernel's randomness, and is another one elsewhere")
    func key() throws {
        #expect(try !state().hasIdentity)
        let first = try state().identity()
        #expect(try state().hasIdentity)
        #expect(try state().identity().fingerprint == first.fingerprint)
        #expect(try StateDirectory(path: scratch("other")).identity().fingerprint != first.fingerprint)
    }

    @Test("K10: all callers get the same key, whichever asks first")
    func keyRace() throws {
        let path = scratch("race")
        let workers = (0..<8).map { _ in
            Worker { (try? StateDirectory(path: path).identity())?.fingerprint }
        }
        let seen = Set(workers.map { $0.wait() })
        #expect(seen.count == 1 && seen.first != .some(nil))
    }

    @Test("K8: a key file that others can read is refused", arguments: [mode_t(0o604), 0o640, 0o620, 0o666])
    func looseKey(mode: mode_t) throws {
        _ = try state().identity()
        chmod(scratch("a/b/state/identity.key"), mode)
        let failure = #expect(throws: StorageError.self) { try state().identity() }
        #expect(failure?.code == .noPermission)
        #expect(failure?.description.contains("chmod 600") == true)
    }

    @Test("a key file that is damaged, a folder or a link is refused, never replaced")
    func damagedKey() throws {
        _ = try state().identity()
        let key = try scratch.read("a/b/state/identity.key")
        for length in 0..<key.count {
            try scratch.write("a/b/state/identity.key", Array(key.prefix(length)))
            #expect(throws: StorageError.self) { try state().identity() }
            #expect(try scratch.read("a/b/state/identity.key").count == length)
        }
        unlinkFile(scratch("a/b/state/identity.key"))
        try scratch.write("elsewhere", key)
        symlink(scratch("elsewhere"), scratch("a/b/state/identity.key"))
        #expect(throws: StorageError.self) { try state().identity() }
        unlinkFile(scratch("a/b/state/identity.key"))
        scratch.makeFolder("a/b/state/identity.key")
        #expect(throws: StorageError.self) { try state().identity() }
    }

    private struct Counter: Codable { var count = 0 }

    @Test("one process at a time is the node, which others can name, and the next one when it has ended")
    func runLock() throws {
        let (state, other) = (try state(), try state())
        #expect(try other.nodeProcessID() == nil)
        do {
            let lock = try #require(try state.acquireNodeLock())
            #expect(try other.acquireNodeLock() == nil)
            #expect(try other.nodeProcessID() == getpid())
            withExtendedLifetime(lock) {}
        }
        #expect(try other.nodeProcessID() == nil)
        // Reading the key did not remove it for other callers.
        let next = try #require(try other.acquireNodeLock())
        withExtendedLifetime(next) {}
    }

    @Test("changes from many at once are all there")
    func changes() throws {
        let path = scratch("counting")
        let workers = (0..<4).map { _ in
            Worker {
                guard let state = try? StateDirectory(path: path) else { return }
                for _ in 0..<50 { _ = try? state.update("n.json", startingWith: Counter()) { $0.count += 1 } }
            }
        }
        for worker in workers { worker.wait() }
        #expect(try StateDirectory(path: path).read(Counter.self, from: "n.json")?.count == 200)
        #expect(try scratch.status("counting/n.json").st_mode & 0o7777 == 0o600)
    }

    @Test("a file that can't be understood is told and kept")
    func damagedFile() throws {
        let state = try state()
        try scratch.write("a/b/state/n.json", Array("{".utf8))
        #expect(throws: StorageError.self) { try state.read(Counter.self, from: "n.json") }
        #expect(throws: StorageError.self) { try state.update("n.json", startingWith: Counter()) { $0.count += 1 } }
        #expect(try scratch.read("a/b/state/n.json") == Array("{".utf8))
    }

    @Test("a file half written by a killed process is not seen")
    func halfWritten() throws {
        let state = try state()
        try state.update("n.json", startingWith: Counter()) { $0.count = 7 }
        try scratch.write("a/b/state/n.json.new", Array("{\"cou".utf8))
        #expect(try state.read(Counter.self, from: "n.json")?.count == 7)
        try state.update("n.json", startingWith: Counter()) { $0.count += 1 }
        #expect(try state.read(Counter.self, from: "n.json")?.count == 8)
    }

    private func entry(_ number: Int, name: String = "x") -> ReceiveHistory.Entry {
        ReceiveHistory.Entry(
            when: WallTime(milliseconds: Int64(number)), peer: anna, peerName: try! DisplayName("anna"), claimedName: name,
            path: "/inbox/x", size: UInt64(number), type: "text/plain", isFolder: false)
    }

    @Test("T5: what arrived is remembered in order, and no name breaks a line")
    func history() throws {
        let history = ReceiveHistory(in: try state())
        #expect(try history.entries().isEmpty)
        let all = [entry(1), entry(2, name: "two\nlines\u{2028}\r"), entry(3, name: "\u{1b}\"}{")]
        for entry in all { try history.append(entry) }
        #expect(try history.entries() == all)
        #expect(try scratch.read("a/b/state/history.jsonl").filter { $0 == 10 }.count == 3)
        #expect(try scratch.status("a/b/state/history.jsonl").st_mode & 0o7777 == 0o600)
    }

    @Test func `of several items with one path only the latest is listed`() throws {
        let history = ReceiveHistory(in: try state())
        var other = entry(2)
        other.path = "/inbox/y"
        for entry in [entry(1), other, entry(3)] { try history.append(entry) }
        #expect(try history.latestEntries() == [other, entry(3)])
    }

    @Test("one peer cannot rotate the entries of others away")
    func historyFlood() throws {
        let history = ReceiveHistory(in: try state())
        var friend = entry(1, name: "from a friend")
        friend.peer = Fingerprint(bytes: [UInt8](repeating: 9, count: 32))!
        try history.append(friend)
        let line = try scratch.read("a/b/state/history.jsonl").count
        // Written at once: each call synchronises the file.
        let other = try JSONEncoder().encode(entry(2, name: String(repeating: "x", count: 20_000)))
        let flood = (0..<(3 << 20) / other.count).flatMap { _ -> [UInt8] in Array(other) + [10] }
        try scratch.write("a/b/state/history.jsonl", try scratch.read("a/b/state/history.jsonl") + flood)
        try history.append(entry(3))
        let entries = try history.entries()
        #expect(entries.first == friend && entries.last == entry(3))
        #expect(try scratch.status("a/b/state/history.jsonl").st_size <= (1 << 20) + line)
    }

    @Test("a damaged line of the history hides no other")
    func damagedHistory() throws {
        let history = ReceiveHistory(in: try state())
        try history.append(entry(1))
        let written = try scratch.read("a/b/state/history.jsonl")
        try scratch.write("a/b/state/history.jsonl", written + Array("half a li".utf8) + [10] + written)
        #expect(try history.entries() == [entry(1), entry(1)])
    }

    @Test("records of items are removed with their moves; other lines stay, also damaged ones")
    func removedHistory() throws {
        let history = ReceiveHistory(in: try state())
        var (staged, other) = (entry(1), entry(2))
        staged.path = "/spool/x"
        other.path = "/inbox/y"
        for entry in [staged, other] { try history.append(entry) }
        try history.recordMove(from: "/spool/x", to: "/inbox/x")
        let written = try scratch.read("a/b/state/history.jsonl")
        try scratch.write("a/b/state/history.jsonl", written + Array("half a li".utf8) + [10])
        #expect(try history.remove { $0.path == "/spool/x" } == 0)
        #expect(try history.remove { $0.path == "/inbox/x" } == 1)
        #expect(try history.entries() == [other])
        let left = String(decoding: try scratch.read("a/b/state/history.jsonl"), as: UTF8.self)
        #expect(left.hasSuffix("half a li\n") && left.split(separator: "\n").count == 2)
    }

    @Test("what was sent is remembered in order, and the oldest goes")
    func sendHistory() throws {
        let history = TransferLog(of: .sent, in: try state())
        #expect(try history.entries().isEmpty)
        let long = String(repeating: "n", count: 20_000)
        for number in 0..<130 {
            try history.append(
                TransferLog.Entry(
                    when: WallTime(milliseconds: Int64(number)), peer: anna.peerID, peerName: "anna", content: "a\n\(long)",
                    size: UInt64(number), outcome: "completed"))
        }
        let entries = try history.entries()
        #expect(entries.count < 110 && entries.map(\.size) == Array(entries[0].size...129))
        #expect(try scratch.status("a/b/state/sent.jsonl").st_mode & 0o7777 == 0o600)
    }

    @Test("the history is bounded: the oldest goes")
    func boundedHistory() throws {
        let history = ReceiveHistory(in: try state())
        let long = String(repeating: "n", count: 20_000)
        for number in 0..<130 { try history.append(entry(number, name: long)) }
        let entries = try history.entries()
        #expect(entries.count < 110 && entries.last?.size == 129)
        #expect(entries.map(\.size) == Array(entries[0].size...129))
        #expect(try scratch.status("a/b/state/history.jsonl").st_size <= 2 << 20)
    }

    @Test("R6: who was seen lately is bounded, the latest first, each once")
    func recentPeers() throws {
        let state = try state()
        func peer(_ number: Int, at time: Int64) -> RecentPeers.Entry {
            RecentPeers.Entry(
                id: PeerID(bytes: (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })!,
                name: try! DisplayName("p\(number)"), lastSeen: WallTime(milliseconds: time), address: "10.0.0.1:1")
        }
        for number in 0..<300 { try RecentPeers.record([peer(number, at: Int64(number))], in: state) }
        try RecentPeers.record([peer(299, at: 1000), peer(250, at: 2000)], in: state)
        let entries = try RecentPeers.read(in: state).entries
        #expect(entries.count == RecentPeers.capacity)
        #expect(entries.prefix(3).map(\.name.claimed) == ["p250", "p299", "p298"])
        #expect(Set(entries.map(\.id)).count == entries.count)
    }
}

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
    }

    @Test("a size that is none is told what is expected", arguments: ["-1", "true", "1.5", "\"big\"", "[]"])
    func wrongSize(_ value: String) {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "max-size = \(value)") }
        #expect(failure?.description == "max-size: expected a size such as \"500 MB\" or \"2 GiB\"")
    }

    @Test("a file above 1 MiB is refused whole")
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
            ("port = 65536", "port"),
            ("port = \"80\"", "port"),
            ("timeout = 0", "timeout"), ("timeout = 1.5", "timeout"), ("inbox = []", "inbox"), ("[table]\nx = 1", "table.x"),
            ("\"\\u001b[2J\" = 1", "\\u{1b}[2J"),
        ])
    func wrong(toml: String, key: String) {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: toml) }
        #expect(failure?.description.hasPrefix("\(key): ") == true, "\(String(describing: failure))")
    }

    @Test("what is no TOML is told with no escape sequence in it")
    func notTOML() {
        let failure = #expect(throws: Configuration.Invalid.self) { try Configuration(toml: "name = \u{1b}[2J") }
        #expect(failure?.description.contains("\u{1b}") == false)
        #expect(failure?.description.hasPrefix("not valid TOML") == true)
    }

    @Test("a missing file is no configuration, a wrong one is told with its path, ~ is the home")
    func file() throws {
        let scratch = ScratchFolder()
        #expect(try Configuration.read(path: scratch("config.toml")) == Configuration())
        try scratch.write("config.toml", Array("nope = 1".utf8))
        let failure = #expect(throws: StorageError.self) { try Configuration.read(path: scratch("config.toml")) }
        #expect(failure?.description.contains("config.toml: nope: ") == true)
        try scratch.write("config.toml", Array("inbox = \"~/Inbox\"".utf8))
        #expect(try Configuration.read(path: scratch("config.toml"), home: "/home/a").inbox == "/home/a/Inbox")
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

@Suite("what content is")
struct MediaTypeTests {
    @Test("libmagic tells common content, from many threads at once")
    func detects() {
        let detector = MediaTypeDetector()
        let samples: [(String, [UInt8])] = [
            ("image/gif", Array("GIF89a".utf8) + bytes(50)),
            ("image/png", [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10] + [0, 0, 0, 13] + Array("IHDR".utf8) + bytes(20)),
            ("application/pdf", Array("%PDF-1.7\n".utf8)), ("text/plain", Array("just words\n".utf8)),
        ]
        let workers = (0..<8).map { _ in
            Worker {
                for _ in 0..<50 {
                    for (type, content) in samples {
                        guard content.withUnsafeBytes({ detector.type(of: $0) }) == type else { return false }
                    }
                }
                return true
            }
        }
        for worker in workers {
            // Operations already running must not be affected.
            detector.purgeCache()
            #expect(worker.wait())
        }
    }

    @Test(
        "P14: a warning comes when name, claim and content disagree",
        arguments: [
            ("photo.jpg", nil, "application/x-dosexec", "named photo.jpg, but the content is application/x-dosexec"),
            ("photo.jpg", nil, "image/png", nil), ("song.mp3", nil, "video/mp4", nil),
            ("notes.txt", nil, "application/pdf", "named notes.txt"),
            ("paper.pdf", nil, "application/pdf", nil), ("paper.pdf", nil, "image/jpeg", "named paper.pdf"),
            ("paper.pdf", nil, "application/x-executable", "named paper.pdf"),
            ("tool", nil, "application/x-pie-executable", "this is a program"),
            ("tool.xyzzy", nil, "text/x-shellscript", "this is a program"), ("run.sh", nil, "text/x-shellscript", nil),
            ("setup.exe", nil, "application/x-dosexec", nil), ("data.bin", nil, "application/octet-stream", nil),
            ("data", "image/png", "image/jpeg", nil), ("data", "image/png", "application/zip", "sent as image/png"),
            ("data.json", nil, "application/json", nil), ("table.csv", nil, "application/csv", nil),
            ("code.ts", nil, "text/x-java", nil),
            ("x.docx", nil, "application/zip", nil), ("page.html", nil, "text/html", nil),
            ("empty.jpg", nil, "inode/x-empty", nil),
            ("a\u{1b}.jpg", nil, "application/zip", "named a\\u{1b}.jpg"),
            ("UPPER.JPG", nil, "application/x-dosexec", "named UPPER.JPG"),
            (".jpg", nil, "application/zip", nil), ("anything.jpg", nil, nil, nil),
        ] as [(String, String?, String?, String?)])
    func agreement(name: String, claimed: String?, detected: String?, warning: String?) {
        let told = ContentTypeCheck.warning(name: name, claimed: claimed, detected: detected)
        if let warning {
            #expect(told?.hasPrefix(warning) == true, "\(told ?? "nothing")")
        } else {
            #expect(told == nil)
        }
    }

    @Test("a table of types is read as far as it says something")
    func table() {
        let families = ContentTypeCheck.families(
            inTable:
                "# comment\nimage/jpeg\t\tjpg JPE\napplication/octet-stream bin\ntext/plain txt\nimage/none\n\napplication/x-sh sh\n"
        )
        #expect(families == ["jpg": .image, "jpe": .image, "txt": .text, "sh": .program])
    }
}
