package import NearshareBase
package import NearshareInterfaces

/// The AAC sound of a file: the decoder's configuration and the place of each packet.
///
/// A file of a peer is checked in this way before a decoder reads it: in Swift, with limits on sizes and counts, and without its
/// sound.
package struct AACTrack: Sendable {
    package struct Packet: Sendable, Hashable {
        package var offset: UInt64
        package var byteCount: Int

        var end: UInt64 { offset + UInt64(byteCount) }
    }

    package let configuration: AACConfiguration
    /// The packets that lie within the file; none is empty.
    package let packets: [Packet]
    /// The time of the recording, as the file claims it.
    package let recorded: WallTime?
    /// Whether the end of the sound is missing.
    package let isTruncated: Bool
    /// Numbers that are the same for all copies of a recording.
    package let checksums: [UInt32]
    package let byteCount: UInt64

    /// Limit on packets, and so on the memory for their places: three hours at 48,000 frames a second.
    package static let maximumPacketCount = 1 << 19
    /// Limit on the bytes of a packet: 6,144 bits for each of eight channels are the most that AAC allows, and a little more
    /// than the length field of ADTS can state.
    package static let maximumPacketByteCount = 8192

    init(of file: NoteFile) throws(AudioError) {
        let size = file.size
        let read: MP4Reader.Read = { (offset, count) throws(AudioError) in try file.read(count, at: offset) }
        switch try SoundFormat(of: file) {
        case .mp4: try self.init(mp4OfSize: size, read: read)
        case .adts: try self.init(adtsOfSize: size, read: read)
        case .ogg, .other: throw AudioError(.damaged, "it is no MP4 or AAC file")
        }
    }

    private init(
        _ configuration: AACConfiguration, claimed: [Packet], recorded: WallTime?, isTruncated: Bool, checksums: [UInt32],
        size: UInt64
    ) throws(AudioError) {
        self.configuration = configuration
        let packets = claimed.prefix { $0.end <= size }
        guard !packets.isEmpty else { throw AudioError(.damaged, "it contains no sound") }
        // Packets may be in any order, but no byte belongs to two of them.
        let claimedSize = packets.reduce(UInt64(0)) { $0 + UInt64($1.byteCount) }
        guard claimedSize <= size else {
            throw AudioError(.damaged, "it claims a length that \(size.formattedByteCount) cannot contain")
        }
        self.packets = Array(packets)
        self.recorded = recorded
        self.isTruncated = isTruncated || packets.count < claimed.count
        self.checksums = checksums
        byteCount = size
    }

    /// The number of frames, before SBR (spectral band replication) doubles them.
    var frameCount: Int { packets.count * configuration.framesPerPacket }
}

// MARK: MP4 (sections are those of ISO/IEC 14496-12, where no other part is named)

extension AACTrack {
    /// - Parameters:
    ///   - size: the size of the file, in bytes.
    ///   - read: reads from an offset; fewer bytes at the end of the file.
    /// - Throws: ``AudioError/Code/damaged`` for a file that has no sound, several tracks of it, another codec, or a video.
    package init(
        mp4OfSize size: UInt64, read: @escaping (_ offset: UInt64, _ count: Int) throws(AudioError) -> [UInt8]
    ) throws(AudioError) {
        var reader = MP4Reader(size: size, read: read)
        let top = try reader.boxes(in: 0..<size, isFile: true)
        guard top.first?.type == "ftyp" else { throw AudioError(.damaged, "not an MP4 file") }
        guard !top.contains(where: { $0.type == "moof" }) else {
            throw AudioError(.damaged, "it is a fragmented MP4 file, which is not supported")
        }
        let movies = top.filter { $0.type == "moov" }
        guard movies.count == 1 else {
            throw AudioError(
                .damaged, movies.isEmpty ? "it has no table of its sound: it was cut, or not finished" : "it has several tables"
            )
        }
        let media = try Self.soundTrack(in: movies[0], &reader)
        let header = try reader.bytes(of: reader.box("mdhd", in: media.content), upTo: 64)
        let tables = try reader.box("minf", "stbl", in: media.content)
        let configuration = try Self.configuration(in: tables, &reader)
        let (packets, sizes) = try Self.packets(in: tables, &reader)
        try self.init(
            configuration, claimed: packets, recorded: Self.creationTime(header), isTruncated: false,
            checksums: [Self.checksum(header), Self.checksum(sizes)], size: size)
    }

