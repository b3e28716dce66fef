import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

@Suite struct DamagedNoteTests {
    @Test("R10: a note cut at any page decodes to its end or is rejected")
    func cutAtPages() throws {
        let note = try Spoiler(seconds: 3)
        for end in note.cuts.dropFirst() {
            let file = try NoteFile.temporary()
            try file.write(Array(note.bytes[..<end]), at: 0)
            guard let reader = try? NoteReader(file) else { continue }
            #expect(reader.frames <= 3 * 48_000)
            #expect(try Notes.decode(file).count <= 3 * 48_000)
        }
    }

    @Test("R10: empty and nearly empty files are rejected", arguments: [0, 1, 4, 27, 47])
    func empty(_ count: Int) throws {
        let note = try Spoiler(seconds: 1)
        let file = try NoteFile.temporary()
        try file.write(Array(note.bytes.prefix(count)), at: 0)
        #expect(throws: AudioError.self) { try NoteSummary(of: file) }
        #expect(throws: AudioError.self) { try NoteReader(file) }
    }

    @Test("R10: a claimed length beyond the sound does not break playback", arguments: [Int64(1), 5, 5760])
    func longerThanItIs(_ factor: Int64) throws {
        let note = try Spoiler(seconds: 1)
        let last = note.page(note.pageCount - 1)
        var page = last
        page.truncate(toPackets: last.packets.ranges.count, granule: last.granule * factor)
        let file = try NoteFile.temporary()
        try file.write(note.replacing(note.pageCount - 1, by: page.bytes), at: 0)
        guard let reader = try? NoteReader(file) else { return }
        let playback = Playback()
        playback.skip(.seconds(1))
        _ = try? playback.run(reader, on: try InMemoryAudio().openOutput(device: nil, format: reader.format))
        #expect(playback.snapshot.position >= .zero)
    }

    @Test("R10: the whole file and nothing but the file is described", arguments: [0, 1, 100])
    func trailingBytes(_ count: Int) throws {
        let note = try Spoiler(seconds: 1)
        let summary = try note.summary(note.bytes + [UInt8](repeating: 0, count: count))
        #expect(summary.byteCount == UInt64(note.bytes.count + count) && !summary.isTruncated)
    }

    @Test("the largest skips do not overflow", arguments: [Duration.seconds(Int64.max), .seconds(Int64.min)])
    func skips(_ duration: Duration) throws {
        let note = try Spoiler(seconds: 1)
        let file = try NoteFile.temporary()
        try file.write(note.bytes, at: 0)
        let playback = Playback()
        playback.skip(duration)
        playback.skip(duration)
        let reader = try NoteReader(file)
        #expect(try playback.run(reader, on: try InMemoryAudio().openOutput(device: nil, format: reader.format)))
    }
}
