import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

/// The command that a command line means.
private func parse<Command: ParsableCommand>(_ line: [String], as type: Command.Type = Command.self) throws -> Command {
    let command = try NearshareCommand.parseAsRoot(line)
    return try #require(command as? Command, "\(line) is parsed as \(Swift.type(of: command))")
}

/// The usage error of a command line.
private func usageError(_ line: [String]) -> String? {
    do {
        _ = try NearshareCommand.parseAsRoot(line)
        return nil
    } catch {
        guard NearshareCommand.exitCode(for: error) == .validationFailure else { return nil }
        return NearshareCommand.message(for: error)
    }
}

private func words(_ line: String) -> [String] { line.split(separator: " ").map(String.init) }

@Suite("command lines of send") struct SendParsingTests {
    @Test("files, receivers and options")
    func options() throws {
        let send: SendCommand = try parse(
            words("send a b/ --to anna --to ben --links --keep-modes --timeout 2.5 --no-resume --quiet --json"))
        #expect(send.files == ["a", "b/"])
        #expect(send.peers == ["anna", "ben"])
        #expect(send.links && send.keepModes && send.noResume && send.quiet && send.json)
        #expect(send.timeout?.duration == .milliseconds(2500))
    }

    @Test("defaults: no receiver, no special treatment")
    func defaults() throws {
        let send: SendCommand = try parse(["send", "a"])
        #expect(send.peers.isEmpty && send.text == nil && send.timeout == nil && send.transport.via == nil)
        #expect(!send.links && !send.keepModes && !send.noResume && !send.quiet && !send.json)
    }

    @Test("a repeated receiver is one receiver")
    func unique() throws {
        let send: SendCommand = try parse(words("send a --to anna --to Anna --to anna"))
        #expect(send.peers == ["anna"])
    }

    @Test("standard input has a name and needs a receiver")
    func standardInput() throws {
        let send: SendCommand = try parse(words("send - --as src.tar --to anna"))
        #expect(send.sentName == "src.tar" && send.files == ["-"])
    }

    @Test("text replaces files")
    func text() throws {
        let send: SendCommand = try parse(["send", "--text", "see you at 8", "--to", "anna"])
        #expect(send.text == "see you at 8" && send.files.isEmpty)
    }

    @Test("the transport fits the receivers", arguments: [("lan", Transport.lan), ("mesh", .mesh)])
    func transports(_ text: String, _ transport: Transport) throws {
        let send: SendCommand = try parse(["send", "a", "--to", "anna", "--via", text])
        #expect(send.transport.via == transport)
    }

    @Test("addresses are receivers", arguments: ["192.168.1.20:4000", "[fe80::1%eth0]:4000", "anna.local:1"])
    func addresses(_ address: String) throws {
        let send: SendCommand = try parse(["send", "a", "--to", address])
        #expect(send.peers == [address])
    }

    @Test(
        "an address without a port gets the default one",
        arguments: [("10.0.0.1", "10.0.0.1:29742"), ("::1", "[::1]:29742"), ("fe80::1%eth0", "[fe80::1%eth0]:29742")])
    func defaultPort(_ address: String, _ expected: String) throws {
        let send: SendCommand = try parse(["send", "a", "--to", address])
        #expect(send.peers == [expected])
    }

    @Test(
        "invalid combinations",
        arguments: [
            ("send", "nothing to send"), ("send a --text x --to anna", "either files or --text"),
            ("send - b --to anna", "standard input"), ("send a --as x --to anna", "--as"), ("send -", "--to is needed"),
            ("send a --via mesh", "--to"), ("send a --to 10.0.0.1:5 --via mesh", "is an address"),
            ("send a --timeout 0", "0.1 to 600"), ("send a --timeout 601", "0.1 to 600"), ("send a --timeout x", "0.1 to 600"),
            ("send a --via train", "train"), ("send a --unknown", "unknown"),
        ])
    func invalid(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test("an empty receiver is an error, most often an unset variable", arguments: ["", " ", "\t"])
    func emptyReceiver(_ peer: String) {
        #expect(usageError(["send", "a", "--to", peer]) != nil)
    }
}

@Suite("command lines of receive") struct ReceiveParsingTests {
    @Test("all options")
    func options() throws {
        let receive: ReceiveCommand = try parse(
            words(
                "receive --inbox /tmp/in --name anna --accept friends --max-size 500MB --max-per-peer 2GiB --port 4000 --once"))
        #expect(receive.receiving.inbox == "/tmp/in")
        #expect(receive.receiving.name?.name.claimed == "anna")
        #expect(receive.receiving.accept == .friends)
        #expect(receive.receiving.maxSize?.bytes == 500_000_000)
        #expect(receive.receiving.maxPerPeer?.bytes == 2 << 30)
        #expect(receive.receiving.port == 4000)
        #expect(receive.once && !receive.json && !receive.stdout)
    }

