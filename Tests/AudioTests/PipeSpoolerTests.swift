import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct PipeSpoolerTests {
    @Test("a pipe is copied whole", arguments: [0, 1, 65_536, 300_000])
    func copies(_ count: Int) throws {
        let pipe = try Pipe()
        defer { close(pipe.readEnd) }
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        _ = try BlockingThread.start {
            try? pipe.write(bytes)
            close(pipe.writeEnd)
        }
        let file = try #require(try PipeSpooler.spool(pipe.readEnd))
        #expect(try file.size == UInt64(count) && file.read(count, at: 0) == bytes)
    }

    @Test("a pipe that stays open and silent can be cancelled")
    func cancelled() throws {
        let pipe = try Pipe()
        defer {
            close(pipe.readEnd)
            close(pipe.writeEnd)
        }
        try pipe.write([1, 2, 3])
        let cancellation = EventFD()
        _ = try BlockingThread.start { cancellation.signal() }
        #expect(try PipeSpooler.spool(pipe.readEnd, until: cancellation) == nil)
    }

    @Test("a descriptor that cannot be read is an error")
    func unreadable() throws {
        let folder = open("/", O_RDONLY | O_DIRECTORY)
        defer { close(folder) }
        #expect(throws: AudioError.self) { try PipeSpooler.spool(folder) }
    }
}
