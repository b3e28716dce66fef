import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct NoteFileTests {
    @Test("bytes are read and written at offsets, and reads end at the end of the file")
    func offsets() throws {
        let file = try NoteFile.temporary()
        try file.write([1, 2, 3], at: 4)
        #expect(file.size == 7)
        #expect(try file.read(100, at: 0) == [0, 0, 0, 0, 1, 2, 3])
        #expect(try file.read(2, at: 5) == [2, 3] && file.read(2, at: 7).isEmpty && file.read(2, at: 1000).isEmpty)
        try file.truncate(to: 5)
        #expect(try file.read(100, at: 3) == [0, 1])
    }

    @Test("R10: offsets beyond those of the kernel are errors", arguments: [UInt64.max, UInt64(Int64.max), 1 << 63])
    func extremeOffsets(_ offset: UInt64) throws {
        let file = try NoteFile.temporary()
        #expect(throws: AudioError.self) { try file.read(1, at: offset) }
        #expect(throws: AudioError.self) { try file.write([1], at: offset) }
    }

    @Test("a folder, a missing file and a FIFO are rejected without waiting")
    func kinds() throws {
        let scratch = ScratchFolder()
        #expect(throws: AudioError.self) { try NoteFile.open(scratch.path) }
        #expect(throws: AudioError.self) { try NoteFile.open(scratch("missing")) }
        mkfifo(scratch("fifo"), 0o600)
        #expect(throws: AudioError.self) { try NoteFile.open(scratch("fifo")) }
    }

    @Test("a link that the user names is followed, but not replaced")
    func links() throws {
        let scratch = ScratchFolder()
        try #require(try NoteFile.create(scratch("real"))).write([7], at: 0)
        symlink(scratch("real"), scratch("link"))
        #expect(try NoteFile.open(scratch("link")).read(1, at: 0) == [7])
        #expect(try NoteFile.create(scratch("link")) == nil)
    }

    @Test("a folder that does not exist is an error, not a name in use")
    func missingFolder() {
        #expect(throws: AudioError.self) { try NoteFile.create(ScratchFolder()("missing/note.opus")) }
    }
}
