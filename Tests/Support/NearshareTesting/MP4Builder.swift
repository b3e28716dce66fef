import NearshareBase

/// Builds MP4 files with a track of AAC sound, independently of the code under test. Every field can be given another value.
package struct MP4Builder: Sendable {
    /// AAC LC, 16,000 samples a second, one channel.
    package static let speech: [UInt8] = [0x14, 0x08]

    package var configuration = Self.speech
    package var codec = "mp4a"
    package var objectType: UInt8 = 0x40
    package var handler = "soun"
    package var packets: [[UInt8]]
    /// The numbers of packets in the chunks; nil for one chunk.
    package var chunks: [Int]?
    /// One size for all packets, instead of a table of their sizes; 0 for the table.
    package var fixedSize = 0
    /// Seconds since 1904.
    package var created: UInt32 = 0
    package var trackCount = 1
    /// Whether the tables are behind the sound, as in the files of recorders.
    package var endsWithTables = true
    package var hasLongOffsets = false
    /// Added to the offset of the first chunk.
    package var shift: Int64 = 0

    package init(_ packets: [[UInt8]]) {
        self.packets = packets
    }

    package var file: [UInt8] {
        let type = Self.box("ftyp", Array("M4A ".utf8) + [0, 0, 2, 0] + Array("isom".utf8))
        let sound = Self.box("mdat", packets.flatMap { $0 })
        if endsWithTables { return type + sound + movie(soundAt: type.count + 8) }
        // The size of the tables does not depend on the offsets in them.
        let tables = movie(soundAt: 0)
        return type + movie(soundAt: type.count + tables.count + 8) + sound
    }

    package static func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
        number(content.count + 8) + Array(type.utf8) + content
    }

    private static func number(_ value: Int) -> [UInt8] { UInt32(truncatingIfNeeded: value).bigEndianBytes }

    private func movie(soundAt offset: Int) -> [UInt8] {
        let track = Self.box("trak", Self.box("mdia", media(soundAt: offset)))
        return Self.box(
            "moov", Self.box("mvhd", [UInt8](repeating: 0, count: 100)) + (0..<trackCount).flatMap { _ in track })
    }

    private func media(soundAt offset: Int) -> [UInt8] {
        let header = Self.box("mdhd", [0, 0, 0, 0] + created.bigEndianBytes + [UInt8](repeating: 0, count: 16))
        let kind = Self.box("hdlr", [UInt8](repeating: 0, count: 8) + Array(handler.utf8) + [UInt8](repeating: 0, count: 13))
        return header + kind + Self.box("minf", Self.box("stbl", tables(soundAt: offset)))
    }

    private func tables(soundAt start: Int) -> [UInt8] {
        let chunks = chunks ?? [packets.count]
        var (offsets, runs): ([UInt8], [UInt8]) = ([], [])
        var (offset, next) = (UInt64(bitPattern: Int64(start) &+ shift), 0)
        for (index, count) in chunks.enumerated() {
            offsets += hasLongOffsets ? offset.bigEndianBytes : UInt32(truncatingIfNeeded: offset).bigEndianBytes
            runs += Self.number(index + 1) + Self.number(count) + Self.number(1)
            for packet in packets.dropFirst(next).prefix(count) { offset &+= UInt64(packet.count) }
            next += count
        }
        let sizes = fixedSize > 0 ? [] : packets.flatMap { Self.number($0.count) }
        return Self.box("stsd", Self.number(0) + Self.number(1) + Self.box(codec, entry))
            + Self.box("stsz", Self.number(0) + Self.number(fixedSize) + Self.number(packets.count) + sizes)
            + Self.box("stsc", Self.number(0) + Self.number(chunks.count) + runs)
            + Self.box(hasLongOffsets ? "co64" : "stco", Self.number(0) + Self.number(chunks.count) + offsets)
    }

    private var entry: [UInt8] {
        func descriptor(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            [tag, 0x80, 0x80, UInt8(content.count >> 7) | 0x80, UInt8(content.count & 0x7f)] + content
        }
        let decoder = [objectType] + [UInt8](repeating: 0, count: 12) + descriptor(5, configuration)
        let stream = descriptor(3, [0, 1, 0] + descriptor(4, decoder) + descriptor(6, [2]))
        return [UInt8](repeating: 0, count: 28) + Self.box("esds", [0, 0, 0, 0] + stream)
    }
}
