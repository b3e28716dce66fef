import FoundationEssentials
import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// Half a second of a tone of 440 Hz at 16,000 samples a second, encoded by FFmpeg.
enum AACSample {
    static let adts = Array(
        Data(
            base64Encoded: """
                //FgQBSf/N4CAExhdmM1OS4zNy4xMDAAAmSeWmCJFRnj1v73ZkqJIiJEGjsw5izDbWK4liuJYrmLRuYti6O3Dl7PuatIwaGzdVLev3vutPT73b
                6v4XbYC/snGtarNyrWqmzps5mMyUy0S0DAwMDAwMDAyIGBjZs3KiRSymzZuWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWXj/
                8WBAEp/8AQyU2ol1RLqiXVlOn/+b/7/jzeprXr//D/9/1641bj1//h/9f561xLvf/+P/z/x51qTgPW5nueeeeeCXk13+CvdxrveknSpip3p53p
                53p53uad6dSnkznOp57mqs3ibL4qzeonSdkLb3NzvT870PO98vo98vp9GfI7zyfPZV9OfSPt0aiQMDAxIcyDZ8//FgQA6f/AEI7yhEOiE8TOf+
                O8n8T+bmrmtWuXJdXvqUE1m2rKikuR7D7wjJ8NoisZEEFj5r58qNBZVPKioPf30D4+Mwd9yGT4MM/voGT4bGf3hGT4zDP76A/8Zg776EP/E1hT
                +JYPt4Xf+H8DyeEWP4p8D/8WBADF/8APovIEhHExBk9v6sn/99//71Ws65VJvrW/XHHjrXYaZaZ4XB4UUSE2hISEhIQX9X/RB14Y1410uzsTOz
                gTLHXci4JRSMDObEgRWIrF1D2KQWIpGFiIpHBKLHwP/xYEAMn/wA6i8oSEcaFODv5zWf/2v/H/+/TU47tjftrfi4kwT062jTRlc8zTHJvzv+b/
                N1Rs/A80HPzbdn+Y9NNNMcmgXNmtFu08DMYliqYTioniZzAmVIPWTxLkGUqFk4r8D/8WBAC9/8AO4vGNYmENFfnLf/3P6//99NZxvEvn4nipff
                F4Hpi+2+3oRkYKRwt1l1kOASRJkaGlAHfndZcs6/1vv36FCpFUgsYGI8BFVIEG0isakoLEAixEwyJRV4//FgQAyf/ADwLyhIRxMQZH22n/+if/
                +dS14pVefPjtrfGuw1bTraRkpHYgYGvAwMO+jEyvrf95O7rrprpkZ2c3Zzdt+nBv8CkWlTQqYUjCoVSgqpoZyChNKDgQWMzKaEi6UWnv/xYEAP
                n/wBLC8ZZTNyV/r/f/9YlXJcSRJFgqyplumzuSwp7Hysq8vPT34/X5gCfvxAA+PZJPZVkdUMu/T01M6u69Wnpqu6u6+PT01XdXdfHj01XV918e
                PTVdXJf1Y9NWmvuv6saKrunuvVj01af13X9WOFWmuQdWNFRcD/8WBADn/8AUYvGSVT3unjf3pqXckSSJIkFcuNtWN2o0c0c2dWIcbpGjCzr8CH
                GJD3OQ8+Vpvm3OQ8+Vpvm3OQ8+Vpvm3OQwZWm5tzkMGVpubc5zQZWm5tzkMGVrnmdc5oH2ueZ1zmgfa55luc259rnyr4
                """, options: .ignoreUnknownCharacters)!)

    /// The packets without their headers.
    static var packets: [[UInt8]] {
        var (packets, rest): ([[UInt8]], ArraySlice<UInt8>) = ([], adts[...])
        while let header = ADTSHeader(Array(rest.prefix(9))) {
            packets.append(Array(rest.prefix(header.frameByteCount).dropFirst(header.headerByteCount)))
            rest = rest.dropFirst(header.frameByteCount)
        }
        return packets
    }

    static var mp4: [UInt8] { MP4Builder(packets).file }
}

