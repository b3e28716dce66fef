import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// The ends of a pipe.
private struct Pipe {
    let readEnd: Int32
    let writeEnd: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    func write(_ bytes: [UInt8]) throws {
        try bytes.withUnsafeBytes { try DescriptorIO.writeAll($0, to: writeEnd) }
    }
}

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

    @Test("a folder, a missing file and a FIFO are refused without waiting")
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
        #expect(throws: AudioError.self) { try NoteFile.create("/nonexistent/note.opus") }
    }
}

@Suite struct FileCursorTests {
    private func cursor(budget: Int = .max) throws -> FileCursor {
        let file = try NoteFile.temporary()
        try file.write((0..<100).map { UInt8($0) }, at: 0)
        return FileCursor(file, budget: budget)
    }

    private func read(_ count: Int, from cursor: FileCursor) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return bytes.withUnsafeMutableBytes { buffer in
            buffer.baseAddress.flatMap { cursor.read(into: $0, count: count) }
        }.map { Array(bytes.prefix($0)) }
    }

    @Test("reads move on, and seeking is relative to the start, the position or the end")
    func seeking() throws {
        let cursor = try cursor()
        #expect(read(2, from: cursor) == [0, 1] && cursor.offset == 2)
        #expect(cursor.seek(3, SEEK_CUR) == 5 && read(1, from: cursor) == [5])
        #expect(cursor.seek(-1, SEEK_END) == 99 && read(5, from: cursor) == [99] && read(5, from: cursor) == [])
        #expect(cursor.seek(10, SEEK_SET) == 10 && read(1, from: cursor) == [10])
        #expect(cursor.seek(1000, SEEK_SET) == 1000 && read(1, from: cursor) == [])
    }

    @Test("R10: seeking before the start or beyond 64 bits fails and moves nothing")
    func invalidSeeks() throws {
        let cursor = try cursor()
        _ = cursor.seek(10, SEEK_SET)
        for (offset, whence) in [
            (Int64(-11), SEEK_CUR), (.min, SEEK_CUR), (.max, SEEK_CUR), (-101, SEEK_END), (.max, SEEK_END), (-1, SEEK_SET),
        ] {
            #expect(cursor.seek(offset, whence) == nil && cursor.offset == 10)
        }
        #expect(cursor.seek(.max, SEEK_SET) == .max)
        #expect(read(1, from: cursor) == nil)
    }

    @Test("R10: no more than the budget is read until it is removed")
    func budget() throws {
        let cursor = try cursor(budget: 10)
        #expect(read(8, from: cursor)?.count == 8)
        #expect(read(3, from: cursor) == nil)
        #expect(read(2, from: cursor)?.count == 2)
        cursor.removeBudget()
        #expect(read(50, from: cursor)?.count == 50)
    }
}