    /// The media box of the only track of sound.
    private static func soundTrack(in movie: MP4Reader.Box, _ reader: inout MP4Reader) throws(AudioError) -> MP4Reader.Box {
        var found: [MP4Reader.Box] = []
        for track in try reader.boxes(in: movie.content) where track.type == "trak" {
            let media = try reader.box("mdia", in: track.content)
            // A full box, four bytes, and the type of the media (section 8.4.3).
            let handler = try reader.prefix(12, of: reader.box("hdlr", in: media.content))
            if handler[8...].elementsEqual("vide".utf8) { throw AudioError(.damaged, "it contains a video") }
            if handler[8...].elementsEqual("soun".utf8) { found.append(media) }
        }
        guard found.count == 1 else {
            throw AudioError(.damaged, found.isEmpty ? "it contains no sound" : "it contains several tracks of sound")
        }
        return found[0]
    }

    /// The configuration of the decoder in a sample description (section 8.5.2; ISO/IEC 14496-14, section 5.6).
    private static func configuration(
        in tables: MP4Reader.Box, _ reader: inout MP4Reader
    ) throws(AudioError) -> AACConfiguration {
        let descriptions = try reader.box("stsd", in: tables.content)
        _ = try reader.prefix(8, of: descriptions)
        let entries = try reader.boxes(in: (descriptions.content.lowerBound + 8)..<descriptions.content.upperBound)
        guard entries.count == 1 else { throw AudioError(.damaged, "its sound has several descriptions") }
        guard entries[0].type == "mp4a" else {
            let codec = ["alac": "Apple Lossless", "samr": "AMR", "sawb": "AMR", "Opus": "Opus"][entries[0].type]
            throw AudioError(.damaged, "its sound is \(codec ?? entries[0].type), not AAC")
        }
        // The fields of an AudioSampleEntry, whose version is that of QuickTime.
        let fields = try reader.prefix(28, of: entries[0])
        guard fields[8] == 0, fields[9] == 0 else {
            throw AudioError(.damaged, "it is a QuickTime file, which is not supported")
        }
        let box = try reader.box("esds", in: (entries[0].content.lowerBound + 28)..<entries[0].content.upperBound)
        let bytes = try reader.bytes(of: box, upTo: 1024)
        let (objectType, configuration): (UInt8, [UInt8])
        do throws(MalformedInput) {
            (objectType, configuration) = try decoderDescription(bytes)
        } catch {
            throw AudioError(.damaged, "the description of its sound is damaged")
        }
        // AAC of MPEG-4, and the three profiles of MPEG-2 (ISO/IEC 14496-1, table 5).
        guard [0x40, 0x66, 0x67, 0x68].contains(objectType) else {
            throw AudioError(.damaged, "its sound is not AAC (object type \(objectType))")
        }
        return try AACConfiguration(configuration)
    }

    /// The type and the configuration of the decoder in an ES descriptor (ISO/IEC 14496-1, sections 7.2.6.5 and 7.2.6.6).
    private static func decoderDescription(
        _ box: [UInt8]
    ) throws(MalformedInput) -> (objectType: UInt8, configuration: [UInt8]) {
        var outer = ByteReader(box, of: "esds")
        _ = try outer.readInteger(UInt32.self)
        var stream = ByteReader(try readDescriptor(3, from: &outer), of: "ES descriptor")
        _ = try stream.readInteger(UInt16.self)
        let flags = try stream.readInteger(UInt8.self)
        if flags & 0x80 != 0 { _ = try stream.readInteger(UInt16.self) }
        if flags & 0x40 != 0 { _ = try stream.readCounted(by: UInt8.self, upTo: 255, field: "URL") }
        if flags & 0x20 != 0 { _ = try stream.readInteger(UInt16.self) }
        var decoder = ByteReader(try readDescriptor(4, from: &stream), of: "decoder descriptor")
        let objectType = try decoder.readInteger(UInt8.self)
        // The kind of stream, the size of the buffer and two bit rates.
        _ = try decoder.readBytes(12)
        return (objectType, Array(try readDescriptor(5, from: &decoder)))
    }

