import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// Decoding in a worker: the same samples, and failures of the worker that are failures of the file.
@Suite struct IsolationTests {
    private let launcher = ThreadLauncher([
        .decodeNote: IsolatedNoteReader.routine, .decodeSoundFile: IsolatedSoundFileInput.routine,
    ])

    private func samples(of note: any NoteSamples) throws -> [Int16] {
        let audio = InMemoryAudio()
        #expect(try Playback().run(note, on: audio.openOutput(device: nil, format: note.format)))
        return audio.played
    }

    @Test func `a worker decodes the samples that this process would`() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 2), into: file)
        let isolated = try IsolatedNoteReader(file, by: launcher)
        #expect(try samples(of: isolated) == samples(of: NoteReader(file)))
        #expect(isolated.position == isolated.frames)
    }

    @Test func `skipping reaches the worker`() throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 3), into: file)
        let audio = InMemoryAudio()
        let playback = Playback()
        playback.skip(.seconds(2))
        let reader = try IsolatedNoteReader(file, by: launcher)
        #expect(try playback.run(reader, on: audio.openOutput(device: nil, format: reader.format)))
        #expect((47_000...49_000).contains(audio.played.count), "\(audio.played.count)")
    }

    @Test func `the reason of a rejected sound file names the file`() throws {
        let scratch = ScratchFolder()
        let path = scratch("noise.wav")
        let created = try #require(try NoteFile.create(path))
        try created.write([UInt8](repeating: 7, count: 1000), at: 0)
        let error = #expect(throws: AudioError.self) { try IsolatedSoundFileInput(NoteFile.open(path), by: launcher) }
        #expect(error?.description.hasPrefix("\(path) is not a supported sound file") == true, "\(error?.description ?? "")")
        #expect(error?.description.hasSuffix("; use WAV, FLAC, MP3, Ogg, M4A or AAC, or raw samples with --raw") == true)
    }

    /// Workers in the hands of an attacker: each answers every request with these bytes, and ends.
    @Test(
        "L2, R10: an answer that no decoder gives is an error",
        arguments: [
            [], [0], [UInt8](repeating: 0xff, count: 12), [UInt8](repeating: 0x7f, count: 4096),
            // Opened; then more frames than asked for.
            [0, 0, 0, 0, 0x80, 0xbb, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0] + [UInt8](repeating: 0, count: 4096),
            // Opened; then fewer samples than stated.
            [0, 0, 0, 0, 0x80, 0xbb, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0] + [UInt8](repeating: 0, count: 100),
        ])
    func answers(_ bytes: [UInt8]) throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: 1), into: file)
        let hostile = ThreadLauncher([
            .decodeNote: WorkerRoutine { socket, _ in { try? DescriptorIO.sendAll(bytes, to: socket) } }
        ])
        #expect(throws: AudioError.self) {
            try Playback().run(
                IsolatedNoteReader(file, by: hostile),
                on: InMemoryAudio().openOutput(device: nil, format: #require(AudioFormat(rate: 48_000, channels: 1))))
        }
    }
}