@Suite struct RawSampleInputTests {
    private func readAll(_ input: any AudioInput) throws -> [Int16] {
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 16)
        defer { buffer.deallocate() }
        var samples: [Int16] = []
        while true {
            switch try input.read(into: buffer) {
            case .frames(let count): samples += buffer[..<count]
            case .timedOut: continue
            case .end: return samples
            }
        }
    }

    @Test("samples are little-endian, in whatever parts a pipe delivers them", arguments: [1, 2, 3, 7, 100])
    func parts(_ part: Int) throws {
        let pipe = try Pipe()
        defer { close(pipe.readEnd) }
        let samples: [Int16] = [0, 1, -1, .min, .max, 258]
        var bytes = samples.flatMap { OggBuilder.number($0, byteCount: 2) }[...]
        let input = try RawSampleInput(descriptor: pipe.readEnd, rate: 16_000)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 16)
        defer { buffer.deallocate() }
        var received: [Int16] = []
        while !bytes.isEmpty {
            try pipe.write(Array(bytes.prefix(part)))
            bytes = bytes.dropFirst(part)
            if case .frames(let count) = try input.read(into: buffer) { received += buffer[..<count] }
        }
        close(pipe.writeEnd)
        #expect(try received + readAll(input) == samples)
    }

    @Test("half a sample at the end is dropped")
    func oddEnd() throws {
        let file = try NoteFile.temporary()
        try file.write([1, 0, 2, 0, 9], at: 0)
        #expect(try readAll(try RawSampleInput(file: file, rate: 8000)) == [1, 2])
    }

    @Test("a silent pipe times out instead of blocking")
    func silence() throws {
        let pipe = try Pipe()
        defer {
            close(pipe.readEnd)
            close(pipe.writeEnd)
        }
        let input = try RawSampleInput(descriptor: pipe.readEnd, rate: 16_000)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 16)
        defer { buffer.deallocate() }
        #expect(try input.read(into: buffer) == .timedOut)
    }

    @Test("an empty file has no samples")
    func empty() throws {
        #expect(try readAll(try RawSampleInput(file: try NoteFile.temporary(), rate: 8000)).isEmpty)
    }

    @Test("rates that no sound card uses are refused", arguments: [0, -1, 7999, 192_001, .max])
    func rates(_ rate: Int) {
        #expect(throws: AudioError.self) { try RawSampleInput(descriptor: 0, rate: rate) }
    }
}

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
        var questions = 0
        let file = try PipeSpooler.spool(pipe.readEnd) {
            questions += 1
            return questions > 2
        }
        #expect(file == nil)
    }

    @Test("a descriptor that can't be read is an error")
    func unreadable() throws {
        let folder = open("/", O_RDONLY | O_DIRECTORY)
        defer { close(folder) }
        #expect(throws: AudioError.self) { try PipeSpooler.spool(folder) }
    }
}

@Suite struct InMemoryAudioTests {
    @Test("the microphone returns its samples and then its ending")
    func input() throws {
        let gone = AudioError(.deviceGone, "gone")
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 100)
        defer { buffer.deallocate() }
        let input = try InMemoryAudio([1, 2, 3], ending: .failure(gone), lost: 5, burst: 2).openInput(
            device: nil, format: .speech)
        #expect(try input.read(into: buffer) == .frames(2) && Array(buffer[..<2]) == [1, 2])
        #expect(try input.read(into: buffer) == .frames(1) && buffer[0] == 3)
        #expect(throws: gone) { try input.read(into: buffer) }
        #expect(input.lostFrames == 5)
        let silent = try InMemoryAudio(ending: .silence).openInput(device: "memory", format: .speech)
        #expect(try silent.read(into: buffer) == .timedOut)
    }

    @Test("the loudspeaker plays nothing while it is paused")
    func output() throws {
        let audio = InMemoryAudio()
        let output = try audio.openOutput(device: nil, format: .speech)
        try output.setPaused(true)
        #expect(try [Int16(1), 2].withUnsafeBufferPointer { try output.write($0) } == 0)
        #expect(try !output.drain())
        try output.setPaused(false)
        #expect(try [Int16(1), 2].withUnsafeBufferPointer { try output.write($0) } == 2)
        #expect(try output.drain() && audio.played == [1, 2])
    }

    @Test("unknown devices are not available")
    func devices() {
        #expect(throws: AudioError.self) { try InMemoryAudio().openInput(device: "other", format: .speech) }
        #expect(throws: AudioError.self) { try InMemoryAudio().openOutput(device: "other", format: .speech) }
        #expect(InMemoryAudio().devices().count == 2)
    }

    @Test("formats have one or two channels and a rate of sound cards")
    func formats() {
        #expect(AudioFormat(rate: 8000, channels: 1) != nil && AudioFormat(rate: 192_000, channels: 2) != nil)
        #expect(AudioFormat(rate: 7999, channels: 1) == nil && AudioFormat(rate: 48_000, channels: 3) == nil)
        #expect(AudioFormat(rate: 48_000, channels: 0) == nil)
    }

    @Test("ALSA's prefix is not part of a device's name")
    func names() {
        #expect(LinuxAudio.bareName("alsa:hw:0") == "hw:0" && LinuxAudio.bareName("hw:0") == "hw:0")
        #expect(LinuxAudio.bareName("alsa:") == "" && LinuxAudio.bareName(nil) == nil)
    }
}