    /// The content of a descriptor, whose size has seven bits in each of up to four bytes (ISO/IEC 14496-1, section 8.3.3).
    private static func readDescriptor(
        _ tag: UInt8, from reader: inout ByteReader
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        guard try reader.readInteger(UInt8.self) == tag else { throw MalformedInput("esds: another descriptor") }
        var count = 0
        for _ in 0..<4 {
            let byte = try reader.readInteger(UInt8.self)
            count = count << 7 | Int(byte & 0x7f)
            if byte & 0x80 == 0 { return try reader.readBytes(count) }
        }
        throw MalformedInput("esds: a size of more than four bytes")
    }

    /// The packets' places in the file, from the tables of sizes, of chunks and of packets in a chunk (sections 8.7.3 to 8.7.5).
    /// - Returns: the packets, and the bytes of the table of sizes.
    private static func packets(
        in tables: MP4Reader.Box, _ reader: inout MP4Reader
    ) throws(AudioError) -> (packets: [Packet], sizes: [UInt8]) {
        let boxes = try reader.boxes(in: tables.content)
        let sizes = try reader.bytes(of: box("stsz", among: boxes), upTo: 12 + 4 * maximumPacketCount)
        guard sizes.count >= 12 else { throw MP4Reader.damaged }
        let (fixedSize, count) = (number(sizes, at: 4), number(sizes, at: 8))
        guard count > 0 else { throw AudioError(.damaged, "it contains no sound") }
        guard count <= maximumPacketCount else {
            throw AudioError(.damaged, "it has \(count) packets of sound; the limit is \(maximumPacketCount)")
        }
        guard fixedSize > 0 || sizes.count >= 12 + 4 * count else { throw MP4Reader.damaged }
        let chunks = try chunkOffsets(among: boxes, reader)
        var packets: [Packet] = []
        packets.reserveCapacity(count)
        for run in try chunkRuns(among: boxes, reader, chunkCount: chunks.count) {
            for chunk in run.chunks {
                var offset = chunks[chunk]
                for _ in 0..<run.packetCount {
                    guard packets.count < count else { throw MP4Reader.damaged }
                    let size = fixedSize > 0 ? fixedSize : number(sizes, at: 12 + 4 * packets.count)
                    let (end, overflow) = offset.addingReportingOverflow(UInt64(size))
                    guard (1...maximumPacketByteCount).contains(size), !overflow else {
                        throw AudioError(.damaged, "it has a packet of \(size) bytes, which AAC does not have")
                    }
                    packets.append(Packet(offset: offset, byteCount: size))
                    offset = end
                }
            }
        }
        guard packets.count == count else { throw MP4Reader.damaged }
        return (packets, sizes)
    }

    /// The offsets of the chunks in the file.
    private static func chunkOffsets(
        among boxes: [MP4Reader.Box], _ reader: MP4Reader
    ) throws(AudioError) -> [UInt64] {
        let isLong = boxes.contains { $0.type == "co64" }
        let width = isLong ? 8 : 4
        let bytes = try reader.bytes(
            of: box(isLong ? "co64" : "stco", among: boxes), upTo: 8 + width * maximumPacketCount)
        let count = try entryCount(of: bytes, entryByteCount: width)
        return (0..<count).map { UInt64(truncatingBigEndian: bytes[(8 + width * $0)..<(8 + width * ($0 + 1))]) }
    }

    /// The runs of chunks that contain the same number of packets.
    private static func chunkRuns(
        among boxes: [MP4Reader.Box], _ reader: MP4Reader, chunkCount: Int
    ) throws(AudioError) -> [(chunks: Range<Int>, packetCount: Int)] {
        let bytes = try reader.bytes(of: box("stsc", among: boxes), upTo: 8 + 12 * maximumPacketCount)
        let count = try entryCount(of: bytes, entryByteCount: 12)
        var runs: [(chunks: Range<Int>, packetCount: Int)] = []
        for index in 0..<count {
            let start = number(bytes, at: 8 + 12 * index)
            // The last run goes on to the last chunk.
            let end = index + 1 < count ? number(bytes, at: 8 + 12 * (index + 1)) : chunkCount + 1
            let packetCount = number(bytes, at: 8 + 12 * index + 4)
            // Chunks are numbered from 1.
            guard start >= 1, index > 0 || start == 1, start < end, end <= chunkCount + 1, packetCount > 0 else {
                throw MP4Reader.damaged
            }
            runs.append(((start - 1)..<(end - 1), packetCount))
        }
        return runs
    }

