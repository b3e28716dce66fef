import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// A valid voice note, and the ways to damage one.
struct Spoiler {
    let bytes: [UInt8]
    /// Where its pages begin, and where the file ends.
    let cuts: [Int]

    init(seconds: Double = 4) throws {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try Notes.record(Tones.sine(seconds: seconds), into: file, settings: #require(NoteSettings(speaker: "anna")))
        bytes = try file.read(Int(file.size), at: 0)
        var cuts = [0]
        while let page = OggPage(startOf: bytes[cuts[cuts.count - 1]...]) {
            cuts.append(cuts[cuts.count - 1] + page.bytes.count)
        }
        self.cuts = cuts
    }

    var pageCount: Int { cuts.count - 1 }

    func page(_ index: Int) -> OggPage { OggPage(startOf: bytes[cuts[index]...])! }

    /// The file with one page in another's place.
    func replacing(_ index: Int, by page: [UInt8]) -> [UInt8] {
        Array(bytes[..<cuts[index]]) + page + Array(bytes[cuts[index + 1]...])
    }

    /// A page whose content was changed, with its checksum in order again, so that the change gets past it.
    func resealed(_ index: Int, _ change: (inout [UInt8]) -> Void) -> [UInt8] {
        let old = page(index)
        let body = OggPage.fixedByteCount + Int(old.bytes[26])
        var fresh = Array(old.bytes[body...])
        change(&fresh)
        var page = old
        page.replace(body..<(body + fresh.count), with: fresh)
        return replacing(index, by: page.bytes)
    }

    func summary(_ bytes: [UInt8]) throws -> NoteSummary {
        let window = NoteSummary.windowByteCount
        return try NoteSummary(
            front: Array(bytes.prefix(window)), tail: Array(bytes.suffix(window)), size: UInt64(bytes.count))
    }
}

@Suite struct HostileNoteTests {
    @Test("R10: a note cut at any length is rejected or told as cut")
    func truncation() throws {
        let note = try Spoiler(seconds: 1.2)
        for length in 0..<note.bytes.count {
            guard let summary = try? note.summary(Array(note.bytes.prefix(length))) else { continue }
            #expect(summary.isTruncated, "\(length)")
            #expect(summary.duration <= .milliseconds(1200))
        }
        #expect(try !note.summary(note.bytes).isTruncated)
    }

    @Test("R10: any changed byte of the first pages is noticed")
    func changes() throws {
        let note = try Spoiler()
        for index in 0..<note.cuts[2] {
            var bytes = note.bytes
            bytes[index] ^= 0x41
            #expect(throws: AudioError.self, "\(index)") { try note.summary(bytes) }
        }
    }

    @Test("R10: an absurd duration is rejected", arguments: [Int64.max, .min, -2, 1 << 40, 48_000 * 3600 * 100])
    func duration(_ granule: Int64) throws {
        let note = try Spoiler()
        var page = note.page(note.pageCount - 1)
        page.truncate(toPackets: 1, granule: granule)
        #expect(throws: AudioError.self) { try note.summary(note.replacing(note.pageCount - 1, by: page.bytes)) }
    }

    @Test("R10: several notes in one file are rejected, one after the other and side by side")
    func chained() throws {
        let note = try Spoiler()
        let other = try Spoiler(seconds: 1)
        #expect(throws: AudioError.self) { try note.summary(note.bytes + other.bytes) }
        #expect(throws: AudioError.self) {
            try note.summary(Array(note.bytes[..<note.cuts[1]]) + other.bytes + Array(note.bytes[note.cuts[1]...]))
        }
    }

