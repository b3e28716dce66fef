import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("inputs with a limit")
struct InputReaderTests {
    private func pipe() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        try #require(Glibc.pipe(&ends) == 0)
        return (ends[0], ends[1])
    }

    @Test("an input is read to its end, in whatever parts it comes, or to the limit")
    func parts() throws {
        let ends = try pipe()
        defer { close(ends.reading) }
        for part in ["one", "", "two"] { #expect(write(ends.writing, part, part.utf8.count) == part.utf8.count) }
        close(ends.writing)
        #expect(try InputReader.read(ends.reading, upTo: 4) == Array("onet".utf8))
        #expect(try InputReader.read(ends.reading, upTo: 100) == Array("wo".utf8))
    }

    @Test("a non-blocking pipe is waited for")
    func nonBlocking() async throws {
        let ends = try pipe()
        defer { close(ends.reading) }
        #expect(fcntl(ends.reading, F_SETFL, O_NONBLOCK) == 0)
        let read = Task.detached { try InputReader.read(ends.reading, upTo: 100) }
        #expect(write(ends.writing, "late", 4) == 4)
        close(ends.writing)
        #expect(try await read.value == Array("late".utf8))
    }

    @Test("a directory is an error, not an empty input")
    func directory() throws {
        let descriptor = open("/", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let error = #expect(throws: SystemCallError.self) { try InputReader.read(descriptor, upTo: 100) }
        #expect(error?.code == EISDIR)
    }
}