    /// The only box of a type.
    private static func box(_ type: String, among boxes: [MP4Reader.Box]) throws(AudioError) -> MP4Reader.Box {
        let found = boxes.filter { $0.type == type }
        guard found.count == 1 else {
            throw AudioError(.damaged, "its \(type) box is \(found.isEmpty ? "missing" : "there \(found.count) times")")
        }
        return found[0]
    }

    /// The number of entries that a table states, and has.
    private static func entryCount(of table: [UInt8], entryByteCount: Int) throws(AudioError) -> Int {
        guard table.count >= 8 else { throw MP4Reader.damaged }
        let count = number(table, at: 4)
        // Both factors are below 2^33.
        guard table.count >= 8 + entryByteCount * count else { throw MP4Reader.damaged }
        return count
    }

    /// The big-endian 32-bit number at an index.
    private static func number(_ bytes: [UInt8], at index: Int) -> Int {
        Int(UInt32(truncatingBigEndian: bytes[index..<(index + 4)]))
    }

    /// The time in a media header (section 8.4.2), in seconds since 1904; nil for one before 1970, such as 0.
    private static func creationTime(_ header: [UInt8]) -> WallTime? {
        let isLong = header.first == 1
        guard header.count >= (isLong ? 12 : 8) else { return nil }
        let seconds = UInt64(truncatingBigEndian: header[4..<(isLong ? 12 : 8)])
        // Until the year 2106, as in the short form.
        guard (secondsTo1970...(secondsTo1970 + UInt64(UInt32.max))).contains(seconds) else { return nil }
        return WallTime(milliseconds: Int64(seconds - secondsTo1970) * 1000)
    }

    private static let secondsTo1970: UInt64 = 2_082_844_800

    /// FNV-1a.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        bytes.reduce(0x811c_9dc5) { ($0 ^ UInt32($1)) &* 0x0100_0193 }
    }
}

// MARK: ADTS

extension AACTrack {
    /// Size of an ID3v1 tag, which some programs append to the sound.
    private static let tagByteCount: UInt64 = 128

    /// - Parameters:
    ///   - size: the size of the file, in bytes.
    ///   - read: reads from an offset; fewer bytes at the end of the file.
    package init(
        adtsOfSize size: UInt64, read: (_ offset: UInt64, _ count: Int) throws(AudioError) -> [UInt8]
    ) throws(AudioError) {
        var packets: [Packet] = []
        var first: ADTSHeader?
        var offset: UInt64 = 0
        var end = size
        while offset < size, size - offset >= UInt64(ADTSHeader.maximumByteCount) {
            let bytes = try read(offset, ADTSHeader.maximumByteCount)
            guard let header = ADTSHeader(bytes) else {
                if size - offset == Self.tagByteCount, bytes.starts(with: "TAG".utf8) {
                    end = offset
                    break
                }
                throw AudioError(.damaged, "its AAC sound is damaged after \(packets.count) packets")
            }
            guard packets.count < Self.maximumPacketCount else {
                throw AudioError(.damaged, "it has more than \(Self.maximumPacketCount) packets of sound")
            }
            guard header.configuration == (first ?? header).configuration else {
                throw AudioError(.damaged, "its AAC sound changes after \(packets.count) packets")
            }
            first = first ?? header
            packets.append(
                Packet(
                    offset: offset + UInt64(header.headerByteCount), byteCount: header.frameByteCount - header.headerByteCount))
            offset += UInt64(header.frameByteCount)
        }
        guard let first else { throw AudioError(.damaged, "it contains no sound") }
        try self.init(
            AACConfiguration(first.configuration), claimed: packets, recorded: nil, isTruncated: offset != end,
            checksums: [Self.checksum(read(0, 1 << 16))], size: size)
    }
}