    @Test("every policy", arguments: ["ask", "friends", "all", "none"])
    func policies(_ policy: String) throws {
        let receive: ReceiveCommand = try parse(["receive", "--accept", policy])
        #expect(receive.receiving.accept?.rawValue == policy)
    }

    @Test(
        "invalid combinations and values",
        arguments: [
            "receive --stdout --json", "receive --stdout --inbox /tmp", "receive --accept some", "receive --max-size many",
            "receive --max-size -1", "receive --port 70000", "receive --port x", "receive extra",
        ])
    func invalid(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }

    @Test("a name is visible, and short enough", arguments: ["", " ", "a\nb", "\u{1b}[31m", String(repeating: "x", count: 64)])
    func invalidNames(_ name: String) {
        #expect(usageError(["receive", "--name", name]) != nil)
    }
}

@Suite("command lines of browse, inbox and doctor") struct InspectionParsingTests {
    @Test func browse() throws {
        let browse: BrowseCommand = try parse(words("browse --watch --timeout 5 --via lan --interface eth0 --json"))
        #expect(browse.watch && browse.json)
        #expect(browse.timeout?.duration == .seconds(5))
        #expect(browse.via == .lan)
        #expect(browse.interface == "eth0")
    }

    @Test func inbox() throws {
        let inbox: InboxListCommand = try parse(words("inbox --inbox /tmp/in --json"))
        #expect(inbox.inbox == "/tmp/in" && inbox.json)
    }

    @Test func doctor() throws {
        let doctor: DoctorCommand = try parse(words("doctor --inbox /tmp/in --adapter none --json"))
        #expect(doctor.inbox == "/tmp/in" && doctor.json && doctor.bluetooth.isOff)
    }

    @Test(arguments: [
        "browse --via mesh", "browse --timeout 0.01", "browse anna", "inbox x", "inbox rm", "inbox clean x",
        "history --limit 0", "history --sent --received", "doctor x",
        "browse --via bluetooth --adapter none",
    ])
    func invalid(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }
}

@Suite("command lines of chat and messages") struct ConversationParsingTests {
    @Test func chat() throws {
        let chat: ChatCommand = try parse(
            words("chat anna --wait delivered --timeout 3 --follow --history 20 --json --quiet"))
        #expect(chat.peer == "anna" && chat.wait == .delivered && chat.history == 20)
        #expect(chat.follow && chat.json && chat.quiet && !chat.isPublic)
        let room: ChatCommand = try parse(words("chat --public"))
        #expect(room.isPublic && room.peer == nil)
        let latest: ChatCommand = try parse(["chat"])
        #expect(!latest.isPublic && latest.peer == nil)
    }

