import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareAudio

/// The places of packets in files that a builder writes, and in files that lie.
@Suite struct AACTrackTests {
    private static let packets = (1...7).map { [UInt8](repeating: UInt8($0), count: 10 * $0) }

    static func track(_ file: [UInt8], size: UInt64? = nil) throws(AudioError) -> AACTrack {
        try AACTrack(mp4OfSize: size ?? UInt64(file.count)) { offset, count in
            guard offset < UInt64(file.count) else { return [] }
            return Array(file[Int(offset)...].prefix(count))
        }
    }

    private static func content(of track: AACTrack, in file: [UInt8]) -> [[UInt8]] {
        track.packets.map { Array(file[Int($0.offset)..<Int($0.end)]) }
    }

    private static func refusal(_ change: (inout MP4Builder) -> Void) -> String {
        var builder = MP4Builder(packets)
        change(&builder)
        do {
            let track = try Self.track(builder.file)
            return "accepted: \(track)"
        } catch {
            return error.description
        }
    }

    @Test(
        "packets are found in any arrangement",
        arguments: [nil, [1, 1, 1, 1, 1, 1, 1], [3, 3, 1], [2, 5]], [true, false])
    func arrangements(_ chunks: [Int]?, _ isPlain: Bool) throws {
        var builder = MP4Builder(Self.packets)
        builder.chunks = chunks
        (builder.endsWithTables, builder.hasLongOffsets) = (isPlain, !isPlain)
        builder.created = 3_878_104_333
        let track = try Self.track(builder.file)
        #expect(Self.content(of: track, in: builder.file) == Self.packets)
        #expect(track.configuration.rate == 16_000 && track.configuration.channels == 1 && !track.isTruncated)
        #expect(track.recorded == WallTime(milliseconds: 1_795_259_533_000))
        let summary = NoteSummary(track)
        #expect(summary.duration == .milliseconds(7 * 64) && summary.codec == .aac && summary.byteCount == track.byteCount)
    }

    @Test func `the length is that of all packets at every rate`() throws {
        for count in [1, 2, 7, 441] {
            var builder = MP4Builder([[UInt8]](repeating: [1], count: count))
            // AAC LC with one channel at 44,100 Hz.
            builder.configuration = [0x12, 0x08]
            let summary = NoteSummary(try Self.track(builder.file))
            #expect(summary.frames(at: 44_100) == 1024 * count && summary.frames(at: 88_200) == 2048 * count)
            #expect(summary.granules == Int64(1024 * count * 480 / 441))
        }
    }

    @Test func `packets of one size need no table`() throws {
        var builder = MP4Builder([[UInt8]](repeating: [1, 2, 3], count: 5))
        builder.fixedSize = 3
        #expect(try Self.track(builder.file).packets.count == 5)
    }

    @Test("R10: a file that was cut in its sound is known as such, one that was cut in its tables is rejected")
    func truncation() throws {
        var builder = MP4Builder(Self.packets)
        builder.endsWithTables = false
        let whole = builder.file
        let sizes = Self.packets.map(\.count)
        for length in 0..<whole.count {
            guard let track = try? Self.track(Array(whole.prefix(length))) else { continue }
            #expect(track.isTruncated)
            // A packet is there when no more than those behind it is missing.
            let keptCount = sizes.indices.count { sizes[($0 + 1)...].reduce(0, +) >= whole.count - length }
            #expect(track.packets.count == keptCount)
        }
        builder.endsWithTables = true
        for length in 0..<builder.file.count {
            #expect(throws: AudioError.self) { try Self.track(Array(builder.file.prefix(length))) }
        }
    }

    @Test func `what a file contains instead is named`() {
        #expect(Self.refusal { $0.codec = "alac" } == "its sound is Apple Lossless, not AAC")
        #expect(Self.refusal { $0.codec = "samr" } == "its sound is AMR, not AAC")
        #expect(Self.refusal { $0.codec = "\u{1b}[2J" } == "its sound is ????, not AAC")
        #expect(Self.refusal { $0.objectType = 0x6b } == "its sound is not AAC (object type 107)")
        #expect(Self.refusal { $0.handler = "vide" } == "it contains a video")
        #expect(Self.refusal { $0.handler = "text" } == "it contains no sound")
        #expect(Self.refusal { $0.trackCount = 2 } == "it contains several tracks of sound")
        #expect(Self.refusal { $0.packets = [] } == "it contains no sound")
        #expect(Self.refusal { $0.configuration = [0x1c, 0x08] }.contains("not supported (object type 3)"))
        #expect(Self.refusal { $0.configuration = [0x16, 0x88] }.contains("a rate that is not defined"))
        #expect(Self.refusal { $0.configuration = [] }.contains("is damaged"))
    }

