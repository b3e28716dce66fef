import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of chat and messages") struct ConversationParsingTests {
    @Test func `the options of chat are parsed`() throws {
        let chat: ChatCommand = try parse(
            words("chat anna --wait delivered --timeout 3 --follow --history 20 --json --quiet"))
        #expect(chat.peer == "anna" && chat.wait == .delivered && chat.history == 20)
        #expect(chat.follow && chat.json && chat.quiet && !chat.isPublic)
        let room: ChatCommand = try parse(words("chat --public"))
        #expect(room.isPublic && room.peer == nil)
        let unawaited: ChatCommand = try parse(words("chat anna --wait none"))
        #expect(unawaited.wait == .submitted)
        let latest: ChatCommand = try parse(["chat"])
        #expect(!latest.isPublic && latest.peer == nil)
    }

    @Test(
        arguments: [
            ("chat --public anna", "either a peer or --public"), ("chat --json", "--json needs a peer"),
            ("chat anna --history 501", "0 to 500"), ("chat anna --history -1", "history"), ("chat anna --wait read", "read"),
        ])
    func `invalid arguments of chat are rejected with a message that names them`(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test func `the options of message are parsed`() throws {
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
    func `invalid arguments of message are rejected with a message that names them`(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(part.isEmpty || message.contains(part), "\(message)")
    }

    @Test("an empty text is an error")
    func emptyMessage() {
        #expect(usageError(["message", "", "--to", "anna"]) != nil)
    }

    @Test func `the options of messages are parsed`() throws {
        let messages: MessagesCommand = try parse(words("messages --follow --after 17 --json"))
        #expect(messages.follow && messages.after == 17 && messages.output.json)
        #expect(usageError(words("messages --after x")) != nil)
    }

    @Test func `the subcommands of mesh are parsed`() throws {
        let run: MeshRunCommand = try parse(words("mesh run --profile long-reach --accept all --json"))
        #expect(run.profile == "long-reach" && run.receiving.accept == .all && run.output.json)
        let status: MeshStatusCommand = try parse(words("mesh status --json"))
        #expect(status.output.json)
        _ = try parse(words("mesh stop"), as: MeshStopCommand.self)
        #expect(usageError(words("mesh jump")) != nil)
    }
}
