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

    @Test("a path with a NUL character is an error, and the folder before it is not touched")
    func nulInPath() throws {
        try scratch.write("shared/file", [1])
        chmod(scratch("shared"), 0o755)
        #expect(throws: StorageError.self) { try StateDirectory(path: scratch("shared\0/state")) }
        #expect(throws: StorageError.self) { try EphemeralState(in: scratch("shared\0/run"), suffix: "1") }
        #expect(throws: StorageError.self) { try Inbox(path: scratch("shared\0/inbox"), spoolPath: nil) }
        #expect(throws: StorageError.self) { try FileSource(paths: [scratch("shared/file\0.txt")]) }
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            let directories = Directories(environment: [name: scratch("shared\0/a")], home: scratch("home"))
            #expect(throws: StorageError.self, "\(name)") { try directories.check() }
        }
        #expect(try scratch.status("shared").st_mode & 0o777 == 0o755)
    }

    @Test("P12: folders above the inbox that are missing are made as 0700 below the home directory, and nowhere else")
    func foldersAboveInbox() throws {
        try scratch.write("home/file", [1])
        try scratch.write("disk/file", [1])
        let inbox = try Inbox(path: scratch("home/a/b/inbox"), home: scratch("home"), spoolPath: nil)
        #expect(try !inbox.check())
        try inbox.prepare()
        for name in ["a", "a/b", "a/b/inbox"] { #expect(try scratch.status("home/\(name)").st_mode & 0o777 == 0o700) }
        #expect(try inbox.check())
        #expect(symlink(scratch("disk"), scratch("home/link")) == 0)
        let paths = [
            ("disk/a", scratch("home")), ("home/../disk/a", scratch("home")), ("home/link/a", scratch("home")), ("disk/a", "/"),
        ]
        for (path, home) in paths {
            let elsewhere = try Inbox(path: scratch("\(path)/inbox"), home: home, spoolPath: nil)
            #expect(throws: StorageError.self) { try elsewhere.check() }
            #expect(throws: StorageError.self) { try elsewhere.prepare() }
        }
        #expect(access(scratch("disk/a"), F_OK) != 0)
        // A disk that was there is waited for, and its folders are not made anew.
        #expect(rename(scratch("home/a"), scratch("home/moved")) == 0)
        #expect(throws: StorageError.self) { try inbox.prepare() }
        #expect(access(scratch("home/a"), F_OK) != 0)
    }

    private struct Note: Codable, Equatable {
        var text = "nothing yet"
    }

    @Test("a remembered file counts as it is now, regardless of which process wrote it, and how")
    func stateFile() throws {
        let (file, elsewhere) = try (StateFile("note.json", in: state(), startingWith: Note()), state())
        #expect(try file.read() == Note())
        for text in ["one", "two", "six"] {
            try elsewhere.update("note.json", startingWith: Note()) { $0.text = text }
            #expect(try file.read().text == text)
            #expect(try file.read().text == text)
        }
        // Written over by hand, with as many bytes as before.
        let whole = String(decoding: try scratch.read("a/b/state/note.json"), as: UTF8.self)
        try scratch.write("a/b/state/note.json", Array(whole.replacing("six", with: "ten").utf8))
        #expect(try file.read().text == "ten")
        try file.update { $0.text += "!" }
        #expect(try file.read().text == "ten!")
        unlink(scratch("a/b/state/note.json"))
        #expect(try file.read() == Note())
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
            // Nothing that cannot be read is replaced.
            #expect(throws: StorageError.self) { try file.update { $0.text = "two" } }
            #expect(try scratch.read("a/b/state/note.json") == Array(content.utf8))
        }
        #expect(file.latestValue?.text == "one")
    }

    @Test("the message about the trust store says what a new one lacks", arguments: ["{", "[1]"])
    func lossOfTrust(_ content: String) throws {
        let trust = try StateFile<TrustStore>(in: state())
        try scratch.write("a/b/state/trust.json", Array(content.utf8))
        let failure = #expect(throws: StorageError.self) { try trust.read() }
        #expect(failure?.description.hasSuffix("without your friends, verified keys, given names and blocks") == true)
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

    @Test("a file that cannot be understood is told and kept")
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

    @Test("R6: made-up keys, each within its share, cannot rotate the entries of a friend away")
    func historyFloodOfManyKeys() throws {
        let history = ReceiveHistory(in: try state())
        let friend = Fingerprint(bytes: [UInt8](repeating: 9, count: 32))!
        var first = entry(1, name: "from a friend")
        first.peer = friend
        try history.append(first)
        let flood = try (0..<150).flatMap { number -> [UInt8] in
            var other = entry(2, name: String(repeating: "x", count: 20_000))
            other.peer = Fingerprint(bytes: [UInt8](repeating: UInt8(10 + number % 40), count: 32))!
            return Array(try JSONEncoder().encode(other)) + [10]
        }
        try scratch.write("a/b/state/history.jsonl", try scratch.read("a/b/state/history.jsonl") + flood)
        try history.append(entry(3)) { $0 == friend }
        let entries = try history.entries()
        #expect(entries.first == first && entries.last == entry(3) && entries.count > 40)
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
        // A move takes the share of its item's peer (R6).
        let move = String(decoding: written, as: UTF8.self).split(separator: "\n").last
        #expect(move?.contains(staged.peer.hex) == true)
        try scratch.write("a/b/state/history.jsonl", written + Array("half a li".utf8) + [10])
        #expect(try history.remove { $0.path == "/spool/x" } == 0)
        #expect(try history.remove { $0.path == "/inbox/x" } == 1)
        #expect(try history.entries() == [other])
        let left = String(decoding: try scratch.read("a/b/state/history.jsonl"), as: UTF8.self)
        #expect(left.hasSuffix("half a li\n") && left.split(separator: "\n").count == 2)
    }

    @Test("an item that was removed is in the history only, and one received in its place is another")
    func removedItem() throws {
        let history = ReceiveHistory(in: try state())
        var (staged, other) = (entry(1), entry(2))
        (staged.path, other.path) = ("/spool/x", "/inbox/y")
        for entry in [staged, other] { try history.append(entry) }
        try history.recordMove(from: "/spool/x", to: "/inbox/x")
        try history.recordRemoval(of: "/inbox/x")
        #expect(try history.entries() == [other] && history.latestEntries() == [other])
        var removed = staged
        (removed.path, removed.isRemoved) = ("/inbox/x", true)
        #expect(try history.entries(includesRemoved: true) == [removed, other])
        var again = entry(3)
        again.path = "/inbox/x"
        try history.append(again)
        #expect(try history.latestEntries() == [other, again])
        #expect(try history.entries(includesRemoved: true) == [removed, other, again])
        #expect(try history.remove { $0.isRemoved == true } == 1)
        #expect(try history.entries(includesRemoved: true) == [other, again])
    }

    @Test("the interruptions of a transfer that was completed later are removed, and no others")
    func resumedAttempts() throws {
        let log = TransferLog(of: .notReceived, in: try state())
        try log.removeResumedAttempts { _ in true }
        let (anna, ben) = (PeerID(bytes: [UInt8](repeating: 1, count: 8))!, PeerID(bytes: [UInt8](repeating: 2, count: 8))!)
        func append(_ token: String, _ outcome: String, by peer: PeerID, partial: String?) throws {
            var entry = TransferLog.Entry(
                when: WallTime(milliseconds: 1), peer: peer, peerName: "a peer", content: token, size: 0, outcome: outcome,
                attempt: TransferLog.Attempt(process: 1, token: token))
            entry.partial = partial
            try log.append(entry)
        }
        func attempt(_ token: String, _ outcome: String, by peer: PeerID, partial: String?) throws {
            try append(token, TransferLog.runningOutcome, by: peer, partial: partial)
            try append(token, outcome, by: peer, partial: nil)
        }
        try attempt("first", "interrupted", by: anna, partial: "p")
        try append("killed", TransferLog.runningOutcome, by: anna, partial: "p")
        try attempt("other", "interrupted", by: anna, partial: "q")
        try attempt("foreign", "interrupted", by: ben, partial: "r")
        try attempt("last", "completed", by: anna, partial: "p")
        try attempt("again", "interrupted", by: anna, partial: "p")
        try attempt("resumed", "completed", by: ben, partial: "r")
        try log.removeResumedAttempts { $0 == anna }
        let left = ["other", "foreign", "last", "again", "resumed"].flatMap { [$0, $0] }
        #expect(try log.entries().map(\.content).sorted() == left.sorted())
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

    @Test("a transfer whose process was killed is listed as interrupted, any other one once")
    func unfinished() throws {
        func entry(_ outcome: String, process: Int32?, _ token: String = "a") -> TransferLog.Entry {
            TransferLog.Entry(
                when: WallTime(milliseconds: 1), peer: anna.peerID, peerName: "anna", content: token, size: 0, outcome: outcome,
                attempt: process.map { TransferLog.Attempt(process: $0, token: token) })
        }
        let entries = [
            entry("declined", process: nil), entry("running", process: 1), entry("running", process: 2),
            entry("running", process: 3), entry("running", process: 3, "b"), entry("completed", process: 3),
            entry("cancelled", process: 3, "b"),
        ]
        let settled = TransferLog.settled(entries, of: .notReceived) { $0 != 1 }
        #expect(settled.map(\.outcome) == ["declined", "interrupted", "running", "cancelled"])
        let sent = TransferLog.settled(entries, of: .sent) { $0 != 1 }
        #expect(sent.map(\.outcome) == ["declined", "interrupted", "running", "completed", "cancelled"])
        var (piped, present) = (entry("completed", process: 4), entry("completed", process: 5))
        piped.reason = "to standard output"
        present.presentSize = 0
        #expect(TransferLog.settled([piped, present], of: .notReceived) { _ in true } == [piped, present])
        let log = TransferLog(of: .notReceived, in: try state())
        for entry in entries { try log.append(entry) }
        #expect(try log.entries() == entries)
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
                name: try! DisplayName("p\(number)"), lastSeen: WallTime(milliseconds: time))
        }
        for number in 0..<300 { try RecentPeers.record([peer(number, at: Int64(number))], in: state) }
        try RecentPeers.record([peer(299, at: 1000), peer(250, at: 2000)], in: state)
        let entries = try RecentPeers.read(in: state).entries
        #expect(entries.count == RecentPeers.capacity)
        #expect(entries.prefix(3).map(\.name.claimed) == ["p250", "p299", "p298"])
        #expect(Set(entries.map(\.id)).count == entries.count)
    }

    @Test("D1, R6: addresses at which keys were proven outlast any number of peers that were only seen")
    func recentAddresses() throws {
        let state = try state()
        func peer(_ number: Int) -> RecentPeers.Entry {
            RecentPeers.Entry(
                id: PeerID(bytes: (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })!,
                name: try! DisplayName("p\(number)"), lastSeen: WallTime(milliseconds: Int64(number)))
        }
        let address = LinkAddress(host: "fe80::1%eth0", port: 29742)
        try RecentPeers.recordAddress(address, of: peer(0).id, in: state)
        #expect(try RecentPeers.read(in: state).entries.isEmpty)
        try RecentPeers.record([peer(0)], in: state)
        try RecentPeers.recordAddress(address, of: peer(0).id, in: state)
        try RecentPeers.recordAddress(
            LinkAddress(host: "00:11:22:33:44:55", port: 1, medium: .bluetooth), of: peer(0).id, in: state)
        try RecentPeers.record((1...300).map(peer), in: state)
        try RecentPeers.record([peer(0)], in: state)
        let recent = try RecentPeers.read(in: state)
        #expect(recent.address(of: peer(0).id) == "[fe80::1%eth0]:29742" && recent.address(of: peer(1).id) == nil)
        #expect(recent.entries.count == RecentPeers.capacity && recent.entries.first?.id == peer(0).id)
    }
}