    @Test(
        arguments: [
            ("chat --public anna", "either a peer or --public"), ("chat --json", "--json needs a peer"),
            ("chat anna --history 501", "0 to 500"), ("chat anna --history -1", "history"), ("chat anna --wait read", "read"),
        ])
    func invalidChat(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test func message() throws {
        let message: MessageCommand = try parse(["message", "see you", "--to", "anna", "--mode", "mesh", "--private"])
        #expect(message.text == "see you" && message.peer == "anna" && message.mode == .mesh && message.isPrivate)
        let value: MessageCommand = try parse(["message", "--json", "{}", "--broadcast", "--wait", "none"])
        #expect(value.json == "{}" && value.broadcast && value.wait == MessageOperation.Goal.submitted)
        let file: MessageCommand = try parse(["message", "hi", "--to", "anna", "--mode", "direct", "--file", "a.jpg"])
        #expect(file.file == "a.jpg")
    }

    @Test(
        arguments: [
            ("message", "nothing to send"), ("message hi --json {} --to anna", "either a text or --json"),
            ("message hi", ""), ("message hi --broadcast --to anna", ""), ("message hi --broadcast --mode mesh", "--broadcast"),
            ("message hi --to anna --private --unencrypted", ""), ("message hi --to anna --file a.jpg", "--mode direct"),
            ("message hi --to anna --wait never", "never"), ("message hi --to anna --mode slow", "slow"),
        ])
    func invalidMessage(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(part.isEmpty || message.contains(part), "\(message)")
    }

    @Test("an empty text is an error")
    func emptyMessage() {
        #expect(usageError(["message", "", "--to", "anna"]) != nil)
    }

    @Test func messages() throws {
        let messages: MessagesCommand = try parse(words("messages --follow --after 17 --json"))
        #expect(messages.follow && messages.after == 17 && messages.json)
        #expect(usageError(words("messages --after x")) != nil)
    }

    @Test func mesh() throws {
        let run: MeshRunCommand = try parse(words("mesh run --profile long-reach --accept all --json"))
        #expect(run.profile == "long-reach" && run.receiving.accept == .all && run.json)
        let status: MeshStatusCommand = try parse(words("mesh status --json"))
        #expect(status.json)
        _ = try parse(words("mesh stop"), as: MeshStopCommand.self)
        #expect(usageError(words("mesh jump")) != nil)
    }
}

@Suite("command lines of friends, peers, keys and identity") struct PeerParsingTests {
    @Test("the subcommand list is the default")
    func defaults() throws {
        _ = try parse(["friends"], as: FriendsListCommand.self)
        _ = try parse(["peers"], as: PeersListCommand.self)
        _ = try parse(["keys"], as: KeysListCommand.self)
        _ = try parse(["identity"], as: IdentityShowCommand.self)
    }

    @Test func friends() throws {
        let add: FriendsAddCommand = try parse(words("friends add anna --unverified --interface eth0 --adapter hci1"))
        #expect(add.peer == "anna" && add.unverified && add.interface == "eth0" && add.bluetooth.adapter == "hci1")
        let remove: FriendsRemoveCommand = try parse(words("friends remove anna"))
        #expect(remove.peer == "anna")
        #expect(try parse(words("friends list --json"), as: FriendsListCommand.self).json)
    }

    @Test func peers() throws {
        #expect(try parse(words("peers verify anna"), as: PeersVerifyCommand.self).peer == "anna")
        let rename: PeersRenameCommand = try parse(["peers", "rename", "anna", "Anna B."])
        #expect(rename.peerArgument.peer == "anna" && rename.name?.name.claimed == "Anna B.")
        #expect(try parse(words("peers rename anna"), as: PeersRenameCommand.self).name == nil)
        #expect(try parse(words("peers block anna"), as: PeersBlockCommand.self).peerArgument.peer == "anna")
        #expect(try parse(words("peers unblock anna"), as: PeersUnblockCommand.self).peerArgument.peer == "anna")
        #expect(try parse(words("peers forget anna"), as: PeersForgetCommand.self).peerArgument.peer == "anna")
    }

    @Test func keys() throws {
        #expect(try parse(words("keys export --output a.keys"), as: KeysExportCommand.self).output == "a.keys")
        let imported: KeysImportCommand = try parse(words("keys import a.keys --for anna"))
        #expect(imported.file == "a.keys" && imported.owner == "anna")
        #expect(try parse(words("keys forget anna"), as: KeysForgetCommand.self).peer == "anna")
    }

    @Test func identity() throws {
        #expect(try parse(words("identity show --json"), as: IdentityShowCommand.self).json)
        #expect(try parse(words("identity rename anna"), as: IdentityRenameCommand.self).name.name.claimed == "anna")
        #expect(try parse(words("identity destroy --yes"), as: IdentityDestroyCommand.self).yes)
    }

