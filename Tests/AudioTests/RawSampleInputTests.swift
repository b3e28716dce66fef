import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

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
        var bytes = samples.flatMap { OggBuilder.littleEndian($0, byteCount: 2) }[...]
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

    @Test("a wake-up ends the wait for a silent pipe")
    func silence() throws {
        let pipe = try Pipe()
        defer {
            close(pipe.readEnd)
            close(pipe.writeEnd)
        }
        let wakeup = EventFD()
        let input = try RawSampleInput(descriptor: pipe.readEnd, rate: 16_000, wakeup: wakeup)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 16)
        defer { buffer.deallocate() }
        _ = try BlockingThread.start { wakeup.signal() }
        #expect(try input.read(into: buffer) == .timedOut)
    }

    @Test("an empty file has no samples")
    func empty() throws {
        #expect(try readAll(try RawSampleInput(file: try NoteFile.temporary(), rate: 8000)).isEmpty)
    }

    @Test("rates that no sound card uses are rejected", arguments: [0, -1, 7999, 192_001, .max])
    func rates(_ rate: Int) {
        #expect(throws: AudioError.self) { try RawSampleInput(descriptor: 0, rate: rate) }
    }
}
