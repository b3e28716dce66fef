import FoundationEssentials
import Glibc
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

/// The options of a command line, beside a configuration file.
@Suite("options and configuration") struct OptionPrecedenceTests {
    private let scratch = ScratchFolder()

    private func machine(_ configuration: String = "") throws -> LocalMachine {
        let folder = scratch("config/nearshare")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(configuration.utf8).write(to: URL(filePath: "\(folder)/config.toml"))
        return try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
    }

    private func parse<Command>(_ line: String, as type: Command.Type = Command.self) throws -> Command {
        try #require(try NearshareCommand.parseAsRoot(line.split(separator: " ").map(String.init)) as? Command)
    }

    @Test func `the size limits of the command line come before those of the configuration`() throws {
        let machine = try machine("max-size = \"1 GB\"\nmax-per-peer = 100")
        let plain: ReceiveCommand = try parse("receive")
        #expect(plain.receiving.makeLimits(for: machine).maximumSize == 1_000_000_000)
        let given: ReceiveCommand = try parse("receive --max-size 5MB --max-per-peer 10")
        #expect(given.receiving.makeLimits(for: machine).maximumSize == 5_000_000)
        let peer = try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32)))
        #expect(plain.receiving.makeQuota(for: machine).reserve(50, for: peer) == .reserved)
        #expect(given.receiving.makeQuota(for: machine).reserve(50, for: peer) == .exceeds(limit: 10, used: 0))
        #expect(try parse("receive", as: ReceiveCommand.self).receiving.makeLimits(for: try self.machine()).maximumSize == nil)
    }

    @Test func `executable bits are kept by the option or the configuration only`() throws {
        let plain: ReceiveCommand = try parse("receive")
        let given: ReceiveCommand = try parse("receive --keep-executable")
        #expect(try !plain.receiving.makeLimits(for: machine()).keepsExecutable)
        #expect(try given.receiving.makeLimits(for: machine()).keepsExecutable)
        #expect(try plain.receiving.makeLimits(for: machine("keep-executable = true")).keepsExecutable)
    }

    @Test func `all receiving options reach the node`() throws {
        let run: MeshRunCommand = try parse(
            "mesh run --inbox /in --name anna --accept none --max-size 7 --max-per-peer 8 --keep-executable --port 9 --interface eth0 "
                + "--adapter none"
        )
        let options = run.receiving.nodeOptions(log: run.global.logger)
        #expect(options.inbox == "/in" && options.name?.claimed == "anna" && options.accept == Configuration.Accept.none)
        #expect(options.maximumSize == 7 && options.maximumPerPeer == 8 && options.port == 9 && options.interface == "eth0")
        #expect(options.radio == nil && options.keepsExecutable)
        guard case .standing = options.purpose else {
            Issue.record("the node of `mesh run` serves one command only")
            return
        }
    }

    @Test func `addresses alone need neither discovery nor, over lan, a radio`() throws {
        let machine = try machine()
        let send: SendCommand = try parse("send a --to 10.0.0.1:4000 --via lan --interface eth7")
        let settings = try send.transport.nodeSettings(machine, for: send.peers, log: send.global.logger)
        #expect(settings.discovery == nil && settings.radio == nil && settings.interface == "eth7")
    }

    @Test func `the interface of the configuration counts without an option`() throws {
        let machine = try machine("interface = \"wlan3\"\nname = \"attic\"")
        let send: SendCommand = try parse("send a --to 10.0.0.1:4000 --adapter none")
        let settings = try send.transport.nodeSettings(machine, for: send.peers, log: send.global.logger)
        #expect(settings.interface == "wlan3" && settings.name.claimed == "attic" && settings.radio == nil)
    }

    @Test(
        "a clock value is seconds, minutes or hours",
        arguments: [
            ("6", 6_000), ("0.1", 100), ("1:30", 90_000), ("0:59.5", 59_500), ("1:00:00", 3_600_000), ("24:00:00", 86_400_000),
        ] as [(String, Int64)])
    func clocks(text: String, milliseconds: Int64) {
        #expect(ClockArgument(argument: text)?.duration == .milliseconds(milliseconds))
    }

    @Test(
        "anything else is no clock value",
        arguments: ["", ":", "1:", "1:60", "1:2:3:4", "-1", "0", "24:00:01", "1e9", "nan", "inf", "a", "1:-5", "70000:00"])
    func invalidClocks(text: String) {
        #expect(ClockArgument(argument: text) == nil)
    }
}

@Suite("paths on the chat screen") struct PathCompletionTests {
    private let scratch = ScratchFolder()

    private func completion() throws -> PathCompletion {
        for folder in ["photos", "photos/old", ".hidden"] {
            try FileManager.default.createDirectory(atPath: scratch(folder), withIntermediateDirectories: true)
        }
        for file in ["photo.jpg", "photos/a.png", "photos/b\u{1b}.png", "notes.txt", ".profile"] {
            try Data("x".utf8).write(to: URL(filePath: scratch(file)))
        }
        return PathCompletion(home: scratch.path)
    }