@Suite(.enabled(if: AudioLibraries.faad != nil, "libfaad2 is not installed")) struct AACReaderTests {
    private let launcher = ThreadLauncher([
        .decodeNote: IsolatedNoteReader.routine, .decodeSoundFile: IsolatedSoundFileInput.routine,
    ])

    private func file(_ bytes: [UInt8], _ scratch: ScratchFolder) throws -> NoteFile {
        let file = try scratch.note()
        try file.write(bytes, at: 0)
        return file
    }

    private func samples(of note: any NoteSamples, skipping seconds: Int = 0) throws -> [Int16] {
        let audio = InMemoryAudio()
        let playback = Playback()
        playback.skip(.seconds(seconds))
        #expect(try playback.run(note, on: audio.openOutput(device: nil, format: note.format)))
        return audio.played
    }

    @Test("sounds as it did, from both containers", arguments: [AACSample.mp4, AACSample.adts])
    func decoding(_ bytes: [UInt8]) throws {
        let scratch = ScratchFolder()
        let reader = try AACReader(file(bytes, scratch))
        #expect(reader.format.channels == 1)
        let decoded = try samples(of: reader)
        #expect(reader.position == reader.frames)
        let expected = Tones.sine(seconds: 0.4, rate: reader.format.rate)
        let middle = Array(decoded.dropFirst(4 * reader.format.rate / 100).prefix(expected.count))
        #expect(Tones.correlation(expected, middle, shift: reader.format.rate / 440) > 0.95)
    }

    @Test func `a worker decodes the samples that this process would`() throws {
        let scratch = ScratchFolder()
        let file = try file(AACSample.mp4, scratch)
        let isolated = try IsolatedNoteReader(file, by: launcher)
        #expect(try samples(of: isolated) == samples(of: AACReader(file)))
        #expect(isolated.position == isolated.frames)
        #expect(isolated.format.rate == (try AACReader(file)).format.rate)
    }

    @Test func `skipping reaches the same samples`() throws {
        let scratch = ScratchFolder()
        // Ten times the tone, so that there are seconds to skip.
        let packets = (0..<10).flatMap { _ in AACSample.packets }
        let file = try file(MP4Builder(packets).file, scratch)
        let whole = try samples(of: AACReader(file))
        let reader = try AACReader(file)
        let skipped = try samples(of: reader, skipping: 2)
        #expect(skipped.count == reader.frames - 2 * reader.format.rate)
        let count = skipped.count - 4096
        #expect(Tones.correlation(Array(whole.suffix(count)), Array(skipped.suffix(count)), shift: 0) > 0.99)
        let end = try AACReader(file)
        #expect(try samples(of: end, skipping: 1000).isEmpty)
        #expect(end.position == end.frames)
    }

    @Test("a note is made of either container", arguments: [AACSample.mp4, AACSample.adts])
    func input(_ bytes: [UInt8]) throws {
        let scratch = ScratchFolder()
        let source = try #require(try NoteFile.create(scratch("source.m4a")))
        try source.write(bytes, at: 0)
        let note = try scratch.note()
        let result = try Recording(trims: false).run(
            from: IsolatedSoundFileInput(source, by: launcher), into: note, settings: #require(NoteSettings()))
        #expect(result.reason == .sourceEnded)
        let seconds = Double(AACSample.packets.count) * 1024 / 16_000
        #expect(abs(try NoteSummary(of: note).duration.inSeconds - seconds) < 0.14)
    }

    @Test func `the reason of a rejected file names the file`() throws {
        let scratch = ScratchFolder()
        var builder = MP4Builder(AACSample.packets)
        builder.codec = "alac"
        let path = scratch("song.m4a")
        try #require(try NoteFile.create(path)).write(builder.file, at: 0)
        let error = #expect(throws: AudioError.self) { try IsolatedSoundFileInput(NoteFile.open(path), by: launcher) }
        #expect(error?.description == "\(path) cannot be decoded: its sound is Apple Lossless, not AAC")
    }

    @Test("R10: the decoder ends on whatever was done to a file")
    func hostile() throws {
        let seed = UInt64(truncatingIfNeeded: Int(time(nil)))
        var random = SeededRandom(seed: seed)
        for round in 0..<300 {
            var packets = AACSample.packets
            for _ in 0...Int.random(in: 0...8, using: &random) {
                let index = packets.indices.randomElement(using: &random)!
                let byte = packets[index].indices.randomElement(using: &random)!
                packets[index][byte] = UInt8.random(in: 0...255, using: &random)
            }
            var builder = MP4Builder(packets)
            if random.once(in: 4) { builder.configuration[1] = UInt8.random(in: 0...255, using: &random) }
            let scratch = ScratchFolder()
            do {
                let reader = try AACReader(file(builder.file, scratch))
                #expect(try samples(of: reader).count <= reader.frames * reader.format.channels)
            } catch {
                #expect(error is AudioError, "seed \(seed), round \(round): \(error)")
            }
        }
    }
}