    @Test(
        "arguments are required, and nothing else is accepted",
        arguments: [
            "friends add", "friends remove", "friends add a b", "peers verify", "peers block", "peers rename", "keys import",
            "keys import a.keys", "keys forget", "identity rename", "identity destroy now", "peers list anna", "keys export a",
        ])
    func invalid(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }

    @Test(
        "an empty peer is an error",
        arguments: [["friends", "add"], ["peers", "verify"], ["peers", "forget"], ["keys", "forget"]])
    func empty(_ line: [String]) {
        #expect(usageError(line + [" "]) != nil)
    }
}

@Suite("command lines of voice") struct VoiceParsingTests {
    @Test("record is the default subcommand")
    func record() throws {
        let record: VoiceRecordCommand = try parse(
            words("voice --to anna -o a.opus --duration 1:30 --bitrate 32 --rate 48000 --no-trim --limit 5MiB --yes --via mesh")
        )
        #expect(record.peers == ["anna"] && record.output == "a.opus" && record.yes && record.noTrim)
        #expect(record.duration?.duration == .seconds(90))
        #expect(record.bitrate?.bitsPerSecond == 32_000)
        #expect(record.rate == 48_000)
        #expect(record.limit?.bytes == 5 << 20)
        #expect(record.transport.via == .mesh)
        #expect(try parse(words("voice record"), as: VoiceRecordCommand.self).peers.isEmpty)
    }

    @Test("input files, with or without a header")
    func input() throws {
        let file: VoiceRecordCommand = try parse(words("voice --input memo.flac --to anna"))
        #expect(file.input == "memo.flac" && !file.raw)
        let raw: VoiceRecordCommand = try parse(words("voice --input - --raw --rate 8000"))
        #expect(raw.input == "-" && raw.raw && raw.rate == 8000)
    }

    @Test func others() throws {
        let play: VoicePlayCommand = try parse(words("voice play 3a6a21 --device alsa:hw0"))
        #expect(play.note == "3a6a21" && play.device == "alsa:hw0")
        #expect(try parse(words("voice show a.opus --json"), as: VoiceShowCommand.self).json)
        #expect(try parse(words("voice list --json"), as: VoiceListCommand.self).json)
    }

    @Test(
        arguments: [
            ("voice --via mesh", "--to"), ("voice --raw", "--input"), ("voice --input a.wav --device hw0", "--device"),
            ("voice --input a.wav --rate 48000", "--rate"), ("voice --rate 100", "8000 to 192000"),
            ("voice -o -", "pipe"), ("voice --limit 1KB", "16KiB"), ("voice --bitrate 5", "bitrate"),
            ("voice --duration 1:75", "duration"), ("voice --to 10.0.0.1:5 --via mesh", "is an address"),
        ])
    func invalid(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test(arguments: ["voice play", "voice show", "voice play a b", "voice list a"])
    func missing(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }
}

@Suite("option values") struct OptionValueTests {
    @Test(arguments: [("500MB", 500_000_000), ("2GiB", 2 << 30), ("17", 17), ("0", 0)] as [(String, UInt64)])
    func sizes(_ text: String, _ bytes: UInt64) {
        #expect(SizeArgument(argument: text)?.bytes == bytes)
    }

    @Test(arguments: ["", "MB", "-1", "1.2.3", "10 parsecs"])
    func invalidSizes(_ text: String) {
        #expect(SizeArgument(argument: text) == nil)
    }

    @Test(arguments: [("0.1", 100), ("600", 600_000), ("2.25", 2250)] as [(String, Int64)])
    func timeouts(_ text: String, _ milliseconds: Int64) {
        #expect((try? TimeoutArgument(parsing: text))?.duration == .milliseconds(milliseconds))
    }

    @Test(arguments: ["", "0", "0.05", "600.1", "nan", "inf", "-5", "ten"])
    func invalidTimeouts(_ text: String) {
        #expect((try? TimeoutArgument(parsing: text)) == nil)
    }