    @Test func `names with the typed beginning are offered, folders with a slash`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: scratch("pho")) == [scratch("photo.jpg"), scratch("photos/")])
        #expect(completion.paths(beginningWith: scratch("x")).isEmpty)
        #expect(completion.paths(beginningWith: scratch("nowhere/")).isEmpty)
    }

    @Test func `a link to a directory is offered with a slash, as the directory itself`() throws {
        let completion = try completion()
        try FileManager.default.createSymbolicLink(atPath: scratch("pictures"), withDestinationPath: scratch("photos"))
        try FileManager.default.createSymbolicLink(atPath: scratch("picture"), withDestinationPath: scratch("photo.jpg"))
        #expect(completion.paths(beginningWith: scratch("pic")) == [scratch("picture"), scratch("pictures/")])
    }

    @Test("P11: a name that is no UTF-8 is not offered: its repaired form names no file")
    func invalidName() throws {
        let completion = try completion()
        let path = Array(scratch("pho").utf8CString.dropLast()) + [CChar(bitPattern: 0xff), 0]
        let descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        try #require(descriptor >= 0)
        close(descriptor)
        #expect(completion.paths(beginningWith: scratch("pho")) == [scratch("photo.jpg"), scratch("photos/")])
    }

    @Test("T1: names that need escaping are not offered")
    func escaping() throws {
        #expect(try completion().paths(beginningWith: scratch("photos/")) == [scratch("photos/a.png"), scratch("photos/old/")])
    }

    @Test func `hidden names are offered after a dot only`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: "~/").allSatisfy { !$0.hasPrefix("~/.") })
        let hidden = completion.paths(beginningWith: "~/.")
        #expect(hidden.contains("~/.hidden/") && hidden.contains("~/.profile"))
    }

    @Test func `a tilde is the home directory, at the beginning only`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: "~/no") == ["~/notes.txt"])
        guard case .success(let path) = completion.resolve("~/photos/../notes.txt") else {
            Issue.record("the path was not resolved")
            return
        }
        #expect(path.hasSuffix("/notes.txt") && !path.contains("..") && path.hasPrefix("/"))
        guard case .failure(let failure) = completion.resolve(scratch("~/notes.txt")) else {
            Issue.record("a tilde in the middle was replaced")
            return
        }
        #expect(failure.kind == .storage && failure.description == "no such file or directory; Tab completes names")
        guard case .failure(let other) = completion.resolve(scratch("notes.txt/x")) else {
            Issue.record("a file has no entries")
            return
        }
        #expect(other.description == "not a directory")
    }
}

@Suite("lines of a piped conversation") struct DeliveryModelTests {
    private static let peer = PeerID(hex: "1a2b3c4d5e6f7081")!

    @Test("in whatever order replies and states arrive, each line is counted once", arguments: 1...40 as ClosedRange<UInt64>)
    func anyOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let goal = [MessageStatus.sent, .delivered, .read].randomElement(using: &random) ?? .sent
        let count = Int.random(in: 1...12, using: &random)
        let finals = (0..<count).map { _ in
            [MessageStatus.sent, .delivered, .read, .failed].randomElement(using: &random) ?? .sent
        }
        enum Step {
            case accepted(Int)
            case changed(Int, MessageStatus)
        }
        var steps: [Step] = []
        for (line, final) in finals.enumerated() {
            steps.append(.accepted(line))
            // States may be lost and repeated; the last one arrives.
            for status in [MessageStatus.sent, .delivered] where status < final && random.once(in: 2) {
                steps.append(.changed(line, status))
            }
            steps.append(.changed(line, final))
        }
        steps.shuffle(using: &random)
        // The node ends a line with its final state, also after others that overtook each other.
        steps += finals.enumerated().map { .changed($0, $1) }
        var tracker = DeliveryTracker(.peer(Self.peer), requiredStatus: goal)
        for step in steps {
            switch step {
            case .accepted(let line): tracker.recordAcceptance(of: "\(line)")
            case .changed(let line, let status):
                tracker.handle(.chatMessageChanged(id: "\(line)", conversation: .peer(Self.peer), status: status, reason: nil))
            }
        }
        tracker.recordEndOfInput()
        #expect(tracker.reachedCount + tracker.failures.count + tracker.pending.count == count, "seed \(seed)")
        let reached = finals.filter { $0 != .failed && $0 >= goal }.count
        #expect(tracker.reachedCount >= reached, "seed \(seed)")
        #expect(tracker.pending.values.allSatisfy { $0 < goal }, "seed \(seed)")
        #expect(tracker.isDone == tracker.pending.isEmpty, "seed \(seed)")
    }
}
