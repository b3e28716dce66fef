import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("inputs with a limit")
struct InputReaderTests {
    private func pipe() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        try #require(Glibc.pipe(&ends) == 0)
        return (ends[0], ends[1])
    }

    /// Whether bytes in the pipe wait to be read.
    private func hasInput(_ descriptor: Int32) -> Bool {
        var count: Int32 = 0
        return ioctl(descriptor, UInt(FIONREAD), &count) == 0 && count > 0
    }

    @Test("an input is read up to the limit, and what is left by the next read")
    func limit() throws {
        let ends = try pipe()
        defer { close(ends.reading) }
        #expect(write(ends.writing, "onetwo", 6) == 6)
        close(ends.writing)
        #expect(try InputReader.read(ends.reading, upTo: 4) == Array("onet".utf8))
        #expect(try InputReader.read(ends.reading, upTo: 100) == Array("wo".utf8))
    }

    @Test("an input that arrives in parts is read to its end, also from a non-blocking pipe", arguments: [false, true])
    func parts(isNonBlocking: Bool) async throws {
        let ends = try pipe()
        defer { close(ends.reading) }
        if isNonBlocking { #expect(fcntl(ends.reading, F_SETFL, O_NONBLOCK) == 0) }
        let writer = try BlockingThread.start {
            for part in ["one", "two"] {
                _ = write(ends.writing, part, part.utf8.count)
                // The next part follows when this one has been read.
                while hasInput(ends.reading) { sched_yield() }
            }
            close(ends.writing)
        }
        let content = try await BlockingThread.run { Result { try InputReader.read(ends.reading, upTo: 100) } }
        await writer.join()
        #expect(try content.get() == Array("onetwo".utf8))
    }

    @Test("a directory is an error, not an empty input")
    func directory() throws {
        let descriptor = open("/", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let error = #expect(throws: SystemCallError.self) { try InputReader.read(descriptor, upTo: 100) }
        #expect(error?.code == EISDIR)
    }

    @Test("the newline at the end of a text does not count towards its limit")
    func text() throws {
        func text(_ input: String) throws -> String {
            try InputReader.text(of: Array(input.utf8), upTo: 4, tooLong: "too long")
        }
        #expect(try text("four") == "four" && text("four\n") == "four" && text("four\r\n") == "four" && text("a\nb") == "a\nb")
        for input in ["fiver", "four\n\n", "four\r\n\n", "fou\u{e9}\n"] {
            let failure = #expect(throws: CommandFailure.self) { try text(input) }
            #expect(failure?.status == .noSpace && failure?.message == "too long", "\(input.debugDescription)")
        }
        #expect(throws: CommandFailure.self) { try text("\n") }
        #expect(throws: CommandFailure.self) { try InputReader.text(of: [0xFF], upTo: 4, tooLong: "") }
    }
}
