import NearshareService
import Testing

@testable import NearshareCLI

@Suite("the two forms of a command's output") struct CommandReporterTests {
    private struct Failure: Error {}

    @Test func `programs get the events, and no text is written`() {
        let lines = EmittedLines()
        var textCount = 0
        lines.reporter.emit("page", ["url": .string("a")]) { textCount += 1 }
        lines.reporter.emit("note", for: [Int64(1), 2], members: { ["number": .integer($0)] }, text: { textCount += 1 })
        lines.reporter.writeText { textCount += 1 }
        lines.reporter.writeList(
            ["b"], event: "peer", ifEmpty: "none", members: { ["name": .string($0)] },
            row: { name in
                textCount += 1
                return [name]
            })
        #expect(
            lines.all == [
                #"{"event":"page","url":"a"}"#, #"{"event":"note","number":1}"#, #"{"event":"note","number":2}"#,
                #"{"event":"peer","name":"b"}"#,
            ])
        #expect(textCount == 0)
    }

    @Test func `users get the text with its failure, and no event is made`() {
        let reporter: any CommandReporter = TextReporter()
        var (eventCount, textCount) = (0, 0)
        func members() -> [String: JSONValue] {
            eventCount += 1
            return [:]
        }
        reporter.emit("page", members()) { textCount += 1 }
        reporter.writeText { textCount += 1 }
        #expect(eventCount == 0 && textCount == 2)
        #expect(throws: Failure.self) { try reporter.emit("page", [:]) { throw Failure() } }
    }

    @Test func `with --quiet there is neither, but --json takes precedence`() {
        var textCount = 0
        let reporter = OutputOptions.makeReporter(json: false, isQuiet: true)
        reporter.emit("page", [:]) { textCount += 1 }
        reporter.writeText { textCount += 1 }
        #expect(reporter is SilentReporter && textCount == 0)
        #expect(OutputOptions.makeReporter(json: true, isQuiet: true) is JSONReporter)
        #expect(OutputOptions.makeReporter(json: false) is TextReporter)
    }
}
