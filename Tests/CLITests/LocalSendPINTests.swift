import FoundationEssentials
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("the PIN for LocalSend devices, from a file") struct LocalSendPINTests {
    private let scratch = ScratchFolder()

    private func pin(_ content: [UInt8]) throws -> String {
        let path = scratch("pin")
        try Data(content).write(to: URL(filePath: path))
        return try LocalSendPIN.read(path: path)
    }

    @Test func `the first line is the PIN, with either end of line or none`() throws {
        for content in ["1234", "1234\n", "1234\r\n", "1234\nsecond\n"] {
            let read = try pin(Array(content.utf8))
            #expect(read == "1234")
        }
        let signs = try pin(Array("a-1!~".utf8))
        #expect(signs == "a-1!~")
        let longest = String(repeating: "x", count: 64)
        for end in ["", "\n", "\r\n"] {
            let read = try pin(Array("\(longest)\(end)".utf8))
            #expect(read == longest)
        }
    }

    @Test func `a file without a PIN that can be typed is a mistake of the command line`() throws {
        let invalid: [[UInt8]] = [
            [], [10], Array("12 34".utf8), Array("pin\u{e9}".utf8), [0xff, 0x31],
            [UInt8](repeating: 0x31, count: 65), [UInt8](repeating: 0x31, count: 10_000),
        ]
        for content in invalid {
            let failure = #expect(throws: CommandFailure.self, "\(content.prefix(8))") { _ = try pin(content) }
            #expect(failure?.status == .usage)
            #expect(failure?.message.contains(scratch("pin")) == true)
        }
    }

    @Test func `the PIN of a file is given once, and the advice fits the options of the command`() async throws {
        _ = try pin(Array("1234".utf8))
        let prompt = try PINPrompt.make(file: scratch("pin"), isQuiet: true)
        #expect(await prompt.ask("anna", false) == "1234")
        #expect(await prompt.ask("anna", true) == nil)
        #expect(prompt.advice == "The PIN in \(scratch("pin")) is wrong")
        let none = try PINPrompt.make(file: nil, isQuiet: true)
        #expect(await none.ask("anna", false) == nil)
        #expect(none.advice == "Give it with --pin-file")
        #expect(PINPrompt.onTerminal(isQuiet: true) == nil)
    }

    @Test func `a missing file is a failure that names it`() {
        let failure = #expect(throws: CommandFailure.self) { _ = try LocalSendPIN.read(path: scratch("none")) }
        #expect(failure?.status == .failure && failure?.message.contains(scratch("none")) == true)
    }
}