    @Test("R10: a file cannot claim more sound than it has bytes")
    func claims() throws {
        // All packets are the same bytes.
        var builder = MP4Builder([[UInt8]](repeating: [UInt8](repeating: 7, count: 5000), count: 8))
        builder.chunks = [Int](repeating: 1, count: 8)
        var file = builder.file
        let table = try #require(file.indices.last { file[$0...].starts(with: Array("stco".utf8)) })
        for chunk in 1..<8 {
            file.replaceSubrange((table + 12 + 4 * chunk)..<(table + 16 + 4 * chunk), with: file[(table + 12)..<(table + 16)])
        }
        file.removeSubrange(1000..<30_000)
        let sound = try #require(file.indices.first { file[$0...].starts(with: Array("mdat".utf8)) })
        file.replaceSubrange((sound - 4)..<sound, with: UInt32(11_008).bigEndianBytes)
        #expect(throws: AudioError(.damaged, "it claims a length that \(UInt64(file.count).formattedByteCount) cannot contain"))
        {
            try Self.track(file)
        }
        // A count without a table.
        #expect(
            Self.refusal {
                $0.packets = [[UInt8]](repeating: [1], count: AACTrack.maximumPacketCount + 1)
                $0.fixedSize = 1
            }.contains("the limit is"))
        #expect(Self.refusal { $0.packets[3] = [] }.contains("a packet of 0 bytes"))
        #expect(Self.refusal { $0.packets[3] = [UInt8](repeating: 1, count: 8193) }.contains("a packet of 8193 bytes"))
    }

    @Test(
        "R10: tables that disagree, and offsets beyond the file, are refused", arguments: [Int64.max, -1000, 1 << 40, 100_000])
    func disagreement(_ shift: Int64) {
        #expect(
            Self.refusal {
                $0.hasLongOffsets = true
                $0.shift = shift
            } == "it contains no sound")
        for chunks in [[], [8], [3, 3], [7, 1], [0, 7], [7, 0]] {
            #expect(Self.refusal { $0.chunks = chunks } == MP4Reader.damaged.description, "\(chunks)")
        }
    }

    @Test("R10: boxes without end, and boxes in boxes, are counted")
    func manyBoxes() {
        let type = MP4Builder.box("ftyp", Array("M4A ".utf8))
        let many = type + (0..<600).flatMap { _ in MP4Builder.box("free", []) }
        #expect(throws: AudioError(.damaged, "it has more than 512 boxes")) { try Self.track(many) }
        for size in [0, 1, 7, 0xffff_ffff] as [UInt32] {
            let movie = MP4Builder.box("moov", size.bigEndianBytes + Array("trak".utf8))
            #expect(throws: AudioError.self, "\(size)") { try Self.track(type + movie) }
        }
        // 64 bits of size.
        let long = [0, 0, 0, 1] + Array("mdat".utf8) + UInt64.max.bigEndianBytes
        #expect(throws: AudioError.self) { try Self.track(type + long) }
        #expect(throws: AudioError.self) { try Self.track([]) }
    }

    @Test("R10: any changed byte ends in packets within the file, or in an error")
    func changes() throws {
        let whole = MP4Builder(Self.packets).file
        var acceptedCount = 0
        for index in whole.indices {
            for change in [0x01, 0x80, 0xff] as [UInt8] {
                var file = whole
                file[index] ^= change
                guard let track = try? Self.track(file) else { continue }
                acceptedCount += 1
                #expect(track.packets.allSatisfy { $0.end <= UInt64(file.count) && $0.byteCount > 0 })
            }
        }
        // The sound itself, and fields that are not read.
        #expect(acceptedCount > 3 * 280)
    }

    @Test func `an ID3v1 tag behind sound without a container is no sound, and no damage`() throws {
        func track(_ file: [UInt8]) throws(AudioError) -> AACTrack {
            try AACTrack(adtsOfSize: UInt64(file.count)) { offset, count in Array(file.dropFirst(Int(offset)).prefix(count)) }
        }
        let sound = AACSample.adts
        let tag = Array("TAG".utf8) + [UInt8](repeating: 0x20, count: 125)
        let tagged = try track(sound + tag)
        #expect(tagged.packets == (try track(sound).packets) && !tagged.isTruncated)
        let others: [[UInt8]] = [Array(tag.dropLast()), tag + [0x20], tag + tag, Array("tag".utf8) + tag.dropFirst(3)]
        for other in others {
            #expect(throws: AudioError.self) { try track(sound + other) }
        }
    }

    @Test func `configurations are understood as libfaad2 does`() throws {
        func configuration(_ bytes: UInt8...) throws -> (Int, Int, Int) {
            let found = try AACConfiguration(bytes)
            return (found.rate, found.channels, found.framesPerPacket)
        }
        #expect(try configuration(0x12, 0x10) == (44_100, 2, 1024))
        #expect(try configuration(0x14, 0x0c) == (16_000, 1, 960))
        #expect(try configuration(0x15, 0x88) == (8_000, 1, 1024))
        // SBR: 22,050 become 44,100; with parametric stereo one channel becomes two.
        #expect(try configuration(0x2b, 0x8a, 0x08, 0x00) == (22_050, 1, 1024))
        #expect(try configuration(0xeb, 0x8a, 0x08, 0x00) == (22_050, 2, 1024))
        // A rate in 24 bits: 16,001.
        #expect(try configuration(0x17, 0x80, 0x1f, 0x40, 0x88) == (16_001, 1, 1024))
        for bytes in [[], [0x12], [0x12, 0xff], [0xff, 0xff, 0xff], [UInt8](repeating: 0x12, count: 65)] as [[UInt8]] {
            #expect(throws: AudioError.self) { try AACConfiguration(bytes) }
        }
    }
}