    @Test(arguments: [("6", 6000), ("24", 24_000), ("25.5", 25_500), ("256", 256_000)])
    func bitrates(_ text: String, _ bitsPerSecond: Int) {
        #expect(BitrateArgument(argument: text)?.bitsPerSecond == bitsPerSecond)
    }

    @Test(arguments: ["", "5.9", "257", "-24", "nan", "inf", "fast"])
    func invalidBitrates(_ text: String) {
        #expect(BitrateArgument(argument: text) == nil)
    }

    @Test("names keep what is visible", arguments: ["anna", "Ann-Kathrin Ü.", "漢字", "👩‍🔬 lab"])
    func names(_ name: String) {
        #expect(NameArgument(argument: name)?.name.claimed == name)
    }

    @Test(
        "T4: a name with nothing visible, or with a line break, is rejected",
        arguments: ["", " ", "\u{200B}", "\u{2060} ", "a\nb"])
    func invalidNames(_ name: String) {
        #expect(NameArgument(argument: name) == nil)
    }

    @Test("verbosity and log level choose the logger's level")
    func logLevels() throws {
        let cases: [(String, String)] = [
            ("send a", "warning"), ("send a -v", "info"), ("send a -v -v", "debug"), ("send a -vvv", "trace"),
            ("send a --log-level info", "info"), ("send a --log-level warning", "warning"),
            ("send a -vvv --log-level error", "error"),
        ]
        for (line, level) in cases {
            let send: SendCommand = try parse(words(line))
            #expect("\(send.global.logger.logLevel)" == level, "\(line)")
        }
        #expect(usageError(words("send a --log-level loud")) != nil)
    }

    @Test("T8: a peer is offered to a shell by its id where its name is more than a plain word")
    func completion() throws {
        let id = try #require(PeerID(hex: "0123456789abcdef"))
        for plain in ["anna", "Änne-2.home", "安娜", "a_b"] {
            #expect(PeerArgument.completion(try DisplayName(plain), id) == plain)
        }
        let names = [
            "x$(touch pwned)", "x`id`", "a b", "a;b", "a|b", "a&b", "a>b", "~root", "a*", "a?b", "!1", "'", "\"", "c\\d", "-v",
            "b\u{1b}[31men", "{a,b}", "a#b", "#", "$HOME", "=ls", "a:b", "e\u{301}",
        ]
        for name in names { #expect(PeerArgument.completion(try DisplayName(name), id) == id.hex, "\(name.debugDescription)") }
    }
}

@Suite("help") struct HelpTests {
    /// All commands, by their full names.
    private static let commands: [(name: String, type: any ParsableCommand.Type)] = collect(NearshareCommand.self, prefix: "")

    private static func collect(_ type: any ParsableCommand.Type, prefix: String) -> [(String, any ParsableCommand.Type)] {
        let name = prefix + (type.configuration.commandName ?? "?")
        return [(name, type)] + type.configuration.subcommands.flatMap { collect($0, prefix: name + " ") }
    }

    @Test("every command has an abstract that ends like a sentence")
    func abstracts() {
        #expect(Self.commands.count > 30)
        for (name, type) in Self.commands {
            let abstract = type.configuration.abstract
            #expect(abstract.hasSuffix("."), "\(name): \(abstract)")
            #expect(abstract.count <= 90, "\(name): \(abstract)")
        }
    }

    @Test("help uses the terms of the field")
    func language() {
        let avoided = ["somebody", "nobody", "whoever", " whom ", "everybody", "so long", "so many", "can't", "the way "]
        for (name, type) in Self.commands {
            let help = type.helpMessage(columns: 200)
            for word in avoided where help.lowercased().contains(word) { Issue.record("\(name): \"\(word)\" in\n\(help)") }
        }
    }

    @Test("every command shows its usage")
    func usage() {
        for (name, type) in Self.commands where name != "nearshare" {
            #expect(type.helpMessage(columns: 200).contains("USAGE: "), "\(name)")
        }
    }

    @Test("an unknown command is a usage error, which suggests nothing harmful", arguments: ["fly", "sent", "--fly"])
    func unknown(_ word: String) {
        #expect(usageError([word]) != nil)
    }
}
