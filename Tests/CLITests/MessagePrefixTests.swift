import ArgumentParser
import Logging
import Testing

@testable import NearshareCLI

@Suite struct MessagePrefixTests {
    @Test(
        "messages of the parser begin like all others",
        arguments: ["--verbose", "send", "send a.txt --to", "receive --fly", "receive --accept strangers"])
    func parser(_ line: String) {
        do {
            _ = try NearshareCommand.parseAsRoot(words(line))
            Issue.record("\(line) is parsed")
        } catch {
            let text = NearshareCommand.fullMessage(for: error)
            #expect(text.hasPrefix(Console.messagePrefix) && !text.contains("Error"), "\(text)")
        }
    }

    @Test func `logged warnings and errors begin like those that are not logged`() {
        #expect(ConsoleLogHandler.line("the store is full", level: .error) == "the store is full")
        #expect(ConsoleLogHandler.line("a link was dropped\u{1b}", level: .warning) == "a link was dropped\\u{1b}")
        #expect(ConsoleLogHandler.line("a link was opened", level: .debug) == "debug: a link was opened")
    }
}