    @Test("R10, T1: tags that lie about their lengths are rejected, whatever they lie")
    func tags() throws {
        let note = try Spoiler()
        let seed = UInt64(truncatingIfNeeded: Int(time(nil)))
        var random = SeededRandom(seed: seed)
        for round in 0..<1000 {
            let bytes = note.resealed(1) { body in
                for _ in 0...Int.random(in: 0...3, using: &random) {
                    body[Int.random(in: 0..<body.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
            }
            do {
                let tags = try note.summary(bytes).tags
                #expect((tags.speaker ?? "").utf8.count <= 3 * 256)
            } catch {
                #expect(error is AudioError, "seed \(seed), round \(round)")
            }
        }
    }

    @Test("R10: very many tags, and very long ones, cost nothing")
    func manyTags() throws {
        func number(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
        let start = Array("OpusTags".utf8) + number(0)
        #expect(throws: AudioError.self) { try NoteTags((start + number(.max))[...]) }
        #expect(throws: AudioError.self) { try NoteTags((start + number(1) + number(.max) + [65, 61])[...]) }
        #expect(throws: AudioError.self) {
            try NoteTags((start + number(257) + (0..<257).flatMap { _ in number(0) })[...])
        }
        let long = Array("ARTIST=".utf8) + [UInt8](repeating: 0x1b, count: 50_000)
        #expect(try NoteTags((start + number(1) + number(UInt32(long.count)) + long)[...]).speaker?.utf8.count == 256)
    }

    @Test("R10: a file full of beginnings of pages is searched for a bounded time")
    func pageFlood() throws {
        let note = try Spoiler()
        // Each is the header of a page of the greatest length, and none has the right checksum.
        let header = OggPage.capture + [UInt8](repeating: 0, count: 22) + [255] + [UInt8](repeating: 255, count: 255)
        let flood = Array(repeatElement(header, count: 600).joined())
        #expect(throws: AudioError.self) { try note.summary(Array(note.bytes[..<note.cuts[2]]) + flood) }
    }

    @Test("R10: the decoder ends on whatever was done to a note")
    func decoding() throws {
        let note = try Spoiler(seconds: 2)
        let seed = UInt64(truncatingIfNeeded: Int(time(nil)))
        var random = SeededRandom(seed: seed)
        for round in 0..<300 {
            let index = Int.random(in: 2..<note.pageCount, using: &random)
            var bytes = note.resealed(index) { body in
                for _ in 0...Int.random(in: 0...8, using: &random) {
                    body[Int.random(in: 0..<body.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
            }
            if random.once(in: 4) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
            if random.once(in: 4) { bytes += note.bytes[..<Int.random(in: 0..<note.bytes.count, using: &random)] }
            let scratch = ScratchFolder()
            let file = try scratch.note()
            try file.write(bytes, at: 0)
            do {
                // A packet of two bytes holds 120 ms at the most.
                #expect(try Notes.decode(file).count <= bytes.count * 5760, "seed \(seed), round \(round)")
            } catch {
                #expect(error is AudioError, "seed \(seed), round \(round): \(error)")
            }
        }
    }
}

@Suite struct HostileSoundFileTests {
    private static func wave(_ samples: [Int16]) -> [UInt8] {
        wave(samples.flatMap { number(Int($0), 2) }, format: 1, sampleByteCount: 2)
    }

    /// - Parameter format: 1 for integers, 3 for floating-point numbers.
    private static func wave(_ data: [UInt8], format: Int, sampleByteCount: Int) -> [UInt8] {
        Array("RIFF".utf8) + number(36 + data.count, 4) + Array("WAVEfmt ".utf8) + number(16, 4) + number(format, 2)
            + number(1, 2) + number(16_000, 4) + number(16_000 * sampleByteCount, 4) + number(sampleByteCount, 2)
            + number(8 * sampleByteCount, 2) + Array("data".utf8) + number(data.count, 4) + data
    }

    private static func number(_ value: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private static func read(_ bytes: [UInt8]) throws -> [Int16] {
        let scratch = ScratchFolder()
        let file = try scratch.note()
        try file.write(bytes, at: 0)
        let sound = try SoundFileInput(file)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 4096)
        defer { buffer.deallocate() }
        var samples: [Int16] = []
        while case .frames(let count) = try sound.read(into: buffer) {
            samples += buffer[..<count]
            // No format packs more than this into a byte.
            guard samples.count <= bytes.count * 4096 else { throw AudioError(.overLimit, "endless") }
        }
        return samples
    }

    @Test func `the samples of a WAV file are read as they were written`() throws {
        let samples = Tones.sine(seconds: 0.5)
        #expect(try Self.read(Self.wave(samples)) == samples)
    }

    @Test("R10: floating-point samples are neither amplified nor wrapped, and what is no number is silence")
    func floatingPoint() throws {
        func read(_ samples: [Float]) throws -> [Int16] {
            let data = samples.flatMap { Self.number(Int($0.bitPattern), 4) }
            return try Self.read(Self.wave(data, format: 3, sampleByteCount: 4))
        }
        let quiet = try read([0, 0.125, -0.125, 0.0625])
        #expect(quiet == [0, 4096, -4096, 2048])
        let wild = try read([1.5, -1.5, .infinity, -.infinity, .nan, 1, -1])
        #expect(wild == [32_767, -32_768, 32_767, -32_768, 0, 32_767, -32_768])
    }

    @Test("a size that is not known, as in a pipe, means all there is")
    func unknownSize() throws {
        let samples = Tones.sine(seconds: 0.5)
        var bytes = Self.wave(samples)
        for index in [4, 5, 6, 7, 40, 41, 42, 43] { bytes[index] = 0xff }
        #expect(try Self.read(bytes) == samples)
    }

    @Test("R7, R10: lies in a WAV file's header end in an error or in what is there")
    func lies() throws {
        let whole = Self.wave(Tones.sine(seconds: 0.05))
        let seed = UInt64(truncatingIfNeeded: Int(time(nil)))
        var random = SeededRandom(seed: seed)
        for round in 0..<300 {
            var bytes = whole
            for _ in 0...Int.random(in: 0...3, using: &random) {
                bytes[Int.random(in: 0..<60, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if random.once(in: 5) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
            do {
                _ = try Self.read(bytes)
            } catch let error as AudioError {
                #expect(error.code != .overLimit, "seed \(seed), round \(round)")
            }
        }
    }

    @Test("what is no sound file is rejected", arguments: [[], Array("hello".utf8), [UInt8](repeating: 0, count: 5000)])
    func none(_ bytes: [UInt8]) {
        #expect(throws: AudioError.self) { try Self.read(bytes) }
    }
}
