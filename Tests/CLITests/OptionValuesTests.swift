import ArgumentParser
import Testing

@testable import NearshareCLI

@Suite struct OptionValuesTests {
    @Test(
        "a negative number behind an option that expects a value is its value",
        arguments: [
            ("send a --retry -1 --to anna", "send a --retry=-1 --to anna"), ("history --limit -3", "history --limit=-3"),
            ("voice --bitrate -1 --duration -1.5", "voice --bitrate=-1 --duration=-1.5"),
            ("mesh trace --limit -3 --json -1", "mesh trace --limit -3 --json -1"),
            ("receive --once -1 --exec head --lines -3", "receive --once -1 --exec head --lines -3"),
            ("send --retry -1 -- --retry -1", "send --retry=-1 -- --retry -1"),
        ])
    func joined(_ line: String, _ expected: String) {
        #expect(OptionValues.joinNegative(in: words(line)) == words(expected))
    }

    @Test(
        "other words stay as they are",
        arguments: ["", "-1", "send --retry -json", "send --retry=-1", "send -n -1", "send a -- -1", "send --to anna -1"])
    func untouched(_ line: String) {
        #expect(OptionValues.joinNegative(in: words(line)) == nil)
    }

    @Test("a negative value has the message of its option", arguments: ["history --limit", "send a --to anna --retry"])
    func message(_ line: String) {
        for command in [words("\(line) -3"), words("\(line)=-3")] {
            let error = #expect(throws: (any Error).self) {
                _ = try NearshareCommand.parseAsRoot(OptionValues.joinNegative(in: command) ?? command)
            }
            let message = error.map { NearshareCommand.message(for: $0) } ?? ""
            #expect(!message.contains("Missing value") && !message.isEmpty, "\(message)")
        }
    }
}
